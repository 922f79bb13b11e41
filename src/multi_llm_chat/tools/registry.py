"""The tools that models may call, and the code that runs every call.

Rules:
1. ``execute`` returns exactly one result for a call, also if the tool fails; it raises only if the task that awaits it is cancelled.
2. A tool does not run if it is unknown, disabled, not on the allow-list or refused, or if the arguments do not fit the whole schema.
3. Definitions are in the order in which the tools were added; a tool that is added again gets its old position and name.
4. Approvals of a tool are forgotten when its definition, its own policy or its source changes.
5. A rule names a tool with its source, ``files/read_file``; ``/run`` is the function ``run`` of the program. A rule without a source
   applies to tools of every source; if it lets a server's tool run without asking, that is logged once.
6. Several threads may use and change it: a reader sees either the complete old or the complete new state.
"""

import asyncio
import concurrent.futures
import fnmatch
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast, overload

from msgspec import Struct, structs

from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.schema.cleanup import clean_schema
from multi_llm_chat.tools._execution import run_tool
from multi_llm_chat.tools._signatures import function_tool
from multi_llm_chat.tools._tool_names import Names, suggest
from multi_llm_chat.tools.approval import (
    EDITED_CALL,
    ApprovalCallback,
    ApprovalRequest,
    Approvals,
)
from multi_llm_chat.tools.background_loop import submit, wait_for
from multi_llm_chat.tools.schema_validation import SchemaCheck
from multi_llm_chat.tools.tool import (
    Approval,
    NotRun,
    ProgressCallback,
    Resume,
    Tool,
    ToolContext,
    ToolHint,
    ToolOutput,
)
from multi_llm_chat.tools.tool_output import note_edit
from multi_llm_chat.tools.tool_runner import ToolRunner, is_runner

#: Seconds that a tool may take.
DEFAULT_TIMEOUT: Final = 30.0
#: Characters of text in one result, about twelve thousand tokens.
DEFAULT_OUTPUT: Final = 50_000

_Function = TypeVar("_Function", bound=Callable[..., Any])
_LOGGER = logging.getLogger(__name__)


class _Entry(Struct, frozen=True):
    tool: Tool
    definition: ToolDefinition
    check: SchemaCheck


class ToolListing(Struct, frozen=True):
    """A tool in a list for people."""

    name: str
    original: str
    source: str
    description: str
    enabled: bool
    approval: Approval
    hints: tuple[ToolHint, ...] = ()


