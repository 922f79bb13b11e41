"""All open conversations of all users, and what they share.

Rules:
1. A conversation is open once, however many pages show it; one that nobody looks at and in which nothing happens
   may be closed at any time.
2. Speakers, tools and settings are everybody's; conversations and what was allowed in them are one user's.
3. Changed settings hold for what begins afterwards; what is going on goes on as it was.
4. Answers that were interrupted are gone on with: at the start, and whenever somebody looks at one that nobody gives any more.
   What they ask the user waits until somebody opens the conversation.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.speakers import Speakers
from multi_llm_chat.chat.tool_scope import ScopedTools, in_scope, scope_of, scoped
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Usage
from multi_llm_chat.metering.prices import cost_of
from multi_llm_chat.store import RunInfo, Store, waiting_conversations
from multi_llm_chat.tools.approval import ApprovalCallback, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer
from multi_llm_chat.web.live_conversation import Live
from multi_llm_chat.web.markdown import render_markdown
from multi_llm_chat.web.servers import ToolServers
from multi_llm_chat.web.views import hue_of

#: How many conversations may be open before those that are idle are closed.
MOST_OPEN: Final = 200

_LOGGER = logging.getLogger(__name__)

Opening = Callable[[ApprovalCallback], Workspace]


class Hub:
    """What all requests share; ``opening`` makes the workspace with our way of asking the user."""

    def __init__(self, opening: Opening) -> None:
        self.workspace = opening(self._approve)
        self.servers = ToolServers(self.workspace, self._elicit, self._tools_changed)
        self._lives: dict[str, Live] = {}
        self._deleted: list[Live] = []
        self._outdated: set[str] = set()
        self._old_speakers: list[Speakers] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Task[None] | None = None
        self._resuming: asyncio.Task[None] | None = None
        self._looks: set[asyncio.Task[None]] = set()
        self._warming: asyncio.Task[None] | None = None

    # Life.

    def start(self) -> None:
        """Start what takes long, without waiting for it."""
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        """Start the tools, then go on with answers that were interrupted when the program last ended."""
        await self.servers.start()
        self._starting = None
        self._resume()

    def _resume(self) -> None:
        """Go on with answers that nobody gives, once the tools are there."""
        if self._starting is None and (self._resuming is None or self._resuming.done()):
            self._resuming = asyncio.create_task(self._resume_all())

    async def _resume_all(self) -> None:
        try:
            for waiting in await self.workspace.store.arun(waiting_conversations):
                self.live(waiting.user, waiting.conversation).send_waiting()
            await self.workspace.aresume_runs(on_found=self._found, scoped=scoped)
        except MultiLLMChatError as error:
            _LOGGER.warning("interrupted runs cannot be resumed: %s", error)

    def _found(self, info: RunInfo) -> None:
        """Show at once what is gone on with, to those who look."""
        live = self._lives.get(scope_of(info.user, info.conversation))
        if live is not None:
            task = asyncio.create_task(live.elsewhere.look())
            self._looks.add(task)
            task.add_done_callback(self._looks.discard)

    async def close(self) -> None:
        """End everything; answers that were gone on with are left for the next start."""
        tasks = [*self._looks, *(task for task in (self._starting, self._resuming) if task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._warming is not None:
            await self._warming
        await asyncio.gather(*(live.close() for live in [*self._lives.values(), *self._deleted]))
        for speakers in self._old_speakers:
            await speakers.aclose()
        await self.servers.stop()
        await self.workspace.aclose()

    def hang_up(self) -> None:
        """End all streams, so that the server can end."""
        for live in [*self._lives.values(), *self._deleted]:
            live.log.close()

    # Conversations.

    def store(self, user: str) -> Store:
        """The conversations of a user."""
        return self.workspace.store.as_user(user)

    def live(self, user: str, conversation: str, *, is_new: bool = False) -> Live:
        """An open conversation; ``is_new`` where the store need not have it."""
        scope = scope_of(user, conversation)
        if scope not in self._lives:
            self._close_idle()
            self._warm_up()
            service = ChatService(
                self.workspace.speakers,
                store=self.store(user),
                tools=ScopedTools(self.workspace.tools, scope),
                settings=self.workspace.settings,
                conversation=None if is_new else conversation,
                host=self.workspace.host,
            )
            service.conversation = conversation
            self._lives[scope] = Live(service, lambda: self._list_changed(user), self._resume)
        return self._lives[scope]

    def _warm_up(self) -> None:
        """Load in the background what the first answer would wait for."""
        if self._warming is None:
            self._warming = asyncio.create_task(asyncio.to_thread(_warm))

    def opened(self, user: str, conversation: str) -> Live | None:
        """The conversation, if it is open."""
        scope = scope_of(user, conversation)
        self._renew(scope)
        return self._lives.get(scope)

    def forget(self, user: str, conversation: str) -> None:
        """Close a conversation that was deleted."""
        live = self._lives.pop(scope_of(user, conversation), None)
        if live is not None:
            live.stop()
            self._deleted = [each for each in self._deleted if each.is_busy] + [live]

    def tell_all(self, change: dict[str, Any]) -> None:
        """Change something on all pages."""
        for live in self._lives.values():
            live.log.publish(change)

    def tell(self, user: str, change: dict[str, Any]) -> None:
        """Change something on all pages of a user."""
        for scope, live in self._lives.items():
            if scope.startswith(scope_of(user, "")):
                live.log.publish(change)

    def _list_changed(self, user: str) -> None:
        self.tell(user, {"op": "list"})

    def _close_idle(self) -> None:
        if len(self._lives) < MOST_OPEN:
            return
        for scope in [scope for scope, live in self._lives.items() if live.is_idle]:
            del self._lives[scope]

    # Settings.

    def reload(self) -> None:
        """Read the settings again."""
        workspace = self.workspace
        workspace.settings = read_settings(workspace.folders.config_file)
        old = workspace.__dict__.pop("speakers", None)
        if old is not None:
            self._old_speakers.append(old)
        self._outdated = set(self._lives)
        self.tell_all({"op": "people"})
        for scope in list(self._lives):
            self._renew(scope)

    def _renew(self, scope: str) -> None:
        """Close what was opened with old settings, once nothing goes on there; its pages come back by themselves."""
        live = self._lives.get(scope)
        if live is not None and scope in self._outdated and not live.is_busy:
            self._outdated.discard(scope)
            del self._lives[scope]
            live.log.close()

    def people(self) -> list[dict[str, Any]]:
        """Everybody who can be asked, as pages show them."""
        return [
            {"name": name, "model": self._model(name), "hue": hue_of(name, self.workspace.speakers)}
            for name in self.workspace.speakers
        ]

    def _model(self, name: str) -> str:
        try:
            return self.workspace.speakers[name].provider.model or ""
        except (MultiLLMChatError, ValueError):  # one mistake in a configuration spoils one speaker
            return ""

    # What the user is asked.

    async def _approve(self, request: ApprovalRequest) -> Decision:
        """Ask where the call is shown; if nobody looks, whoever opens the conversation is asked."""
        whose = in_scope(request.conversation)
        if whose is None:
            return Deny("nobody can be asked")
        return await self.live(*whose).decide(request)

    async def _elicit(self, question: Elicitation) -> ElicitationAnswer:
        assert self._loop is not None
        asked = asyncio.run_coroutine_threadsafe(self._ask(question), self._loop)
        return await asyncio.wrap_future(asked)

    async def _ask(self, question: Elicitation) -> ElicitationAnswer:
        """Ask wherever the server is in use, or wherever somebody looks; the first answer counts."""
        lives = list(self._lives.values())
        using = [live for live in lives if self._uses(live, question.server)]
        asked = using or [live for live in lives if live.log.readers]
        if not asked:
            return ElicitationAnswer("decline")
        tasks = [asyncio.ensure_future(live.questions.ask(question)) for live in asked]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        return next(iter(done)).result()

    def _uses(self, live: Live, server: str) -> bool:
        return any(self.workspace.tools.origin(name)[0] == server for name in live.running_tools)

    def _tools_changed(self) -> None:
        self.tell_all({"op": "tools"})


def _warm() -> None:
    """Load what the first answer would otherwise wait for: prices, colours, formulas."""
    cost_of(Usage(1, 1), "openai", "gpt-4o")
    render_markdown("```python\n1\n```\n\n$x$")
