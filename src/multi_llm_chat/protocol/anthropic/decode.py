"""Decodes Messages replies, streamed or not, to events and parts.

Rules:
1. A content block is a part; blocks keep their order and are never merged (ANT-12).
2. Thinking keeps its signature, redacted thinking its data, both in ``opaque``.
3. Blocks of the provider's own tools, and unknown blocks, become ``Native`` parts when they are complete;
   additional fields of a text or a call (citations, ``caller``) become its extras.
4. A call whose arguments are complete is closed with its block. A call without arguments is closed by the
   event after it: only the stop reason shows whether the length limit cut it off (STR-10, STR-14).
5. The id of the container in which code ran is ``meta["container"]`` of the turn (ANT-48).
6. A stop reason or ``message_stop`` completes the reply.
7. One type, ``MessageEvent``, has the fields of every kind of event. All of them are
   optional, also because proxies leave fields out.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import asdict

from multi_llm_chat.events import Event, FinishReason, TextDelta, Usage
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.native_text import remaining_fields
from multi_llm_chat.history.values import JsonObject, Part
from multi_llm_chat.protocol._failures import read_error_details, read_failure
from multi_llm_chat.protocol.anthropic.native_blocks import CALL_KEYS, TEXT_KEYS, describe
from multi_llm_chat.protocol.calls import CallDraft, DecodeContext
from multi_llm_chat.protocol.lenient_json import FAULTS, LenientDecoder
from multi_llm_chat.protocol.turn_assembly import ReplyDecoder, TextDraft, ThinkingDraft

# The shape of the events.


class FrameDelta(Struct, gc=False):
    """The delta of an event: an addition to a block, or to the message."""

    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    citation: Any = None
    content: Any = None
    encrypted_content: Any = None
    container: Any = None


class CallBlock(Struct, gc=False):
    """The fields that are read from a block in an SDK's own type: its type, and the call in it."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class MessageOutputDetails(Struct, gc=False):
    """The details of the output tokens."""

    thinking_tokens: int | None = None


