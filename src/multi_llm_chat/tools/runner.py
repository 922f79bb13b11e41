"""What whoever runs a model with tools needs to know of the tools."""

import concurrent.futures
from collections.abc import Sequence
from typing import Protocol

from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition


class ToolRunner(Protocol):
    """Whoever runs the tools; ``ToolRegistry`` is one."""

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools on offer."""
        ...

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call; it always gives one result."""
        ...

    def submit(
        self, call: ToolCall, *, conversation: str | None = None
    ) -> "concurrent.futures.Future[ToolResult]":
        """Run a call in the background."""
        ...
