"""Decodes Responses replies, streamed or not, to events and parts.

Rules:
1. Each text of a message, each reasoning item and each call that the client answers is a part, in the order of the
   output; every other item, known or unknown, is native (``items``).
2. Content that was streamed is not read again from the finished item; other content is. The texts of an item are
   matched by their order: some servers count content parts across items (STR-18).
3. Fields that a text or call does not express, such as item ids, are its extras; they are read from the finished item.
4. Reasoning keeps the whole finished item: before, its encrypted content may be incomplete.
5. Only ``response.completed``, ``.incomplete`` or ``.failed`` ends the reply. A response that is queued or
   in progress is not an answer (RSP-28).
6. One type, ``ResponseEvent``, has the fields of every kind of event. All of them are
   optional, also because gateways leave fields out.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct

from multi_llm_chat.events import Event, FinishReason, TextDelta, Usage
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject, Part
from multi_llm_chat.protocol._failures import ErrorDetails, read_error_details, read_failure
from multi_llm_chat.protocol.calls import CallDraft, DecodeContext
from multi_llm_chat.protocol.lenient_json import FAULTS, LenientDecoder
from multi_llm_chat.protocol.openai_responses.client_calls import CallItem, read_call
from multi_llm_chat.protocol.openai_responses.items import (
    content_fields,
    message_fields,
    native_item,
    reasoning_fields,
    reasoning_text,
)
from multi_llm_chat.protocol.turn_assembly import ReplyDecoder, TextDraft, ThinkingDraft

# The shape of the events.


class InputDetails(Struct, gc=False):
    """The details of the input tokens."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class ResponseOutputDetails(Struct, gc=False):
    """The details of the output tokens."""

    reasoning_tokens: int | None = None


class ResponseUsage(Struct, gc=False):
    """Tokens as counted by the server."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: ResponseOutputDetails | None = None

    def as_usage(self) -> Usage:
        """Convert to ``Usage``."""
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
    """The reason why a response is incomplete."""

    reason: str | None = None


class Response(Struct, gc=False):
    """The whole response: the end of a stream, or a reply that was not streamed."""

    status: str | None = None
    output: list[Any] | None = None
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
    item_id: str | None = None
    item: Any = None
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

#: States of a response on which the server still works (RSP-28).
_UNFINISHED: Final = frozenset({"queued", "in_progress"})
_NOT_AN_ANSWER: Final = (
    "The response is {} in the background and has no answer yet. Fetch it later by its id."
)

_decode = FRAMES.decode


class OpenAIResponsesDecoder(ReplyDecoder):
    """Reads one Responses reply."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._texts: dict[tuple[int, int], TextDraft] = {}
        self._item_texts: dict[int, list[TextDraft]] = {}
        self._thoughts: dict[int, ThinkingDraft] = {}
        self._summary_parts: dict[int, int] = {}
        self._calls: dict[int, CallDraft] = {}
        self._done_items: set[int] = set()
        self._reasoning_id = ""
        self._refused = False

    def feed(self, event: str | None, data: bytes) -> list[Event]:
        """Read one server-sent event; its name is also inside its data."""
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
        """Read a complete response: the items that were not streamed, and the reason why it ended."""
        events: list[Event] = []
        if response.status in _UNFINISHED:
            return self._fail(ErrorDetails(_NOT_AN_ANSWER.format(response.status)))
        for index, value in enumerate(response.output or ()):
            item = as_object(value)
            if item is not None and index not in self._done_items:
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
            self._item_texts.setdefault(index, []).append(draft)
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

    def _add_call(self, index: int, call: CallItem | None, arguments: object) -> list[Event]:
        events = self._assembly.add_call(
            key=index,
            wire_id=call.identifier if call else None,
            name=call.name if call else None,
            arguments=arguments,
        )
        if self._assembly.calls.last is not None:
            self._calls[index] = self._assembly.calls.last
        return events

    def _read_added(self, frame: ResponseEvent) -> list[Event]:
        item = as_object(frame.item) or {}
        if item.get("type") == "reasoning":
            self._thought_draft(frame.output_index)
        elif item.get("type") == "function_call":
            call = read_call(item)
            return self._add_call(frame.output_index, call, call.arguments if call else None)
        return []

    def _read_done(self, frame: ResponseEvent) -> list[Event]:
        item = as_object(frame.item)
        if item is None or frame.output_index in self._done_items:
            return []
        return self._finish_item(frame.output_index, item)

    def _finish_item(self, index: int, item: JsonObject) -> list[Event]:
        self._done_items.add(index)
        kind = item.get("type")
        if kind == "message":
            return self._finish_message(index, item)
        if kind == "reasoning":
            return self._finish_reasoning(index, item)
        call = read_call(item)
        if call is not None and call.name:
            return self._finish_call(index, call, item)
        native, picture = native_item(item, self.context.origin)
        events = self._assembly.add_native(native.kind, native.text, native.raw)
        if picture is not None:
            self._assembly.add_media(picture)
        return events

    def _finish_message(self, index: int, item: JsonObject) -> list[Event]:
        events: list[Event] = []
        fields = message_fields(item)
        streamed = self._item_texts.get(index, [])
        for number, value in enumerate(as_list(item.get("content")) or []):
            content = as_object(value)
            if content is None:
                continue
            # An item's texts are matched by their order, not by their numbers (STR-18).
            draft = streamed[number] if number < len(streamed) else self._text_draft(index, number)
            refusal = as_text(content.get("refusal"))
            self._refused = self._refused or bool(refusal)
            if not draft.fragments:
                events += draft.add(as_text(content.get("text")) or refusal)
            head: JsonObject = {"joined": True} if number else {"message": fields} if fields else {}
            draft.extras = self._bound(head) | content_fields(content)
            draft.finished = True
        return events

    def _bound(self, fields: JsonObject) -> JsonObject:
        """The fields, with the id of the reasoning item that led to them."""
        bound = fields and self._reasoning_id
        return fields | {"reasoning_id": self._reasoning_id} if bound else fields

    def _finish_reasoning(self, index: int, item: JsonObject) -> list[Event]:
        draft = self._thought_draft(index)
        self._reasoning_id = as_text(item.get("id")) or self._reasoning_id
        opaque = reasoning_fields(item)
        draft.opaque = opaque if opaque != {"summary": []} else {}
        draft.finished = True
        return [] if draft.fragments else draft.add(reasoning_text(item))

    def _finish_call(self, index: int, call: CallItem, item: JsonObject) -> list[Event]:
        begun = self._calls.get(index)
        streamed = begun is not None and (begun.has_arguments or begun.closed)
        events = self._add_call(index, call, None if streamed else call.arguments)
        self._calls[index].extras = self._bound(call.fields)
        if item.get("status") == "incomplete":
            return events
        return events + self._assembly.calls.close(self._calls[index])

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
