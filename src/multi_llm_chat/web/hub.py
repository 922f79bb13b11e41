"""All open conversations of all users, and what they share.

Rules:
1. A conversation is open once, however many pages show it; one that nobody looks at and in which nothing happens
   may be closed at any time.
2. Speakers, tools and settings are everybody's; conversations and what was allowed in them are one user's.
3. Changed settings hold for what begins afterwards; what is going on goes on as it was.
"""

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from multi_llm_chat.config.reading import read_settings
from multi_llm_chat.errors import MultiLLMChatError, UsageError
from multi_llm_chat.history.values import ToolCall, ToolResult, Turn
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.service.chat import ChatService
from multi_llm_chat.service.speakers import Speakers
from multi_llm_chat.service.workspace import Workspace
from multi_llm_chat.store import Store
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.approval import ApprovalCallback, ApprovalRequest, Decision, Deny
from multi_llm_chat.tools.mcp import (
    Elicitation,
    ElicitationAnswer,
    Prompt,
    ServerEvent,
    StateChanged,
)
from multi_llm_chat.web.drawing import Drawing
from multi_llm_chat.web.live import Live
from multi_llm_chat.web.views import hue_of

#: How many conversations may be open before those that are idle are closed.
MOST_OPEN: Final = 200

Opening = Callable[[ApprovalCallback], Workspace]


class ScopedTools:
    """The tools as one user's conversation has them: what is allowed here is allowed nowhere else."""

    def __init__(self, tools: ToolRegistry, scope: str) -> None:
        self._tools = tools
        self._scope = scope

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools on offer."""
        return self._tools.definitions()

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call."""
        del conversation
        return await self._tools.execute(call, conversation=self._scope)

    def submit(
        self, call: ToolCall, *, conversation: str | None = None
    ) -> "concurrent.futures.Future[ToolResult]":
        """Run a call in the background."""
        del conversation
        return self._tools.submit(call, conversation=self._scope)


