"""Finished tool calls as plain dictionaries, for applications that read a provider's own stream.

Rules:
1. A call is given out once, as soon as it is known to be complete, in the order of completion.
2. ``error`` and ``raw_arguments`` are there only where the arguments could not be read: such a
   call must not be run.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from multi_llm_chat.events import Event, ToolCallEnd
from multi_llm_chat.history.values import ToolCall


class FinishedCalls:
    """The calls that were completed and not yet given out."""

    def __init__(self) -> None:
        self._calls: deque[dict[str, Any]] = deque()

    def take(self, events: Iterable[Event]) -> dict[str, Any] | None:
        """Note the calls that the events complete; give out the oldest one, if there is any."""
        self._note(events)
        return self._calls.popleft() if self._calls else None

    def take_all(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Note the calls that the events complete; give out all."""
        self._note(events)
        calls = list(self._calls)
        self._calls.clear()
        return calls

    def _note(self, events: Iterable[Event]) -> None:
        self._calls.extend(
            as_dict(event.call) for event in events if isinstance(event, ToolCallEnd)
        )


def as_dict(call: ToolCall) -> dict[str, Any]:
    """Write a call as ``{name, arguments, tool_call_id}``, and what is wrong with it."""
    written: dict[str, Any] = {
        "name": call.name,
        "arguments": call.arguments,
        "tool_call_id": call.tool_call_id,
    }
    if call.error is not None:
        written["error"] = call.error
        written["raw_arguments"] = call.raw_arguments or ""
    return written
