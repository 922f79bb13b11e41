"""The tools of an agent: functions, registries, other agents and MCP servers as one ``ToolRunner``."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, cast

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.runs.hooks import RunHooks
from multi_llm_chat.tools import ToolRegistry, mcp
from multi_llm_chat.tools.approval import AGENT_APPROVAL, ApprovalCallback
from multi_llm_chat.tools.background_loop import submit
from multi_llm_chat.tools.mcp.server_messages import ElicitationCallback
from multi_llm_chat.tools.tool import DEPS, Resume, Tool
from multi_llm_chat.tools.tool_runner import ToolRunner, is_runner, may_repeat, resume_policy

if TYPE_CHECKING:
    from multi_llm_chat.tools.mcp import McpServers

#: The deps of the run whose tools are called; an agent sets them for each of its runs.
RUN_DEPS: ContextVar[Any] = ContextVar("RUN_DEPS")

_SERVER_KEYS: Final = frozenset({"command", "url"})


class AgentTools:
    """A ``ToolRunner`` over all tools of an agent.

    Args:
        tools: Functions, ``Tool`` values, ``ToolRegistry`` and other ``ToolRunner`` objects, ``McpServers``, MCP
            configurations (``{"mcpServers": {…}}``, ``{"command": …}``, ``{"url": …}``), and agents.
        approve: Called before tools with the policy ``ask`` run, unless their registry has a callback of its own.
        elicit: Called for the forms of MCP servers.
        hooks: Called around each call.
        deps: The object that tools get as ``ToolContext.deps`` if the run has none.
        offered: Whether models are offered the tools, or patterns of the tools that are offered.

    Raises:
        UsageError: Something in ``tools`` is none of these, or two tools have one name.
    """

    def __init__(
        self,
        tools: Iterable[Any] | ToolRunner,
        *,
        approve: ApprovalCallback | None = None,
        elicit: ElicitationCallback | None = None,
        hooks: RunHooks | None = None,
        deps: object = None,
        offered: bool | Sequence[str] = True,
    ) -> None:
        self._patterns = ("*",) if offered is True else tuple(offered or ())
        self._own = ToolRegistry()
        self._approve = approve
        self._elicit = elicit
        self._hooks = hooks or RunHooks()
        self._deps = deps
        self._runners: list[ToolRunner] = [self._own]
        self._servers: list[McpServers] = []
        self._starting: concurrent.futures.Future[None] | None = None
        given = [tools] if is_runner(tools) else _as_list(tools)
        for each in given:
            self._take(each)
        self._require_distinct()

    def _take(self, given: Any) -> None:
        if _is_servers(given):
            self._servers.append(given)
            given = given.registry
        if is_runner(given):
            if given not in self._runners:
                self._runners.append(cast("ToolRunner", given))
        elif isinstance(given, Mapping):
            self._servers.append(self._connect(cast("Mapping[str, Any]", given)))
        else:
            offer = getattr(given, "as_tool", None)
            self._own.add(cast("Callable[[], Tool]", offer)() if callable(offer) else given)

    def _connect(self, given: Mapping[str, Any]) -> "McpServers":
        if "mcpServers" in given:
            entries: Any = given
        elif _SERVER_KEYS & given.keys():
            entries = {"mcpServers": {str(given.get("name", "server")): dict(given)}}
        else:
            raise UsageError(
                "A definition alone has no function that could run. Give the function itself, or an MCP server: "
                '{"command": …} or {"url": …}. To offer mere definitions, use provider.complete(tools=…).'
            )
        # The class needs the extra ``mcp``.
        return mcp.McpServers(entries, self._own, elicit=self._elicit)

    def _require_distinct(self) -> None:
        seen: set[str] = set()
        for definition in self.definitions():
            if definition.name in seen:
                raise UsageError(f"Two tools are called {definition.name!r}; rename one of them")
            seen.add(definition.name)

    async def start(self) -> None:
        """Start the MCP servers, once; runs that begin at the same time wait for the same start."""
        if not self._servers:
            return
        if self._starting is None:
            self._starting = submit(self._start())
        await asyncio.shield(asyncio.wrap_future(self._starting))

    async def _start(self) -> None:
        for servers in self._servers:
            await servers.start()

    async def stop(self) -> None:
        """Stop them."""
        self._starting = None
        for servers in self._servers:
            await servers.stop()

    # The methods that a run calls.

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools on offer."""
        return [
            each
            for runner in self._runners
            for each in runner.definitions()
            if self._offers(each.name)
        ]

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call, with the hooks around it."""
        DEPS.set(RUN_DEPS.get(self._deps))
        AGENT_APPROVAL.set(self._approve)
        prepared = await self._hooks.prepare_call(call)
        if isinstance(prepared, ToolCall):
            call = prepared
            result = await self._runner(call.name).execute(call, conversation=conversation)
        else:
            result = prepared
        return await self._hooks.observe_result(call, result)

    def submit(
        self, call: ToolCall, *, conversation: str | None = None
    ) -> "concurrent.futures.Future[ToolResult]":
        """Run a call in the background loop."""
        return submit(self.execute(call, conversation=conversation))

    def resume(self, name: str) -> Resume:
        """What to do with an interrupted call of the tool."""
        return resume_policy(self._runner(name), name)

    async def may_repeat(self, call: ToolCall, *, conversation: str | None = None) -> bool:
        """Whether an interrupted call may run again."""
        AGENT_APPROVAL.set(self._approve)
        return await may_repeat(self._runner(call.name), call, conversation)

    def _offers(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def _runner(self, name: str) -> ToolRunner:
        if not self._offers(name):
            return ToolRegistry()  # the agent does not offer this tool
        for runner in self._runners[1:]:
            if any(each.name == name for each in runner.definitions()):
                return runner
        return self._own


def _is_servers(value: object) -> bool:
    """Whether these are ``McpServers``; the class itself needs the extra ``mcp``."""
    return hasattr(value, "registry") and callable(getattr(value, "start_sync", None))


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, Mapping) or callable(value):
        return [value]
    return list(value)
