"""The open conversations of all users, and the objects that they share.

Rules:
1. A conversation is opened once, however many pages show it. A conversation without an open page and without a running answer may be
   closed at any time.
2. Speakers, tools and settings are shared by all users; conversations, and the approvals given in them, belong to one user.
3. Changed settings apply to answers that start afterwards; running answers keep theirs.
4. Interrupted runs are resumed at the start, and whenever a page shows a run without a living owner. Their questions to the user wait until
   a page of the conversation is opened.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any, Final

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.council import COUNCIL_PREFIX
from multi_llm_chat.chat.speakers import Speakers
from multi_llm_chat.chat.tool_scope import ScopedTools, in_scope, scope_of, scoped
from multi_llm_chat.chat.workspace import Workspace, approval_rules
from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Usage
from multi_llm_chat.metering.prices import cost_of
from multi_llm_chat.store import RunInfo, Store, waiting_conversations
from multi_llm_chat.tools.approval import ApprovalCallback, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer
from multi_llm_chat.web.live_conversation import LiveConversation
from multi_llm_chat.web.markdown import render_markdown
from multi_llm_chat.web.model_catalogue import ModelCatalogue
from multi_llm_chat.web.servers import ToolServers
from multi_llm_chat.web.views import hue_of

#: How many conversations may be open before idle ones are closed.
MOST_OPEN: Final = 200

#: Seconds that a page has between loading and opening its stream before its conversation may be closed; not granted with ten times
#: ``MOST_OPEN`` open conversations.
LOADING_SECONDS: Final = 30.0

#: Seconds from a change of a user's list to the update of the user's other pages, to collect further changes; and the most pages per second
#: that load the list.
LIST_SECONDS: Final = 0.5
LISTS_A_SECOND: Final = 100

#: The setting of a conversation that stores the speakers addressed by its last message.
ADDRESSEES: Final = "addressees"

_LOGGER = logging.getLogger(__name__)

WorkspaceFactory = Callable[[ApprovalCallback], Workspace]


class Hub:
    """The state that all requests share; ``make_workspace`` receives the callback that asks the user for approvals."""

    def __init__(self, make_workspace: WorkspaceFactory) -> None:
        self.workspace = make_workspace(self._approve)
        self.most_open = MOST_OPEN
        self.catalogue = ModelCatalogue(self.workspace)
        self.servers = ToolServers(self.workspace, self.elicit, self._on_tools_changed)
        self._conversations: dict[str, LiveConversation] = {}
        self._deleted: list[LiveConversation] = []
        self._outdated: set[str] = set()
        self._old_speakers: list[Speakers] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Task[None] | None = None
        self._resuming: asyncio.Task[None] | None = None
        self._syncs: set[asyncio.Task[None]] = set()
        self._warm_up_task: asyncio.Task[None] | None = None
        self._changed_lists: dict[str, asyncio.TimerHandle] = {}

    # Start and end.

    def start(self) -> None:
        """Start the tools and resume interrupted runs, in the background."""
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        """Start the tools, then resume the runs that were interrupted when the server last ended."""
        await self.servers.start()
        self._starting = None
        self._resume()

    def _resume(self) -> None:
        """Resume the runs without a living owner, once the tools have started."""
        if self._starting is None and (self._resuming is None or self._resuming.done()):
            self._resuming = asyncio.create_task(self._resume_all())

    async def _resume_all(self) -> None:
        try:
            for waiting in await self.workspace.store.arun(waiting_conversations):
                self.open_conversation(waiting.user, waiting.conversation).send_queued()
            await self.workspace.aresume_runs(on_found=self._on_run_resumed, scoped=scoped)
        except MultiLLMChatError as error:
            _LOGGER.warning("interrupted runs cannot be resumed: %s", error)

    def _on_run_resumed(self, info: RunInfo) -> None:
        """Show a resumed run at once on the pages of its conversation."""
        live = self._conversations.get(scope_of(info.user, info.conversation))
        if live is not None:
            task = asyncio.create_task(live.remote.sync())
            self._syncs.add(task)
            task.add_done_callback(self._syncs.discard)

    async def close(self) -> None:
        """Close all conversations and the workspace; resumed runs are left for the next start."""
        tasks = [*self._syncs, *(task for task in (self._starting, self._resuming) if task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._warm_up_task is not None:
            await self._warm_up_task
        await asyncio.gather(
            *(live.close() for live in [*self._conversations.values(), *self._deleted])
        )
        for speakers in self._old_speakers:
            await speakers.aclose()
        await self.servers.stop()
        await self.workspace.aclose()

    def close_streams(self) -> None:
        """End all streams, so that the server can shut down."""
        for live in [*self._conversations.values(), *self._deleted]:
            live.log.close()

    # Conversations.

    def store(self, user: str) -> Store:
        """The store, scoped to a user."""
        return self.workspace.store.as_user(user)

    def open_conversation(
        self, user: str, conversation: str, *, is_new: bool = False
    ) -> LiveConversation:
        """Open a conversation, or return it if it is open; ``is_new`` if it is not in the store yet."""
        scope = scope_of(user, conversation)
        if scope not in self._conversations:
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
            self._conversations[scope] = LiveConversation(
                service, lambda: self._on_list_changed(user), self._resume, self.origin
            )
        # Most recently used, so the last to be closed.
        live = self._conversations[scope] = self._conversations.pop(scope)
        live.opened_at = time.monotonic()
        return live

    def _warm_up(self) -> None:
        """Load in the background what the first answer needs."""
        if self._warm_up_task is None:
            self._warm_up_task = asyncio.create_task(asyncio.to_thread(_warm))

    def find_open(self, user: str, conversation: str) -> LiveConversation | None:
        """The conversation, if it is open."""
        scope = scope_of(user, conversation)
        self._close_outdated(scope)
        return self._conversations.get(scope)

    def forget(self, user: str, conversation: str) -> None:
        """Close a conversation that was deleted."""
        live = self._conversations.pop(scope_of(user, conversation), None)
        if live is not None:
            live.stop()
            self._deleted = [each for each in self._deleted if each.is_busy] + [live]

    def publish_to_all(self, change: dict[str, Any]) -> None:
        """Publish a change to all pages."""
        for live in self._conversations.values():
            live.log.publish(change)

    def publish_to_user(self, user: str, change: dict[str, Any]) -> None:
        """Publish a change to all pages of a user."""
        for live in self._conversations_of(user):
            live.log.publish(change)

    def _conversations_of(self, user: str) -> Iterator[LiveConversation]:
        start = scope_of(user, "")
        return (live for scope, live in self._conversations.items() if scope.startswith(start))

    def _on_list_changed(self, user: str) -> None:
        """Make the pages of a user load the list again; less often if there are many pages.

        Each page loads the whole list: without a pause, the cost would grow with the square of the conversations.
        """
        if user not in self._changed_lists:
            pages = sum(live.log.readers for live in self._conversations_of(user))
            seconds = max(LIST_SECONDS, pages / LISTS_A_SECOND)
            self._changed_lists[user] = asyncio.get_running_loop().call_later(
                seconds, self._publish_list, user
            )

    def _publish_list(self, user: str) -> None:
        del self._changed_lists[user]
        self.publish_to_user(user, {"op": "list"})

    def _close_idle(self) -> None:
        """Close the least recently used conversations, except those that a page may be about to follow."""
        excess = len(self._conversations) - self.most_open + 1
        if excess <= 0:
            return
        # A page that was just loaded has no stream yet; closing its conversation would force it to reload.
        now = time.monotonic()
        kept_seconds = LOADING_SECONDS if excess < 9 * self.most_open else 0.0
        idle = (
            scope
            for scope, live in self._conversations.items()
            if live.is_idle and now - live.opened_at >= kept_seconds
        )
        for scope in list(islice(idle, excess)):
            del self._conversations[scope]

    # Settings.

    def reload(self) -> None:
        """Read the settings again."""
        workspace = self.workspace
        workspace.settings = read_settings(workspace.folders.config_file)
        workspace.tools.set_rules(approval_rules(workspace.settings))
        self.catalogue.forget()
        old = workspace.__dict__.pop("speakers", None)
        if old is not None:
            self._old_speakers.append(old)
        self._outdated = set(self._conversations)
        self.publish_to_all({"op": "people"})
        for scope in list(self._conversations):
            self._close_outdated(scope)

    def _close_outdated(self, scope: str) -> None:
        """Close a conversation that was opened with old settings, once it is not busy; its pages reconnect by themselves."""
        live = self._conversations.get(scope)
        if live is not None and scope in self._outdated and not live.is_busy:
            self._outdated.discard(scope)
            del self._conversations[scope]
            live.log.close()

    def list_speakers(
        self, addressed: Sequence[str] = (), models: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """All speakers, as pages show them, and whether the next message goes to them; also personas and councils.

        ``models`` are those that the chat has chosen. ``base`` is the speaker whose provider lists the models to choose from;
        councils have none.
        """
        names = self._names
        personas = self.workspace.settings.personas
        return [
            {
                "name": name,
                "model": (models or {}).get(name) or self._model(name),
                "chosen": (models or {}).get(name, ""),
                "base": ""
                if name.startswith(COUNCIL_PREFIX)
                else personas[name].speaker
                if name in personas
                else name,
                "hue": hue_of(name, names),
                "is_addressed": name in addressed,
            }
            for name in names
        ]

    def addressees(self, own: Mapping[str, Any]) -> list[str]:
        """The speakers to whom the next message goes in a conversation with these settings; at least one, if there is any."""
        kept: Any = own.get(ADDRESSEES)
        names = self._names
        found = [name for name in names if isinstance(kept, list) and name in kept]
        default: Any = own.get("default_speaker") or self.workspace.settings.default_speaker
        return found or [name for name in names if name == default] or names[:1]

    @property
    def _names(self) -> list[str]:
        settings = self.workspace.settings
        councils = (f"{COUNCIL_PREFIX}{name}" for name in settings.councils)
        return [*self.workspace.speakers, *settings.personas, *councils]

    def _model(self, name: str) -> str:
        panel = self.workspace.settings.councils.get(name.removeprefix(COUNCIL_PREFIX))
        if panel is not None and name.startswith(COUNCIL_PREFIX):
            return ", ".join(panel.members)
        try:
            return self.workspace.speakers[name].provider.model or ""
        except (MultiLLMChatError, ValueError):
            # An error in the settings of one speaker must not hide the others.
            return ""

    # Questions to the user.

    async def _approve(self, request: ApprovalRequest) -> Decision:
        """Ask on the pages of the conversation; without an open page the question waits for the next one."""
        owner = in_scope(request.conversation)
        if owner is None:
            return Deny("no user can be asked")
        return await self.open_conversation(*owner).ask_approval(request)

    async def elicit(self, question: Elicitation) -> ElicitationAnswer:
        """Show the form of a tool server to the user it is meant for; may be called from any event loop."""
        assert self._loop is not None
        asked = asyncio.run_coroutine_threadsafe(self._ask(question), self._loop)
        return await asyncio.wrap_future(asked)

    async def _ask(self, question: Elicitation) -> ElicitationAnswer:
        """Ask in the conversations for whose calls the server may be asking; the first answer counts.

        Outside any call, as for a sign-in, ask in all conversations with an open page. If calls of several users are in flight and the
        server does not name the call, it gets no answer: a user must not see or answer another user's form.
        """
        owners = {owner for scope in question.conversations if (owner := in_scope(scope))}
        if len({user for user, _ in owners}) > 1:
            _LOGGER.warning(
                "declined a form of %s: calls of several users are in flight, and it does not say for which it asks",
                question.server,
            )
            return ElicitationAnswer("decline")
        asked = [self.open_conversation(*owner) for owner in owners]
        if not question.conversations:
            asked = [live for live in self._conversations.values() if live.log.readers]
        if not asked:
            return ElicitationAnswer("decline")
        tasks = [asyncio.ensure_future(live.forms.ask(question)) for live in asked]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        return next(iter(done)).result()

    def origin(self, name: str) -> tuple[str, str]:
        """The server of a tool and its name there; for a tool that does not exist any more only the name."""
        try:
            return self.workspace.tools.origin(name)
        except MultiLLMChatError:
            return "", name

    def count_waiting(self, user: str) -> dict[str, int]:
        """How many questions wait in each open conversation of a user."""
        start = scope_of(user, "")
        return {
            scope.removeprefix(start): live.waiting_count
            for scope, live in self._conversations.items()
            if scope.startswith(start) and live.waiting_count
        }

    def _on_tools_changed(self) -> None:
        self.publish_to_all({"op": "tools"})


def _warm() -> None:
    """Load prices, the HTTP client, the highlighter and the formula converter."""
    import_module("multi_llm_chat.http.async_transport")
    cost_of(Usage(1, 1), "openai", "gpt-4o")
    render_markdown("```python\n1\n```\n\n$x$")
