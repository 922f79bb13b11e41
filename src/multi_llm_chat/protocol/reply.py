"""How a reply ends: complete, broken, or with the provider's own error.

Rules:
1. A reply that said why it ended is complete; one that just stops is ``StreamBroken``, with the
   turn so far and no unfinished call.
2. An error inside a reply (STR-09) is kept as ``failure`` with the turn so far. Reading never
   raises it; ``end`` does. Everything behind it is ignored.
3. Text that cannot be read breaks the reply, unless it was complete already: then it is ignored.
4. Usage and finish are given out once, at the latest by ``end``.
"""

from multi_llm_chat.errors import ProviderError, StreamBroken
from multi_llm_chat.events import Event, FinishReason, Usage
from multi_llm_chat.history.values import Part
from multi_llm_chat.protocol.decode_context import DecodeContext
from multi_llm_chat.protocol.failures import Fault, judge
from multi_llm_chat.protocol.turn_assembly import Assembly


class ReplyDecoder:
    """What the decoders of all dialects have in common."""

    def __init__(self, context: DecodeContext) -> None:
        self.context = context
        self.failure: ProviderError | None = None
        self.done = False  # nothing that follows matters
        self._assembly = Assembly(context)
        self._usage: Usage | None = None
        self._reason: FinishReason | None = None
        self._raw_reason = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The finished parts in order; all of them once the reply has ended."""
        return self._assembly.parts

    def end(self) -> list[Event]:
        """Take the end of the stream.

        Raises:
            StreamBroken: The reply was not complete.
            ProviderError: The reply contained an error.
        """
        if not self.done and self._reason is None:
            self._break("The reply stopped before it was complete.")
        if self.failure is not None:
            raise self.failure
        return self._close()

    def close_calls(self) -> list[Event]:
        """Close the calls that are open, without ending the reply."""
        return self._assembly.calls.close_all(cut=self._reason == "length")

    def _close(self) -> list[Event]:
        if self.done:
            return []
        self.done = True
        return self._assembly.close(self._reason or "stop", self._raw_reason, self._usage)

    def _fail(self, fault: Fault) -> list[Event]:
        if not self.done:
            self.done = True
            self.failure = judge(
                fault, provider=self.context.origin.provider, partial=self._assembly.partial()
            )
        return []

    def _break(self, message: str) -> list[Event]:
        if not self.done and self._reason is None:
            self.done = True
            self.failure = StreamBroken(
                f"{message} What arrived until then is kept; ask again to continue.",
                provider=self.context.origin.provider,
                partial=self._assembly.partial(),
            )
        return []

    def _unreadable(self) -> list[Event]:
        return self._break("The reply contained something that cannot be read.")
