"""The MCP servers of the web app: configured ones, and those added while it runs.

Rules:
1. No request waits for a server to start; the ``mcp`` package is imported in a thread.
2. A server that cannot start is reported in the panel and does not affect the others.
3. Of each server the last ``MOST_LINES`` lines of its log are kept in memory: its states, its messages and its error output.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from multi_llm_chat.errors import MultiLLMChatError, UsageError
from multi_llm_chat.history.values import Turn
from multi_llm_chat.tools.mcp import (
    ElicitationCallback,
    Prompt,
    ServerEvent,
    ServerLogged,
    StateChanged,
)
from multi_llm_chat.tools.registry import ToolListing

if TYPE_CHECKING:
    from multi_llm_chat.chat.workspace import Workspace

#: The time limit of a start; until then the page shows a server as starting, and its tools are offered once it is ready.
_START_SECONDS: Final = 10.0
#: The most lines of a server's log, and the most characters of a line.
MOST_LINES: Final = 200
_LONGEST_LINE: Final = 500
_MISSING: Final = "MCP servers need the package mcp: pip install 'multi_llm_chat[mcp]'"


class LogLine(Struct, frozen=True):
    """A line of a server's log; ``level`` is a state, or the level of a message."""

    at: float
    level: str
    text: str

    @property
    def clock(self) -> str:
        """The time of day."""
        return time.strftime("%H:%M:%S", time.localtime(self.at))


class ToolGroup(Struct, frozen=True):
    """The tools of a server, or those of this program."""

    source: str
    state: str
    message: str
    tools: tuple[ToolListing, ...]

    @property
    def enabled(self) -> int:
        """How many tools are enabled."""
        return sum(tool.enabled for tool in self.tools)


class ToolServers:
    """The servers of a workspace; ``on_change`` is called whenever a server or its tools change."""

    def __init__(
        self, workspace: "Workspace", elicit: ElicitationCallback, on_change: Callable[[], None]
    ) -> None:
        self._workspace = workspace
        self._elicit = elicit
        self._on_change = on_change
        self._added: list[Any] = []
        self._logs: dict[str, deque[LogLine]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start the configured servers, and wait until each is ready or has failed."""
        self._loop = asyncio.get_running_loop()
        await self._start()

    async def add(self, document: str) -> None:
        """Start more servers; return when they are listed."""
        if not await asyncio.to_thread(_load_package):
            self._workspace.problems.append(_MISSING)
            return
        # A large dependency that only users of servers need.
        from multi_llm_chat.tools.mcp import McpServers  # noqa: PLC0415

        added = McpServers(
            document,
            self._workspace.tools,
            elicit=self._elicit,
            on_event=self._on_event,
            tokens=self._workspace.server_tokens(),
            patience=_START_SECONDS,
        )
        await added.begin()  # a page that is loaded now shows them as starting
        self._added.append(added)
        self._start_task(self._start_added(added))

    async def stop(self) -> None:
        """Stop the added servers; the workspace stops the configured ones."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for servers in self._added:
            await servers.stop()

    def states(self) -> list[StateChanged]:
        """The state of each server."""
        return [state for servers in self._all for state in servers.states()]

    def groups(self) -> list[ToolGroup]:
        """All tools of the workspace, by the server they come from."""
        states = {state.server: state for state in self.states()}
        listing = self._workspace.tools.listing()
        sources = dict.fromkeys([*states, *(tool.source for tool in listing)])
        return [
            ToolGroup(
                source,
                states[source].state if source in states else "ready",
                states[source].message if source in states else "",
                tuple(tool for tool in listing if tool.source == source),
            )
            for source in sources
        ]

    def starting(self) -> list[str]:
        """The servers that are still starting; an answer that starts now does not get their tools."""
        return [state.server for state in self.states() if state.state == "starting"]

    async def restart(self, name: str) -> None:
        """Start a server again."""
        await self._owner_of(name).restart(name)
        self._on_change()

    async def remove(self, name: str) -> None:
        """End a server; its tools are withdrawn."""
        await self._owner_of(name).remove(name)
        self._on_change()

    def has(self, name: str) -> bool:
        """Whether there is a server of that name."""
        return any(state.server == name for state in self.states())

    def log(self, name: str) -> list[LogLine]:
        """The last lines of a server's log."""
        return list(self._logs.get(name, ()))

    async def prompts(self) -> list[Prompt]:
        """The prompts of all servers that are ready."""
        found: list[Prompt] = []
        for state in self.states():
            if state.state == "ready":
                # Most servers have none, and report it in many ways.
                with contextlib.suppress(Exception):
                    found += await self._owner_of(state.server).prompts(state.server)
        return found

    async def prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> list[Turn]:
        """A prompt with its arguments filled in."""
        return await self._owner_of(server).get_prompt(server, name, arguments)

    def _start_task(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> None:
        if self._workspace.configured_servers().servers:
            await asyncio.to_thread(_load_package)
        try:
            await self._workspace.astart_tools(
                elicit=self._elicit, on_event=self._on_event, patience=_START_SECONDS
            )
        except MultiLLMChatError as error:
            self._workspace.problems.append(str(error))
        self._on_change()

    async def _start_added(self, servers: Any) -> None:
        await servers.start()
        self._on_change()

    @property
    def _all(self) -> list[Any]:
        first = self._workspace.servers
        return [*([first] if first is not None else []), *self._added]

    def _owner_of(self, name: str) -> Any:
        for servers in self._all:
            if any(state.server == name for state in servers.states()):
                return servers
        raise UsageError(f"There is no server {name!r}")

    def _on_event(self, event: ServerEvent) -> None:
        """A server or its tools have changed, or it has logged a line; called in the background loop's thread."""
        match event:
            case StateChanged():
                line = LogLine(time.time(), event.state, event.message[:_LONGEST_LINE])
            case ServerLogged():
                line = LogLine(time.time(), event.level, str(event.data)[:_LONGEST_LINE])
            case _:
                line = None
        if line is not None:
            self._logs.setdefault(event.server, deque(maxlen=MOST_LINES)).append(line)
        if isinstance(event, ServerLogged):
            return
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._on_change)


def _load_package() -> bool:
    """Import the ``mcp`` package, which takes about a second; return whether it is installed."""
    try:
        import_module("multi_llm_chat.tools.mcp.servers")
    except ImportError:
        return False
    return True
