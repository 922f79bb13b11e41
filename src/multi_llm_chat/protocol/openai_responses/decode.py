"""Responses replies, streamed or whole, to events and parts.

Rules:
1. Each text of a message, each reasoning item and each function call is a part, in the order of
   the output. Items that are not known are skipped without harm.
2. What was streamed is not read again from the finished item; what was not streamed is.
3. Item ids are never kept: a later request must not name what was not stored (RSP-06).
4. Reasoning keeps its encrypted content and its summary; the encrypted content counts only from
   the finished item, for it may be incomplete before.
5. ``response.completed``, ``.incomplete`` or ``.failed`` ends the reply; nothing else does.
6. One type, ``ResponseEvent``, fits every event: an event leaves out what it does not have. Everything is
   optional, because gateways leave things out.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, cast

from msgspec import Struct

from multi_llm_chat.events import Event, FinishReason, TextDelta, Usage
from multi_llm_chat.history.values import Media, Part
from multi_llm_chat.protocol._failures import read_error_details, read_failure
from multi_llm_chat.protocol.calls import CallDraft, DecodeContext
from multi_llm_chat.protocol.lenient_json import FAULTS, LenientDecoder
from multi_llm_chat.protocol.turn_assembly import ReplyDecoder, TextDraft, ThinkingDraft

# The shape of the events.


class ItemContent(Struct, gc=False):
    """One piece of a message, or of a reasoning item."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None


class Item(Struct, gc=False):
    """One output item."""

    type: str = ""
    status: str | None = None
    content: list[ItemContent] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    summary: list[Any] | None = None
    encrypted_content: str | None = None
    result: str | None = None
    output_format: str | None = None


class InputDetails(Struct, gc=False):
    """Where input tokens came from."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class ResponseOutputDetails(Struct, gc=False):
    """What output tokens were spent on."""

    reasoning_tokens: int | None = None


class ResponseUsage(Struct, gc=False):
    """Tokens as counted by the server."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: ResponseOutputDetails | None = None

    def as_usage(self) -> Usage:
        """Translate."""
        before = self.input_tokens_details or InputDetails()
        spent = self.output_tokens_details or ResponseOutputDetails()
        return Usage(
            input_tokens=self.input_tokens or 0,
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=before.cached_tokens or 0,
            cache_write_tokens=before.cache_write_tokens or 0,
            thinking_tokens=spent.reasoning_tokens or 0,
        )


class IncompleteDetails(Struct, gc=False):
    """Why a response is not whole."""

    reason: str | None = None


class Response(Struct, gc=False):
    """The whole response: the end of a stream, or a reply that was not streamed."""

    status: str | None = None
    output: list[Item] | None = None
    usage: ResponseUsage | None = None
    error: Any = None
    incomplete_details: IncompleteDetails | None = None


class ResponseEvent(Struct, gc=False):
    """One event of the stream."""

    type: str = ""
    output_index: int = 0
    content_index: int = 0
    summary_index: int = 0
    delta: str | None = None
    arguments: Any = None
    item: Item | None = None
    response: Response | None = None
    error: Any = None
    code: Any = None
    message: str | None = None


FRAMES = LenientDecoder(ResponseEvent)
RESPONSES = LenientDecoder(Response)


# The decoder.

__all__ = ["OpenAIResponsesDecoder", "decode_reply", "read_failure"]

