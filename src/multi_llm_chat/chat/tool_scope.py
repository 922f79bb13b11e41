"""Views of the tools: those offered to one speaker, and those in the scope of one user's conversation."""

from collections.abc import Sequence
from concurrent.futures import Future
from fnmatch import fnmatchcase

from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.store import Taken
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.tool import Resume
from multi_llm_chat.tools.tool_runner import ToolRunner, may_repeat, resume_policy


class SomeTools:
    """The tools whose names match one of the patterns; the others do not exist for this speaker."""

    def __init__(self, tools: ToolRunner, patterns: Sequence[str]) -> None:
        self._tools = tools
        self._patterns = tuple(patterns)
        self._nothing = ToolRegistry()

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools that a model is offered."""
        return [each for each in self._tools.definitions() if self._offers(each.name)]

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call; a call of a tool that is not offered gets an error."""
        return await self._for(call).execute(call, conversation=conversation)

    def submit(self, call: ToolCall, *, conversation: str | None = None) -> "Future[ToolResult]":
        """Run a call in the background."""
        return self._for(call).submit(call, conversation=conversation)

    def resume(self, name: str) -> Resume:
        """The resume policy of a tool."""
        return resume_policy(self._tools, name) if self._offers(name) else "never"

    async def may_repeat(self, call: ToolCall, *, conversation: str | None = None) -> bool:
        """Whether an interrupted call may run again."""
        return self._offers(call.name) and await may_repeat(self._tools, call, conversation)

    def _for(self, call: ToolCall) -> ToolRunner:
        return self._tools if self._offers(call.name) else self._nothing

    def _offers(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)


def tools_for(tools: ToolRunner, wanted: bool | Sequence[str]) -> ToolRunner:
    """All tools, some, or none."""
    if wanted is True:
        return tools
    return SomeTools(tools, wanted or ())


class ScopedTools:
    """The tools in the scope of one user's conversation: an approval holds only there."""

    def __init__(self, tools: ToolRunner, scope: str) -> None:
        self._tools = tools
        self._scope = scope

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools that a model is offered."""
        return self._tools.definitions()

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call."""
        del conversation
        return await self._tools.execute(call, conversation=self._scope)

    def submit(self, call: ToolCall, *, conversation: str | None = None) -> "Future[ToolResult]":
        """Run a call in the background."""
        del conversation
        return self._tools.submit(call, conversation=self._scope)

    def resume(self, name: str) -> Resume:
        """The resume policy of a tool."""
        return resume_policy(self._tools, name)

    async def may_repeat(self, call: ToolCall, *, conversation: str | None = None) -> bool:
        """Whether an interrupted call may run again."""
        del conversation
        return await may_repeat(self._tools, call, self._scope)


def scoped(tools: ToolRunner, taken: Taken) -> ToolRunner:
    """The tools in the scope of the run's conversation."""
    return ScopedTools(tools, scope_of(taken.user, taken.conversation))


def scope_of(user: str, conversation: str) -> str:
    """The scope of one user's conversation; other users may have a conversation of the same id."""
    return f"{user}\n{conversation}"


def in_scope(scope: str | None) -> tuple[str, str] | None:
    """The user and the conversation; None where the tools are not scoped."""
    user, is_scoped, conversation = (scope or "").partition("\n")
    return (user, conversation) if is_scoped else None