class Hub:
    """What all requests share; ``opening`` makes the workspace with our way of asking the user."""

    def __init__(self, opening: Opening) -> None:
        self.workspace = opening(self._approve)
        self._lives: dict[str, Live] = {}
        self._stale: list[Live] = []
        self._old_speakers: list[Speakers] = []
        self._added: list[Any] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting: asyncio.Task[None] | None = None

    # Life.

    async def start(self) -> None:
        """Start the tools' servers, without waiting for them."""
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.create_task(self.start_tools())

    async def start_tools(self) -> None:
        """Start the tools' servers."""
        try:
            await self.workspace.astart_tools(elicit=self._elicit, on_event=self._server_event)
        except MultiLLMChatError as error:
            self.workspace.problems.append(str(error))
        self.tell_all({"op": "tools"})

    async def close(self) -> None:
        """End everything."""
        if self._starting is not None:
            self._starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._starting
        await asyncio.gather(*(live.close() for live in [*self._lives.values(), *self._stale]))
        for speakers in self._old_speakers:
            await speakers.aclose()
        for servers in self._added:
            await servers.stop()
        await self.workspace.aclose()

    def hang_up(self) -> None:
        """End all streams, so that the server can end."""
        for live in [*self._lives.values(), *self._stale]:
            live.log.close()

    # Conversations.

    def store(self, user: str) -> Store:
        """The conversations of a user."""
        return self.workspace.store.as_user(user)

    def live(self, user: str, conversation: str, drawing: Drawing, *, is_new: bool = False) -> Live:
        """An open conversation; ``is_new`` where the store need not have it."""
        scope = _scope(user, conversation)
        if scope not in self._lives:
            self._close_idle()
            service = ChatService(
                self.workspace.speakers,
                store=self.store(user),
                tools=ScopedTools(self.workspace.tools, scope),
                settings=self.workspace.settings,
                conversation=None if is_new else conversation,
            )
            service.conversation = conversation
            self._lives[scope] = Live(service, drawing, lambda: self._list_changed(user))
        return self._lives[scope]

    def opened(self, user: str, conversation: str) -> Live | None:
        """The conversation, if it is open."""
        return self._lives.get(_scope(user, conversation))

    def forget(self, user: str, conversation: str) -> None:
        """Close a conversation that was deleted."""
        live = self._lives.pop(_scope(user, conversation), None)
        if live is not None:
            live.stop()
            self._stale.append(live)

    def tell_all(self, change: dict[str, Any]) -> None:
        """Change something on all pages."""
        for live in self._lives.values():
            live.log.publish(change)

    def tell(self, user: str, change: dict[str, Any]) -> None:
        """Change something on all pages of a user."""
        for scope, live in self._lives.items():
            if scope.startswith(_scope(user, "")):
                live.log.publish(change)

    def _list_changed(self, user: str) -> None:
        self.tell(user, {"op": "list"})

    def _close_idle(self) -> None:
        if len(self._lives) < MOST_OPEN:
            return
        for scope in [scope for scope, live in self._lives.items() if live.is_idle]:
            del self._lives[scope]

    # Servers of tools.

    async def add_servers(self, document: str) -> None:
        """Start more servers."""
        # The door to a heavy dependency: only who has servers needs it.
        from multi_llm_chat.tools.mcp import McpServers  # noqa: PLC0415

        more = McpServers(
            document, self.workspace.tools, elicit=self._elicit, on_event=self._server_event
        )
        self._added.append(more)
        await more.start()
        self.tell_all({"op": "tools"})

    def server_states(self) -> list[StateChanged]:
        """How each server is doing."""
        return [state for servers in self._servers for state in servers.states()]

    async def restart_server(self, name: str) -> None:
        """Start a server again that was given up."""
        await self._of(name).restart(name)
        self.tell_all({"op": "tools"})

    async def prompts(self) -> list[Prompt]:
        """The prompts of all servers that are there."""
        found: list[Prompt] = []
        for state in self.server_states():
            if state.state == "ready":
                with contextlib.suppress(MultiLLMChatError, Exception):  # most have none
                    found += await self._of(state.server).prompts(state.server)
        return found

    async def prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> list[Turn]:
        """A prompt, filled in."""
        return await self._of(server).get_prompt(server, name, arguments)

    @property
    def _servers(self) -> list[Any]:
        first = self.workspace.servers
        return [*([first] if first is not None else []), *self._added]

    def _of(self, name: str) -> Any:
        for servers in self._servers:
            if any(state.server == name for state in servers.states()):
                return servers
        raise UsageError(f"There is no server {name!r}")

    # Settings.

    def reload(self) -> None:
        """Read the settings again."""
        workspace = self.workspace
        workspace.settings = read_settings(workspace.folders.config_file)
        old = workspace.__dict__.pop("speakers", None)
        if old is not None:
            self._old_speakers.append(old)
        self._stale += [live for live in self._lives.values() if live.is_busy]
        lives, self._lives = self._lives, {}
        for live in lives.values():
            # Pages come back to a conversation that is opened with the new settings.
            live.log.publish({"op": "page"})
            if not live.is_busy:
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
        live = self._lives.get(request.conversation or "") or next(
            (live for live in self._stale if live.is_busy), None
        )
        return await live.decide(request) if live is not None else Deny("nobody can be asked")

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
        tasks = [asyncio.ensure_future(live.elicit(question)) for live in asked]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        return next(iter(done)).result()

    def _uses(self, live: Live, server: str) -> bool:
        return any(self.workspace.tools.origin(name)[0] == server for name in live.running_tools)

    def _server_event(self, event: ServerEvent) -> None:
        """A server came, went or changed; told in another thread."""
        del event
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.tell_all, {"op": "tools"})


def _scope(user: str, conversation: str) -> str:
    return f"{user}\n{conversation}"
