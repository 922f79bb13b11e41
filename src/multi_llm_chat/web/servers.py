"""The MCP servers while the program runs: those that are configured, and those that are added.

Rules:
1. Starting takes as long as it takes, and nobody waits for it: the package, too, is loaded in a thread.
2. What cannot be started is told in the panel, and hinders nothing else.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from multi_llm_chat.errors import MultiLLMChatError, UsageError
from multi_llm_chat.history.values import Turn
from multi_llm_chat.tools.mcp import ElicitationCallback, Prompt, ServerEvent, StateChanged
from multi_llm_chat.tools.registry import ToolListing

if TYPE_CHECKING:
    from multi_llm_chat.chat.workspace import Workspace

#: Seconds; the page shows which servers are still starting, and their tools are offered when they arrive.
_PATIENCE: Final = 10.0
_MISSING: Final = "MCP servers need the package mcp: pip install 'multi_llm_chat[mcp]'"


class ToolGroup(Struct, frozen=True):
    """A server's tools, or those of this program."""

    source: str
    state: str
    message: str
    tools: tuple[ToolListing, ...]

    @property
    def enabled(self) -> int:
        """How many are switched on."""
        return sum(tool.enabled for tool in self.tools)


class ToolServers:
    """The servers of a workspace; ``changed`` is called whenever something about them is new."""

    def __init__(
        self, workspace: "Workspace", elicit: ElicitationCallback, changed: Callable[[], None]
    ) -> None:
        self._workspace = workspace
        self._elicit = elicit
        self._changed = changed
        self._added: list[Any] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start those that are configured, and wait until each is there or not."""
        self._loop = asyncio.get_running_loop()
        await self._start()

    def add(self, document: str) -> None:
        """Start more of them, without waiting for them."""
        self._soon(self._add(document))

    async def stop(self) -> None:
        """End those that were added; the configured ones end with the workspace."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for servers in self._added:
            await servers.stop()

    def states(self) -> list[StateChanged]:
        """How each server is doing."""
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
        """The servers that are still starting: an answer that begins now goes without their tools."""
        return [state.server for state in self.states() if state.state == "starting"]

    async def restart(self, name: str) -> None:
        """Start a server again that was given up."""
        await self._of(name).restart(name)
        self._changed()

    async def prompts(self) -> list[Prompt]:
        """The prompts of all servers that are there."""
        found: list[Prompt] = []
        for state in self.states():
            if state.state == "ready":
                with contextlib.suppress(
                    Exception
                ):  # most servers have none, and say so in many ways
                    found += await self._of(state.server).prompts(state.server)
        return found

    async def prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> list[Turn]:
        """A prompt, filled in."""
        return await self._of(server).get_prompt(server, name, arguments)

    def _soon(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> None:
        if self._workspace.configured_servers().servers:
            await asyncio.to_thread(_load)
        try:
            await self._workspace.astart_tools(
                elicit=self._elicit, on_event=self._event, patience=_PATIENCE
            )
        except MultiLLMChatError as error:
            self._workspace.problems.append(str(error))
        self._changed()

    async def _add(self, document: str) -> None:
        if await asyncio.to_thread(_load):
            # The door to a heavy dependency: only who has servers needs it.
            from multi_llm_chat.tools.mcp import McpServers  # noqa: PLC0415

            more = McpServers(
                document,
                self._workspace.tools,
                elicit=self._elicit,
                on_event=self._event,
                patience=_PATIENCE,
            )
            self._added.append(more)
            await more.start()
        else:
            self._workspace.problems.append(_MISSING)
        self._changed()

    @property
    def _all(self) -> list[Any]:
        first = self._workspace.servers
        return [*([first] if first is not None else []), *self._added]

    def _of(self, name: str) -> Any:
        for servers in self._all:
            if any(state.server == name for state in servers.states()):
                return servers
        raise UsageError(f"There is no server {name!r}")

    def _event(self, event: ServerEvent) -> None:
        """A server came, went or changed; told in another thread."""
        del event
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._changed)


def _load() -> bool:
    """Load what servers need: a second that nobody should wait for. Tells whether it is there."""
    try:
        import_module("multi_llm_chat.tools.mcp.servers")
    except ImportError:
        return False
    return True
