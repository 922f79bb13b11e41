"""Tool calls from the events of an Anthropic stream that somebody else reads.

Rules:
1. An event may be a mapping or an object with attributes, such as the official SDK's.
2. All events may be given; only those about ``tool_use`` blocks and the end matter.
3. A call is given out as soon as its arguments are whole; one without arguments when something
   else follows, for only that tells it was not cut off.
4. All rules are those of our own decoder: it does the work.
"""

from typing import Any

from multi_llm_chat.compat.finished_calls import FinishedCalls
from multi_llm_chat.protocol.anthropic.decode import FRAMES, AnthropicDecoder
from multi_llm_chat.protocol.calls import DecodeContext


class AnthropicToolCallAssembler:
    """Puts ``tool_use`` blocks together."""

    def __init__(self, context: DecodeContext | None = None) -> None:
        self._decoder = AnthropicDecoder(context or DecodeContext())
        self._finished = FinishedCalls()

    def process_event(self, event: object) -> dict[str, Any] | None:
        """Take one event of the stream.

        Returns:
            ``{name, arguments, tool_call_id}`` of a call that is now complete, or None.
        """
        return self._finished.take(self._decoder.read_frame(FRAMES.fit(event)))

    def finalize(self) -> list[dict[str, Any]]:
        """Close all calls; give out those that were not given out before."""
        return self._finished.take_all(self._decoder.close_calls())