class MessageUsage(Struct, gc=False):
    """Tokens as counted by the server; later reports replace earlier ones, number by number."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: MessageOutputDetails | None = None

    def updated(self, newer: "MessageUsage") -> "MessageUsage":
        """Return the numbers after a newer report."""
        return MessageUsage(
            *(
                old if new is None else new
                for old, new in zip(self._numbers(), newer._numbers(), strict=True)
            )
        )

    def _numbers(self) -> tuple[Any, ...]:
        return (
            self.input_tokens,
            self.output_tokens,
            self.cache_creation_input_tokens,
            self.cache_read_input_tokens,
            self.output_tokens_details,
        )

    def as_usage(self) -> Usage:
        """Convert to ``Usage``: the provider counts cached tokens separately, we include them in the input."""
        written = self.cache_creation_input_tokens or 0
        read = self.cache_read_input_tokens or 0
        details = self.output_tokens_details or MessageOutputDetails()
        return Usage(
            input_tokens=(self.input_tokens or 0) + written + read,
            output_tokens=self.output_tokens or 0,
            cache_read_tokens=read,
            cache_write_tokens=written,
            thinking_tokens=details.thinking_tokens or 0,
        )


class ReplyMessage(Struct, gc=False):
    """The head of a message; in a reply that is not streamed, the whole message."""

    usage: MessageUsage | None = None
    container: Any = None


class MessageEvent(Struct, gc=False):
    """One event of the stream, or a reply that is not streamed."""

    type: str = ""
    index: int = 0
    delta: FrameDelta | None = None
    content_block: Any = None
    message: ReplyMessage | None = None
    usage: MessageUsage | None = None
    error: Any = None
    content: list[Any] | None = None
    stop_reason: str | None = None
    container: Any = None


FRAMES = LenientDecoder(MessageEvent)
_BLOCKS = LenientDecoder(CallBlock)


# The decoder.

__all__ = ["AnthropicDecoder", "decode_reply", "read_failure"]

_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "paused",
    "compaction": "paused",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}

_decode = FRAMES.decode


class _NativeDraft:
    """A provider-specific block: its head, and the data of its deltas."""

    def __init__(self, block: JsonObject) -> None:
        self._block = dict(block)
        self._fragments: list[str] = []

    def add(self, delta: FrameDelta) -> None:
        """Add a piece of the input of a server tool, or the content of a compaction."""
        if delta.partial_json:
            self._fragments.append(delta.partial_json)
        if delta.text:
            self._block["text"] = as_text(self._block.get("text")) + delta.text
        if delta.content is not None:
            self._block["content"] = delta.content
        if delta.encrypted_content is not None:
            self._block["encrypted_content"] = delta.encrypted_content

    def whole(self) -> JsonObject:
        """Return the complete block, in the form of a reply that is not streamed."""
        if self._fragments:
            arguments, raw, error = parse_arguments("".join(self._fragments))
            self._block["input"] = arguments if error is None else {"_raw": raw}
        return self._block


class AnthropicDecoder(ReplyDecoder):
    """Reads one Messages reply."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._blocks: dict[int, TextDraft | ThinkingDraft | CallDraft | _NativeDraft] = {}
        self._native: _NativeDraft | None = None  # begun and not yet complete
        self._counted = MessageUsage()
        self._waiting: CallDraft | None = None  # its block has ended, its arguments may not have

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
        delta = frame.delta
        if delta is None or frame.type != "content_block_delta":
            return self._read_other(frame, event)
        draft = self._blocks.get(frame.index)
        text = delta.text
        if text and isinstance(draft, TextDraft):
            draft.fragments.append(text)
            return [TextDelta(text)]
        return self._add_to_block(frame.index, delta)

    def read_frame(self, frame: MessageEvent, event: str | None = None) -> list[Event]:
        """Read one event that is already decoded; ``event`` is its name."""
        if frame.type == "content_block_delta" and frame.delta is not None:
            return self._add_to_block(frame.index, frame.delta)
        return self._read_other(frame, event)

    def _read_other(self, frame: MessageEvent, event: str | None) -> list[Event]:
        read = self._readers.get(frame.type or event or "")
        if read is None:
            return [] if frame.error is None else self._read_error(frame)
        return read(self, frame)

    def _read_start(self, frame: MessageEvent) -> list[Event]:
        if frame.message is not None:
            self._count(frame.message.usage)
            self._take_container(frame.message.container)
        return []

    def _read_block_start(self, frame: MessageEvent) -> list[Event]:
        block = _as_block(frame.content_block)
        events = self._close_waiting() + self._close_native()
        begin = self._blocks_known.get(as_text(block.get("type")))
        if begin is not None:
            return events + begin(self, frame.index, block)
        self._native = self._blocks[frame.index] = _NativeDraft(block)
        return events

    def _begin_text(self, index: int, block: JsonObject) -> list[Event]:
        draft = self._assembly.open_text()
        self._blocks[index] = draft
        draft.extras |= remaining_fields(block, TEXT_KEYS)
        return draft.add(as_text(block.get("text")))

    def _begin_thinking(self, index: int, block: JsonObject) -> list[Event]:
        draft = self._assembly.open_thinking()
        self._blocks[index] = draft
        if signature := as_text(block.get("signature")):
            draft.opaque["signature"] = signature
        return draft.add(as_text(block.get("thinking")))

    def _begin_redacted(self, index: int, block: JsonObject) -> list[Event]:
        draft = self._assembly.open_thinking()
        self._blocks[index] = draft
        draft.opaque["redacted"] = as_text(block.get("data"))
        return []

    def _begin_call(self, index: int, block: JsonObject) -> list[Event]:
        events = self._assembly.add_call(
            key=index,
            wire_id=as_text(block.get("id")),
            name=as_text(block.get("name")),
            arguments=block.get("input") or None,
        )
        draft = self._assembly.calls.last
        if draft is not None:
            self._blocks[index] = draft
            draft.extras |= remaining_fields(block, CALL_KEYS)
        return events

    def _add_to_block(self, index: int, delta: FrameDelta) -> list[Event]:
        draft = self._blocks.get(index)
        if isinstance(draft, CallDraft):
            piece = delta.partial_json  # the first piece is empty
            return self._assembly.add_call(key=index, arguments=piece) if piece else []
        if draft is None:
            return self._begin_text(index, {"text": delta.text}) if delta.text else []
        if isinstance(draft, TextDraft):
            if delta.citation is not None:
                cited = as_list(draft.extras.get("citations")) or []
                draft.extras["citations"] = [*cited, delta.citation]
            return draft.add(delta.text or "")
        if isinstance(draft, _NativeDraft):
            draft.add(delta)
        if isinstance(draft, ThinkingDraft):
            if delta.signature:
                draft.opaque["signature"] = delta.signature
            return draft.add(delta.thinking or "")
        return []

    def _read_block_stop(self, frame: MessageEvent) -> list[Event]:
        draft = self._blocks.get(frame.index)
        if isinstance(draft, CallDraft):
            self._waiting = draft
            return self._close_waiting() if draft.is_complete() else []
        if isinstance(draft, _NativeDraft):
            return self._close_native()
        if draft is not None:
            draft.finished = True
        return []

    def _close_native(self) -> list[Event]:
        draft, self._native = self._native, None
        if draft is None:
            return []
        block = draft.whole()
        return self._assembly.add_native(
            as_text(block.get("type")) or "block", describe(block), block
        )

    def _close(self) -> list[Event]:
        return [] if self.done else self._close_native() + super()._close()

    def _close_waiting(self) -> list[Event]:
        waiting, self._waiting = self._waiting, None
        return [] if waiting is None else self._assembly.calls.close(waiting)

    def _read_message_delta(self, frame: MessageEvent) -> list[Event]:
        self._count(frame.usage)
        if frame.delta is not None:
            self._take_reason(frame.delta.stop_reason)
            self._take_container(frame.delta.container)
        return []

    def _take_reason(self, raw: str | None) -> None:
        if raw:
            self._reason = _REASONS.get(raw, "other")
            self._raw_reason = raw

    def _take_container(self, container: object) -> None:
        """Keep the id of the container in which code ran, but not ``expires_at``, which changes with every request."""
        identifier = as_text((as_object(container) or {}).get("id"))
        if identifier:
            origin = self.context.origin
            place = {"provider": origin.provider, "endpoint": origin.endpoint}
            self.context.meta["container"] = {"id": identifier, **place}

    def _read_stop(self, frame: MessageEvent) -> list[Event]:
        del frame  # only says that the message has ended
        return self._close()

    def _read_error(self, frame: MessageEvent) -> list[Event]:
        return self._fail(read_error_details({"error": frame.error}))

    def _read_message(self, frame: MessageEvent) -> list[Event]:
        """Read a reply that is not streamed."""
        if frame.content is None:
            return self._unreadable()
        events: list[Event] = []
        for index, block in enumerate(frame.content):
            part = MessageEvent(index=index, content_block=block)
            events += self._read_block_start(part) + self._read_block_stop(part)
        self._count(frame.usage)
        self._take_reason(frame.stop_reason or "end_turn")
        self._take_container(frame.container)
        return events + self._close()

    def _count(self, usage: MessageUsage | None) -> None:
        if usage is not None:
            self._counted = self._counted.updated(usage)
            self._usage = self._counted.as_usage()

    _readers: ClassVar[Mapping[str, Callable[..., list[Event]]]] = {
        "message_start": _read_start,
        "content_block_start": _read_block_start,
        "content_block_stop": _read_block_stop,
        "message_delta": _read_message_delta,
        "message_stop": _read_stop,
        "message": _read_message,
        "error": _read_error,
    }
    _blocks_known: ClassVar[Mapping[str, Callable[..., list[Event]]]] = {
        "text": _begin_text,
        "thinking": _begin_thinking,
        "redacted_thinking": _begin_redacted,
        "tool_use": _begin_call,
    }


def _as_block(value: object) -> JsonObject:
    """A block as a JSON object; of a block in an SDK's own type, only the fields of a call."""
    return as_object(value) or asdict(_BLOCKS.fit(value))


def decode_reply(data: bytes, context: DecodeContext) -> tuple[tuple[Part, ...], list[Event]]:
    """Read a reply that was not streamed.

    Raises:
        ProviderError: The body is an error, or not a reply.
    """
    decoder = AnthropicDecoder(context)
    events = decoder.feed(None, data)
    events += decoder.end()
    return decoder.parts, events
