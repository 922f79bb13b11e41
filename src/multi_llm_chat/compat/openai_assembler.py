"""Tool calls from the deltas of an OpenAI-compatible stream that somebody else reads.

Rules:
1. A delta may be a mapping or an object with attributes, such as the official SDK's.
2. A call is given out when another has begun and its own arguments are whole, else by
   ``finalize``: so interleaved calls are never cut short.
3. All quirks are those of ``protocol.calls``, the same as in our own decoder.
"""

from typing import Any

from multi_llm_chat.compat.finished_calls import FinishedCalls, as_dict
from multi_llm_chat.events import Event
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.protocol.calls import CallAssembly, DecodeContext
from multi_llm_chat.protocol.openai_chat.chunks import CALLS, CallDelta, FunctionDelta


class OpenAIToolCallAssembler:
    """Puts streamed tool calls together."""

    def __init__(self, context: DecodeContext | None = None) -> None:
        self._calls = CallAssembly(context or DecodeContext())
        self._finished = FinishedCalls()

    def process_tool_call(self, tool_call_delta: object) -> dict[str, Any] | None:
        """Take one element of ``delta.tool_calls``.

        Returns:
            ``{name, arguments, tool_call_id}`` of an earlier call that is now complete, or None.
        """
        return self._finished.take(_add(self._calls, CALLS.fit(tool_call_delta)))

    def finalize(self) -> list[dict[str, Any]]:
        """Close all calls; give out those that were not given out before."""
        return self._finished.take_all(self._calls.close_all())


def parse_openai_tool_call(tool_call: object) -> dict[str, Any]:
    """Read one whole tool call of a message.

    Returns:
        ``{name, arguments, tool_call_id}``, with ``error`` and ``raw_arguments`` where the
        arguments are not a JSON object. Name and id are empty where there are none.
    """
    call = CALLS.fit(tool_call)
    function = call.function or FunctionDelta()
    arguments, text, error = parse_arguments(function.arguments)
    return as_dict(ToolCall(function.name or "", arguments, call.id or "", text, error))


def _add(calls: CallAssembly, delta: CallDelta) -> list[Event]:
    function = delta.function or FunctionDelta()
    _, events = calls.add(
        key=delta.index, wire_id=delta.id, name=function.name, arguments=function.arguments
    )
    return events