_INCOMPLETE: Final[dict[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "safety",
}

_decode = FRAMES.decode


class OpenAIResponsesDecoder(ReplyDecoder):
    """Reads one Responses reply."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._texts: dict[tuple[int, int], TextDraft] = {}
        self._thoughts: dict[int, ThinkingDraft] = {}
        self._summary_parts: dict[int, int] = {}
        self._calls: dict[int, CallDraft] = {}
        self._done_items: set[int] = set()
        self._refused = False

    def feed(self, event: str | None, data: bytes) -> list[Event]:
        """Take one server-sent event; its name is also inside its data."""
        if self.done:
            return []
        try:
            frame = _decode(data)
        except FAULTS:
            frame = FRAMES.recover(data)
            if frame is None:
                return self._unreadable()
        if frame.type == "response.output_text.delta":
            text = frame.delta
            draft = self._texts.get((frame.output_index, frame.content_index))
            if draft is None or not text:
                return self._read_text(frame)
            draft.fragments.append(text)
            return [TextDelta(text)]
        read = self._readers.get(frame.type or event or "")
        if read is None:
            return [] if frame.error is None else self._read_error(frame)
        return read(self, frame)

    def read_response(self, response: Response) -> list[Event]:
        """Read a whole response: the items that were not streamed, and how it ended."""
        events: list[Event] = []
        for index, item in enumerate(response.output or ()):
            if index not in self._done_items:
                events += self._finish_item(index, item)
        if response.usage is not None:
            self._usage = response.usage.as_usage()
        if response.error is not None or response.status in {"failed", "cancelled"}:
            fault = read_error_details(
                {"error": response.error or f"The response was {response.status}."}
            )
            return events + self._fail(fault)
        raw = response.status or "completed"
        self._reason = "stop"
        if response.status == "incomplete":
            raw = (response.incomplete_details and response.incomplete_details.reason) or raw
            self._reason = _INCOMPLETE.get(raw, "other")
        elif self._refused:
            self._reason = "refusal"
        self._raw_reason = raw
        return events + self._close()

    def _text_draft(self, index: int, content: int) -> TextDraft:
        draft = self._texts.get((index, content))
        if draft is None:
            draft = self._texts[index, content] = self._assembly.open_text()
        return draft

    def _read_text(self, frame: ResponseEvent) -> list[Event]:
        return self._text_draft(frame.output_index, frame.content_index).add(frame.delta or "")

    def _read_refusal(self, frame: ResponseEvent) -> list[Event]:
        self._refused = True
        return self._read_text(frame)

    def _read_thinking(self, frame: ResponseEvent) -> list[Event]:
        index = frame.output_index
        draft = self._thought_draft(index)
        events: list[Event] = []
        if self._summary_parts.setdefault(index, frame.summary_index) != frame.summary_index:
            self._summary_parts[index] = frame.summary_index
            events += draft.add("\n\n" if draft.fragments else "")
        return events + draft.add(frame.delta or "")

    def _thought_draft(self, index: int) -> ThinkingDraft:
        draft = self._thoughts.get(index)
        if draft is None:
            draft = self._thoughts[index] = self._assembly.open_thinking()
        return draft

    def _read_arguments(self, frame: ResponseEvent) -> list[Event]:
        return self._add_call(frame.output_index, None, frame.delta)

    def _add_call(self, index: int, item: Item | None, arguments: object) -> list[Event]:
        events = self._assembly.add_call(
            key=index,
            wire_id=item.call_id if item else None,
            name=item.name if item else None,
            arguments=arguments,
        )
        if self._assembly.calls.last is not None:
            self._calls[index] = self._assembly.calls.last
        return events

    def _read_added(self, frame: ResponseEvent) -> list[Event]:
        item = frame.item or Item()
        if item.type == "reasoning":
            self._thought_draft(frame.output_index)
        elif item.type == "function_call":
            return self._add_call(frame.output_index, item, item.arguments)
        return []

    def _read_done(self, frame: ResponseEvent) -> list[Event]:
        if frame.item is None or frame.output_index in self._done_items:
            return []
        return self._finish_item(frame.output_index, frame.item)

    def _finish_item(self, index: int, item: Item) -> list[Event]:
        self._done_items.add(index)
        finish = self._items.get(item.type)
        return [] if finish is None else finish(self, index, item)

    def _finish_message(self, index: int, item: Item) -> list[Event]:
        events: list[Event] = []
        for number, content in enumerate(item.content or ()):
            draft = self._text_draft(index, number)
            if content.refusal:
                self._refused = True
            if not draft.fragments:
                events += draft.add(content.text or content.refusal or "")
            draft.finished = True
        return events

    def _finish_reasoning(self, index: int, item: Item) -> list[Event]:
        draft = self._thought_draft(index)
        summary = item.summary or []
        if item.encrypted_content:
            draft.opaque["encrypted_content"] = item.encrypted_content
        if draft.opaque or summary:
            draft.opaque["summary"] = summary
        draft.finished = True
        if draft.fragments:
            return []
        words = [_words(part) for part in summary]
        words = words or [content.text or "" for content in item.content or ()]
        return draft.add("\n\n".join(filter(None, words)))

    def _finish_call(self, index: int, item: Item) -> list[Event]:
        begun = self._calls.get(index)
        streamed = begun is not None and (begun.has_arguments or begun.closed)
        events = self._add_call(index, item, None if streamed else item.arguments)
        if item.status == "incomplete":
            return events
        return events + self._assembly.calls.close(self._calls[index])

    def _finish_image(self, index: int, item: Item) -> list[Event]:
        del index  # a picture comes whole
        if item.result:
            self._assembly.add_media(Media(f"image/{item.output_format or 'png'}", item.result))
        return []

    def _read_end(self, frame: ResponseEvent) -> list[Event]:
        response = frame.response or Response()
        if response.status is None:
            response.status = frame.type.rpartition(".")[2]
        return self.read_response(response)

    def _read_error(self, frame: ResponseEvent) -> list[Event]:
        stated = {"code": frame.code, "message": frame.message}
        return self._fail(read_error_details({"error": frame.error or stated}))

    _readers: ClassVar[Mapping[str, Callable[..., list[Event]]]] = {
        "response.output_text.delta": _read_text,
        "response.refusal.delta": _read_refusal,
        "response.reasoning_summary_text.delta": _read_thinking,
        "response.reasoning_text.delta": _read_thinking,
        "response.function_call_arguments.delta": _read_arguments,
        "response.output_item.added": _read_added,
        "response.output_item.done": _read_done,
        "response.completed": _read_end,
        "response.done": _read_end,
        "response.incomplete": _read_end,
        "response.failed": _read_end,
        "error": _read_error,
    }
    _items: ClassVar[Mapping[str, Callable[..., list[Event]]]] = {
        "message": _finish_message,
        "reasoning": _finish_reasoning,
        "function_call": _finish_call,
        "image_generation_call": _finish_image,
    }


def decode_reply(data: bytes, context: DecodeContext) -> tuple[tuple[Part, ...], list[Event]]:
    """Read a reply that was not streamed.

    Raises:
        ProviderError: The body is an error, or not a reply.
    """
    decoder = OpenAIResponsesDecoder(context)
    response = RESPONSES.read(data)
    events: list[Event] = []
    if response is not None and (response.output is not None or response.error is not None):
        events += decoder.read_response(response)
    events += decoder.end()
    return decoder.parts, events


def _words(part: object) -> str:
    text = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""
