"""The turn that a reply becomes, put together while the reply arrives.

Rules:
1. A turn is a list of drafts in the order of the reply; an empty draft leaves no part.
2. Fragments are kept as they came and joined once: the cost is linear in the reply's length.
3. An interrupted reply leaves its text, its media and its closed calls. Its thinking is left out
   even where it was whole: its signature covers a turn that was never finished (STR-16).
4. Calls decide why the reply ended: where there are calls the reason is ``tool_calls``, whatever
   the provider said, unless a filter stopped it; without calls it is not (STR-06).
"""

from typing import Protocol

from multi_llm_chat.events import Event, Finish, FinishReason, TextDelta, ThinkingDelta, Usage
from multi_llm_chat.history.values import JsonObject, Media, Part, Text, Thinking, Turn
from multi_llm_chat.protocol.calls import CallAssembly
from multi_llm_chat.protocol.decode_context import DecodeContext

_STOPPED_BY_FILTER = frozenset({"refusal", "safety"})


class Draft(Protocol):
    """A part under construction."""

    @property
    def finished(self) -> bool:
        """Tell whether nothing more will come."""
        ...

    def parts(self) -> tuple[Part, ...]:
        """Give what it is so far."""
        ...


class TextDraft:
    """Words of the answer."""

    def __init__(self) -> None:
        self.fragments: list[str] = []
        self.finished = False

    def add(self, text: str) -> list[Event]:
        """Take more words."""
        if not text:
            return []
        self.fragments.append(text)
        return [TextDelta(text)]

    def parts(self) -> tuple[Part, ...]:
        """Give the text, if there is any."""
        text = "".join(self.fragments)
        return (Text(text),) if text else ()


class ThinkingDraft:
    """A model's reasoning and what its provider needs to recognise it."""

    def __init__(self, context: DecodeContext) -> None:
        self._origin = context.origin
        self.fragments: list[str] = []
        self.opaque: JsonObject = {}
        self.finished = False

    def add(self, text: str) -> list[Event]:
        """Take more words."""
        if not text:
            return []
        self.fragments.append(text)
        return [ThinkingDelta(text)]

    def parts(self) -> tuple[Part, ...]:
        """Give the thinking, if there are words or opaque data."""
        content = "".join(self.fragments)
        if not content and not self.opaque:
            return ()
        return (Thinking(content, self._origin, dict(self.opaque)),)


class MediaDraft:
    """A picture, sound or file: always whole."""

    finished = True

    def __init__(self, media: Media) -> None:
        self._media = media

    def parts(self) -> tuple[Part, ...]:
        """Give the media."""
        return (self._media,)


class Assembly:
    """Everything one reply consists of."""

    def __init__(self, context: DecodeContext) -> None:
        self._context = context
        self._drafts: list[Draft] = []
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
        draft = TextDraft()
        self._drafts.append(draft)
        return draft

    def open_thinking(self) -> ThinkingDraft:
        """Begin a piece of reasoning."""
        draft = ThinkingDraft(self._context)
        self._drafts.append(draft)
        return draft

    def add_media(self, media: Media) -> None:
        """Take a picture, sound or file."""
        self._drafts.append(MediaDraft(media))

    def add_call(
        self,
        *,
        key: int | None = None,
        wire_id: str | None = None,
        name: str | None = None,
        arguments: object = None,
        separate: bool = False,
    ) -> list[Event]:
        """Take one fragment of a call, see ``CallAssembly.add``."""
        draft, events = self.calls.add(
            key=key, wire_id=wire_id, name=name, arguments=arguments, separate=separate
        )
        if not draft.placed:
            draft.placed = True
            self._drafts.append(draft)
        return events

    def add_refused_call(self, name: str, arguments: str, refusal: str) -> list[Event]:
        """Take a call that the server did not pass on, see ``CallAssembly.add_refused``."""
        draft, events = self.calls.add_refused(name, arguments, refusal)
        self._drafts.append(draft)
        return events

    def partial(self) -> Turn:
        """Give what an interrupted reply leaves behind."""
        parts = tuple(
            part
            for draft in self._drafts
            for part in draft.parts()
            if not isinstance(part, Thinking)
        )
        return Turn("assistant", parts, model=self._context.origin.model or None)

    def close(self, reason: FinishReason, raw: str, usage: Usage | None) -> list[Event]:
        """Close the reply: the calls that were open, the usage and the reason it ended."""
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
