"""Tools within a run that is kept.

Rules:
1. What was found out before is not found out again.
2. A call that was interrupted and is the user's to decide about is begun again only when the user has said so. Where
   nobody can be asked, its outcome stays unknown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future

from multi_llm_chat.durable.recording import Record
from multi_llm_chat.durable.saving import Save
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.tools.runner import ToolRunner, may_repeat
from multi_llm_chat.tools.values import IDEMPOTENCY_KEY


class RecordedTools:
    """Runs calls that the journal does not answer, each under its idempotency key."""

    def __init__(
        self,
        tools: ToolRunner,
        record: Record,
        save: Callable[[Save], Awaitable[None]] | None = None,
    ) -> None:
        """Calls that go on from a journal need somebody to ``save`` what is decided about them."""
        self._tools = tools
        self._record = record
        self._save = save

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools on offer."""
        return self._tools.definitions()

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call, unless its result is known or nobody knows it."""
        if self._save is not None and self._record.is_doubtful(call):
            again = await may_repeat(self._tools, call, conversation)
            for save in self._record.decide(call, again=again):
                await self._save(save)
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