class ToolRegistry:
    """The tools that models may call: Python functions, and the tools of MCP servers.

    Args:
        timeout: Seconds that a tool without its own limit may take.
        max_output: Characters of text in one result.
        approve: Called before tools with the policy ``ask`` run; without it they do not run.
        allow: Names or patterns (``git_*``) of the only tools that may be offered and run.
        disable: Names or patterns of tools that are neither offered nor run, also of tools added later.
        rules: Approval policies by source and name or pattern (``files/read_*``), which override a tool's own policy. A rule with the
            tool's source and exact name decides, else the first one that matches.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        *,
        timeout: float = DEFAULT_TIMEOUT,
        max_output: int = DEFAULT_OUTPUT,
        approve: ApprovalCallback | None = None,
        allow: Iterable[str] | None = None,
        disable: Iterable[str] = (),
        rules: Mapping[str, Approval] | None = None,
    ) -> None:
        self.timeout = timeout
        self.max_output = max_output
        self.approvals = Approvals(approve)
        self._allowed = None if allow is None else tuple(allow)
        self._unwanted = tuple(disable)
        self._rules: dict[str, Approval] = dict(rules or {})
        self._enabled: frozenset[str] = frozenset()
        self._names = Names()
        self._known: dict[str, tuple[ToolDefinition, Approval, Resume]] = {}
        self._warned: set[tuple[str, str]] = set()
        self._entries: dict[str, _Entry] = {}
        self._disabled: frozenset[str] = frozenset()
        self._policies: dict[str, Approval] = {}
        self._lock = threading.RLock()
        for each in _members(tools):
            self.add(each)

    # Adding and removing.

    @overload
    def tool(self, function: _Function, /) -> _Function: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: float | None = None,
        approval: Approval = "always",
        resume: Resume = "ask",
        max_output: int | None = None,
    ) -> Callable[[_Function], _Function]: ...

    def tool(
        self, function: _Function | None = None, /, **settings: Any
    ) -> _Function | Callable[[_Function], _Function]:
        """Offer a function to the models: ``@registry.tool`` or ``@registry.tool(timeout=5, …)``.

        The function itself is not changed. Its schema comes from its annotations and docstring.

        Raises:
            UsageError: The name is taken, or the signature cannot be expressed as a schema.
        """

        def register(wanted: _Function) -> _Function:
            self.add(function_tool(wanted, **settings))
            return wanted

        return register if function is None else register(function)

    def add(self, tool: Tool | Callable[..., Any]) -> str:
        """Add a tool or a function; return the name under which it is offered.

        Raises:
            UsageError: It is neither, the name is taken, or its schema cannot be used.
        """
        if not isinstance(tool, Tool):
            if not callable(tool):
                raise UsageError(f"{tool!r} is no tool that could run: give a function")
            tool = function_tool(tool)
        with self._lock:
            if not tool.source and tool.name in self._entries:
                raise UsageError(f"there already is a tool named {tool.name!r}; remove it first")
            (name,) = self._names.give(tool.source, [tool.name])
            self._put({name: _entry(name, tool)})
        return name

    def replace_source(self, source: str, tools: Sequence[Tool]) -> list[str]:
        """Replace all tools of a source with these; return their names. A tool with an unusable schema is left out."""
        distinct = {tool.name: structs.replace(tool, source=source) for tool in reversed(tools)}
        ordered = list(reversed(distinct.values()))
        with self._lock:
            names = self._names.give(source, [tool.name for tool in ordered])
            added: dict[str, _Entry] = {}
            for name, tool in zip(names, ordered, strict=True):
                try:
                    added[name] = _entry(name, tool)
                except UsageError as error:
                    _LOGGER.warning("tool %r of %r is not offered: %s", tool.name, source, error)
            self._entries = {
                name: entry for name, entry in self._entries.items() if entry.tool.source != source
            }
            self._put(added)
        return list(added)

    def remove(self, name: str) -> None:
        """Remove a tool; its name stays reserved."""
        with self._lock:
            self._require(name)
            self._entries = {key: entry for key, entry in self._entries.items() if key != name}

    def _put(self, added: dict[str, _Entry]) -> None:
        for name, entry in added.items():
            seen = (entry.definition, entry.tool.approval, entry.tool.resume)
            if self._known.get(name, seen) != seen:
                self.approvals.forget_tool(name)
            self._known[name] = seen
            self._warn(name, entry.tool)
        merged = self._entries | added
        self._entries = {name: merged[name] for name in self._known if name in merged}

    # Selection.

    def enable(self, *names: str) -> None:
        """Offer these tools again."""
        with self._lock:
            chosen = {self._require(name) for name in names}
            self._disabled -= chosen
            self._enabled |= chosen

    def disable(self, *names: str) -> None:
        """Neither offer nor run these tools."""
        with self._lock:
            chosen = {self._require(name) for name in names}
            self._disabled |= chosen
            self._enabled -= chosen

    def allow(self, names: Iterable[str] | None) -> None:
        """Set the allow-list: names or patterns of the only tools to offer and run; ``None`` lifts it."""
        self._allowed = None if names is None else tuple(names)

    def set_approval(self, name: str, approval: Approval) -> None:
        """Set the approval policy of a tool; overrides the tool's own."""
        with self._lock:
            self._policies = {**self._policies, self._require(name): approval}

    def set_rules(self, rules: Mapping[str, Approval]) -> None:
        """Replace the approval rules; policies set with ``set_approval`` are removed."""
        with self._lock:
            self._rules = dict(rules)
            self._policies = {}

    def is_enabled(self, name: str) -> bool:
        """Whether the tool is offered and may run."""
        if name not in self._entries or name in self._disabled:
            return False
        if self._unwanted and name not in self._enabled and _matches(name, self._unwanted):
            return False
        return self._allowed is None or _matches(name, self._allowed)

    def _require(self, name: str) -> str:
        if name not in self._entries:
            raise UsageError(f"there is no tool named {name!r}")
        return name

    # Queries.

    def definitions(self) -> list[ToolDefinition]:
        """The tools to offer to a model."""
        return [entry.definition for name, entry in self._entries.items() if self.is_enabled(name)]

    def names(self) -> list[str]:
        """The names of all tools, including those that are not offered."""
        return list(self._entries)

    def listing(self) -> list[ToolListing]:
        """All tools, including those that are not offered."""
        return [
            ToolListing(
                name,
                entry.tool.name,
                entry.tool.source,
                entry.tool.description,
                self.is_enabled(name),
                self.approval(name),
                entry.tool.hints,
            )
            for name, entry in self._entries.items()
        ]

    def origin(self, name: str) -> tuple[str, str]:
        """The source (empty for a function) and the original name of the tool offered as ``name``."""
        return self._names.origin(name)

    def approval(self, name: str) -> Approval:
        """Whether the user is asked before the tool runs."""
        tool = self._entries[self._require(name)].tool
        chosen = self._policies.get(name)
        if chosen is None:
            found = self._rule_for(name, tool)
            chosen = None if found is None else found[1]
        return chosen or tool.approval

    def _rule_for(self, name: str, tool: Tool) -> tuple[str, Approval] | None:
        """The rule with the tool's source and exact name, or the first one that matches it."""
        if not self._rules:
            return None
        full = f"{tool.source}/{tool.name}"
        if full in self._rules:
            return full, self._rules[full]
        return next(
            (
                (pattern, ruled)
                for pattern, ruled in self._rules.items()
                if _matches(full if "/" in pattern else name, [pattern])
            ),
            None,
        )

    def _warn(self, name: str, tool: Tool) -> None:
        """Log a rule that lets a server's tool run although the rule names no server."""
        found = self._rule_for(name, tool)
        if not tool.source or found is None or found[1] != "always" or tool.approval == "always":
            return
        pattern = found[0]
        if "/" not in pattern and pattern != "*" and (pattern, name) not in self._warned:
            self._warned.add((pattern, name))
            _LOGGER.warning(
                "the rule %r names no server, and lets %r of the server %r run without asking; write %r",
                pattern, name, tool.source, f"{tool.source}/{tool.name}",
            )  # fmt: skip

    def resume(self, name: str) -> Resume:
        """The policy for interrupted calls of the tool; ``never`` for an unknown one."""
        entry = self._entries.get(name)
        return "never" if entry is None else entry.tool.resume

    async def may_repeat(self, call: ToolCall, *, conversation: str | None = None) -> bool:
        """Ask the user whether an interrupted call runs again; False if there is no approval callback."""
        try:
            entry = self._admitted(call)
            if self.approval(call.name) == "never":
                return False
            request = _request(call, entry, conversation)
            await self.approvals.require_again(structs.replace(request, interrupted=True))
        except NotRun:
            return False
        return True

    # Running.

    async def execute(
        self,
        call: ToolCall,
        *,
        conversation: str | None = None,
        request_id: str | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> ToolResult:
        """Run a call and return its result; a failure becomes a result, too.

        Args:
            call: The call of the model.
            conversation: The conversation in which "allow in this conversation" holds.
            request_id: Repeated in approval requests and progress events.
            on_progress: Called in this event loop while the tool runs; it must not wait.
        """
        loop = asyncio.get_running_loop()
        context = ToolContext(
            call,
            conversation=conversation,
            request_id=request_id,
            on_progress=on_progress,
            loop=loop,
        )
        try:
            output = await self._answer(call, context)
            result = ToolResult(call.name, output.content, call.tool_call_id, output.is_error)
        except NotRun as refusal:
            result = _in_its_place(call, str(refusal))
        except Exception:
            _LOGGER.exception("running the tool %r failed", call.name)
            text = f"The tool {call.name!r} could not be run: internal error."
            result = _in_its_place(call, text)
        finally:
            context.close()
        is_edited = context.call is not call
        return note_edit(result, context.call.arguments) if is_edited else result

    def submit(
        self,
        call: ToolCall,
        *,
        conversation: str | None = None,
        request_id: str | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> "concurrent.futures.Future[ToolResult]":
        """Run the call in the background loop; several calls run concurrently.

        Cancelling the future cancels the call. ``on_progress`` is called in the background loop's thread.
        """
        return submit(
            self.execute(
                call, conversation=conversation, request_id=request_id, on_progress=on_progress
            )
        )

    def execute_sync(
        self,
        call: ToolCall,
        *,
        conversation: str | None = None,
        request_id: str | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> ToolResult:
        """``execute`` for code without an event loop."""
        return wait_for(
            self.execute(
                call, conversation=conversation, request_id=request_id, on_progress=on_progress
            )
        )

    def execute_tool(self, name: str, tool_input: object = None) -> Any:
        """Run a tool by name and return its return value. Validation, approval and limits apply as for a call of a model.

        Args:
            name: The tool's name.
            tool_input: Its arguments: an object, or its JSON text.

        Raises:
            ToolError: There is no such tool, its arguments do not fit, or it failed.
        """
        arguments, raw, error = parse_arguments(tool_input)
        result = self.execute_sync(ToolCall(name, arguments, "", raw, error))
        if result.is_error:
            raise ToolError(str(result.content))
        return result.content

    async def _answer(self, call: ToolCall, context: ToolContext[Any]) -> ToolOutput:
        entry = self._admitted(call)
        entry.check.require(call.name, call.arguments)
        tool = entry.tool
        request = _request(call, entry, context.conversation, context.request_id)
        arguments = await self.approvals.require(self.approval(call.name), request)
        if arguments is not call.arguments:
            context.call = _with_arguments(call, arguments)
        timeout = self.timeout if tool.timeout is None else tool.timeout
        limit = self.max_output if tool.max_output is None else tool.max_output
        return await run_tool(tool, arguments, context, timeout, limit)

    def _admitted(self, call: ToolCall) -> _Entry:
        entry = self._entries.get(call.name)
        if entry is None:
            offered = [name for name in self._entries if self.is_enabled(name)]
            raise NotRun(f"There is no tool named {call.name!r}. {suggest(call.name, offered)}")
        if not self.is_enabled(call.name):
            raise NotRun(f"The tool {call.name!r} is switched off. Do without it.")
        if call.error is not None:
            raise NotRun(
                f"The arguments of {call.name!r} could not be used, so it was not run: "
                f"{call.error}. Call it again with one JSON object that fits its schema."
            )
        return entry


def tools_from(given: object) -> ToolRunner:
    """The runner itself, or a registry of the functions and ``Tool`` values in a list.

    Raises:
        UsageError: It is neither, or an item of the list is not a tool that can run.
    """
    if is_runner(given):
        return cast("ToolRunner", given)
    return ToolRegistry(_members(given))


def definitions_of(given: object) -> object:
    """The definitions of functions, ``Tool`` values, registries and definitions, in any mixture."""
    if given is None or isinstance(given, ToolDefinition | Mapping):
        return cast("object", given)
    if is_runner(given):
        return list(cast("ToolRunner", given).definitions())
    offered: list[object] = []
    for each in _members(given):
        if isinstance(each, ToolDefinition):
            offered.append(each)
        elif is_runner(each):
            offered += cast("ToolRunner", each).definitions()
        elif isinstance(each, Tool) or callable(each):
            tool = each if isinstance(each, Tool) else function_tool(each)
            offered.append(ToolDefinition(tool.name, tool.description, tool.schema))
        else:
            offered.append(each)
    return offered


def _members(given: object) -> Iterable[Any]:
    if callable(given) or isinstance(given, Tool):
        return (given,)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        return cast("Iterable[Any]", given)
    raise UsageError(
        f"tools must be functions, a ToolRegistry or a list of definitions (actual type: {type(given).__name__})"
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _entry(name: str, tool: Tool) -> _Entry:
    schema = clean_schema(tool.schema)
    return _Entry(tool, ToolDefinition(name, tool.description, schema), SchemaCheck(schema))


def _request(
    call: ToolCall, entry: _Entry, conversation: str | None, request_id: str | None = None
) -> ApprovalRequest:
    """The approval request for a call, with the arguments that a person gave it in an earlier attempt."""
    tool, edited, written = entry.tool, EDITED_CALL.get(), None
    if edited is not None and edited.tool_call_id == call.tool_call_id:
        call, written = _with_arguments(call, edited.arguments), call.arguments
    return ApprovalRequest(
        call,
        tool.name,
        tool.source,
        tool.description,
        conversation,
        request_id,
        schema=entry.definition.schema,
        written=written,
        hints=tool.hints,
    )


def _with_arguments(call: ToolCall, arguments: JsonObject) -> ToolCall:
    return structs.replace(call, arguments=arguments, raw_arguments=None)


def _in_its_place(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.name, text, call.tool_call_id, is_error=True, synthetic=True)
