"""Assembles the turn of a reply while the reply arrives, and handles the end of the reply.

Rules:
1. A turn is a list of drafts in the order of the reply; an empty draft becomes no part.
2. Fragments are kept as received and joined once: the cost is linear in the reply's length.
3. The partial turn of an interrupted reply has its text, its media and its closed calls. Thinking is left out
   even if it is complete: its signature covers a turn that was never finished (STR-16).
4. Calls decide the finish reason: if there are calls, it is ``tool_calls``, whatever
   the provider says, unless a filter stopped the reply; without calls it is never ``tool_calls`` (STR-06).
5. A reply with a finish reason is complete; one that ends without one raises ``StreamBroken``, with the
   turn so far and no unfinished call.
6. An error inside a reply (STR-09) is kept as ``failure`` with the turn so far. Reading never
   raises it; ``end`` does. Everything after it is ignored.
7. Unreadable data breaks the reply, unless the reply is already complete: then it is ignored.
8. ``Usage`` and ``Finish`` are emitted exactly once, by ``end`` if not before.
9. A reply has at most ``DecodeContext.parts`` parts; one more raises ``OverLimit``, which ``Exchange`` reports.
"""

from typing import Protocol

from multi_llm_chat.data_limits import OverLimit
from multi_llm_chat.errors import ProviderError, StreamBroken
from multi_llm_chat.events import (
    Event,
    Finish,
    FinishReason,
    NativeItem,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from multi_llm_chat.history.values import (
    Extras,
    JsonObject,
    Media,
    Native,
    Part,
    Text,
    Thinking,
    Turn,
)
from multi_llm_chat.protocol._failures import ErrorDetails, judge
from multi_llm_chat.protocol.calls import CallAssembly, DecodeContext

_STOPPED_BY_FILTER = frozenset({"refusal", "safety"})


class PartDraft(Protocol):
    """A part while its fragments arrive."""

    @property
    def finished(self) -> bool:
        """Return whether the part is complete."""
        ...

    def parts(self) -> tuple[Part, ...]:
        """Return the part (or parts) so far."""
        ...


class TextDraft:
    """A text of the answer."""

    def __init__(self, context: DecodeContext) -> None:
        self._origin = context.origin
        self.fragments: list[str] = []
        #: Provider-specific fields of the text (citations, ``phase``); they become its extras.
        self.extras: JsonObject = {}
        self.finished = False

    def add(self, text: str) -> list[Event]:
        """Add a piece of the text."""
        if not text:
            return []
        self.fragments.append(text)
        return [TextDelta(text)]

    def parts(self) -> tuple[Part, ...]:
        """Return the text, if there is any."""
        text = "".join(self.fragments)
        if not text:
            return ()
        return (Text(text, Extras(self._origin, dict(self.extras)) if self.extras else None),)


class ThinkingDraft:
    """A model's reasoning, with the opaque data that its provider checks."""

    def __init__(self, context: DecodeContext) -> None:
        self._origin = context.origin
        self.fragments: list[str] = []
        self.opaque: JsonObject = {}
        self.finished = False

    def add(self, text: str) -> list[Event]:
        """Add a piece of the reasoning."""
        if not text:
            return []
        self.fragments.append(text)
        return [ThinkingDelta(text)]

    def parts(self) -> tuple[Part, ...]:
        """Return the thinking, if there is text or opaque data."""
        content = "".join(self.fragments)
        if not content and not self.opaque:
            return ()
        return (Thinking(content, self._origin, dict(self.opaque)),)


class WholeDraft:
    """A part that arrives complete: an image, sound or file, or a provider-specific item."""

    finished = True

    def __init__(self, part: Media | Native) -> None:
        self._part = part

    def parts(self) -> tuple[Part, ...]:
        """Return the part."""
        return (self._part,)


class Assembly:
    """All parts of one reply."""

    def __init__(self, context: DecodeContext) -> None:
        self._context = context
        self._drafts: list[PartDraft] = []
        self.calls = CallAssembly(context)
        self.closed = False

    @property
    def parts(self) -> tuple[Part, ...]:
        """The finished parts in order; all of them once the reply is closed."""
        return tuple(
            part
            for draft in self._drafts
            if self.closed or draft.finished
            for part in draft.parts()
        )

    def open_text(self) -> TextDraft:
        """Begin a text."""
        draft = TextDraft(self._context)
        self._place(draft)
        return draft

    def open_thinking(self) -> ThinkingDraft:
        """Begin a piece of reasoning."""
        draft = ThinkingDraft(self._context)
        self._place(draft)
        return draft

    def add_media(self, media: Media) -> None:
        """Add an image, sound or file."""
        self._place(WholeDraft(media))

    def add_native(self, kind: str, text: str, raw: JsonObject) -> list[Event]:
        """Add a provider-specific item, with its readable text."""
        item = Native(kind, text, self._context.origin, raw)
        self._place(WholeDraft(item))
        return [NativeItem(item)]

    def add_call(
        self,
        *,
        key: int | None = None,
        wire_id: str | None = None,
        name: str | None = None,
        arguments: object = None,
        separate: bool = False,
    ) -> list[Event]:
        """Add one fragment of a call, see ``CallAssembly.add``."""
        if key is not None and not name and not wire_id and arguments and type(arguments) is str:
            added = self.calls.add_fragment(key, arguments)
            if added is not None:
                return added
        draft, events = self.calls.add(
            key=key, wire_id=wire_id, name=name, arguments=arguments, separate=separate
        )
        if not draft.placed:
            draft.placed = True
            self._place(draft)
        return events

    def add_refused_call(self, name: str, arguments: str, refusal: str) -> list[Event]:
        """Add a call that the server rejected, see ``CallAssembly.add_refused``."""
        draft, events = self.calls.add_refused(name, arguments, refusal)
        self._place(draft)
        return events

    def _place(self, draft: PartDraft) -> None:
        if len(self._drafts) >= self._context.parts:
            raise OverLimit(f"more than {self._context.parts:,} parts")
        self._drafts.append(draft)

    def partial(self) -> Turn:
        """Return the partial turn of an interrupted reply."""
        parts = tuple(
            part
            for draft in self._drafts
            for part in draft.parts()
            if not isinstance(part, Thinking)
        )
        return Turn("assistant", parts, model=self._context.origin.model or None)

    def close(self, reason: FinishReason, raw: str, usage: Usage | None) -> list[Event]:
        """Close the reply; return the events of the calls that were open, the usage and the finish."""
        events = self.calls.close_all(cut=reason == "length")
        self.closed = True
        if usage is not None:
            events.append(usage)
        events.append(Finish(self._settle(reason), raw))
        return events

    def _settle(self, reason: FinishReason) -> FinishReason:
        if self.calls.calls:
            return reason if reason in _STOPPED_BY_FILTER else "tool_calls"
        return "stop" if reason == "tool_calls" else reason


# The end of a reply.


class ReplyDecoder:
    """The base class of the decoders of all dialects."""

    def __init__(self, context: DecodeContext) -> None:
        self.context = context
        self.failure: ProviderError | None = None
        self.done = False  # the rest of the stream is ignored
        self._assembly = Assembly(context)
        self._usage: Usage | None = None
        self._reason: FinishReason | None = None
        self._raw_reason = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The finished parts in order; all of them once the reply has ended."""
        return self._assembly.parts

    @property
    def usage(self) -> Usage | None:
        """The tokens that the provider has counted so far; None if it has not reported any."""
        return self._usage

    def end(self) -> list[Event]:
        """Handle the end of the stream; return the last events.

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

    def _fail(self, fault: ErrorDetails) -> list[Event]:
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
