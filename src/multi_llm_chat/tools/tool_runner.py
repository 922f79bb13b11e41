"""The interface between a run and the tools of its model."""

import concurrent.futures
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.tools.tool import Resume


class ToolRunner(Protocol):
    """Runs tools; ``ToolRegistry`` is one."""

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools on offer."""
        ...

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call; always returns one result."""
        ...

    def submit(
        self, call: ToolCall, *, conversation: str | None = None
    ) -> "concurrent.futures.Future[ToolResult]":
        """Run a call in the background."""
        ...


@runtime_checkable
class ResumingRunner(Protocol):
    """A runner with a policy for interrupted calls."""

    def resume(self, name: str) -> Resume:
        """The policy for interrupted calls of the tool."""
        ...


@runtime_checkable
class AskingRunner(Protocol):
    """A runner that can ask the user about an interrupted call."""

    async def may_repeat(self, call: ToolCall, *, conversation: str | None = None) -> bool:
        """Whether the call runs again."""
        ...


def is_runner(value: object) -> bool:
    """Whether the value is a ``ToolRunner``."""
    return all(callable(getattr(value, name, None)) for name in ("definitions", "execute"))


async def may_repeat(tools: ToolRunner, call: ToolCall, conversation: str | None) -> bool:
    """Whether an interrupted call runs again; False if the runner cannot ask the user."""
    return isinstance(tools, AskingRunner) and await tools.may_repeat(
        call, conversation=conversation
    )


def resume_policy(tools: ToolRunner, name: str) -> Resume:
    """The policy for interrupted calls of the tool; ``ask`` for a runner without a policy."""
    return tools.resume(name) if isinstance(tools, ResumingRunner) else "ask"
