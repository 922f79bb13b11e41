"""Tools within a run that is kept: what was found out before is not found out again."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future

from multi_llm_chat.durable.recording import Record
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.tools.runner import ToolRunner
from multi_llm_chat.tools.values import IDEMPOTENCY_KEY


class RecordedTools:
    """Runs calls that the journal does not answer, each under its idempotency key."""

    def __init__(self, tools: ToolRunner, record: Record) -> None:
        self._tools = tools
        self._record = record

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools on offer."""
        return self._tools.definitions()

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call, unless its result is known or nobody knows it."""
        known = self._record.answer(call)
        if known is not None:
            return known
        IDEMPOTENCY_KEY.set(self._record.key(call))
        return await asyncio.create_task(self._tools.execute(call, conversation=conversation))

    def submit(self, call: ToolCall, *, conversation: str | None = None) -> "Future[ToolResult]":
        """The same in the background."""
        known = self._record.answer(call)
        if known is not None:
            found: Future[ToolResult] = Future()
            found.set_result(known)
            return found
        before = IDEMPOTENCY_KEY.set(self._record.key(call))
        try:
            return self._tools.submit(call, conversation=conversation)
        finally:
            IDEMPOTENCY_KEY.reset(before)
