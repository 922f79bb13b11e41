"""The results of one round of tools, while they can still be changed.

Rules:
1. The model is told the results as they are when the review is over; each call keeps exactly one.
2. It may be used from any thread until then.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.tools.tool_runner import ToolRunner


class ToolRound:
    """One round: its calls and their results."""

    def __init__(
        self,
        calls: Sequence[ToolCall],
        results: Mapping[str, ToolResult],
        tools: ToolRunner,
        conversation: str | None,
    ) -> None:
        self.calls = tuple(calls)
        ids = [call.tool_call_id for call in calls]
        self._results = {one: results[one] for one in ids if one in results}
        self._tools = tools
        self._conversation = conversation

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results as the model would be told them now, in the order of the calls."""
        return tuple(self._results.values())

    def modify_tool_result(self, tool_call_id: str, content: Any) -> ToolResult:
        """Tell the model something else than the tool did."""
        self._call(tool_call_id)
        edited = msgspec.structs.replace(self._results[tool_call_id], content=content)
        self._results[tool_call_id] = edited
        return edited

    def reexecute_tool(self, tool_call_id: str) -> ToolResult:
        """Run a tool again and take its new result."""
        call = self._call(tool_call_id)
        result = self._tools.submit(call, conversation=self._conversation).result()
        self._results[tool_call_id] = result
        return result

    def _call(self, tool_call_id: str) -> ToolCall:
        for call in self.calls:
            if call.tool_call_id == tool_call_id and tool_call_id in self._results:
                return call
        waiting = ", ".join(self._results) or "none"
        raise UsageError(f"No result of {tool_call_id!r} waits to be told (waiting: {waiting})")
