"""Decodes generateContent replies, streamed or not, to events and parts.

Rules:
1. Consecutive texts without a signature are one part; a signed part is
   never merged with any other (GEM-07).
2. The signature of a part that is not a thought becomes an empty thinking part directly before it; the signature
   of an empty text becomes a thinking part without a following part (STR-15).
3. A finish reason completes the reply. A blocked prompt is a refusal.
4. The first candidate is the answer; the others, and the data next to the content, are ``Native`` parts at its end.
5. A streamed reply is a list of ``GeminiChunk``, a reply that is not streamed is a single ``GeminiChunk``. All fields are
   optional: the protocol omits empty ones. A part with an unknown key is read again as an object, see ``native_parts``.

Function calls usually arrive complete; sometimes name and arguments arrive separately:
6. A fragment with a name is a new call, with or without an id (STR-15).
7. A fragment without a name continues the call before it, if that has no arguments yet; a name after
   arguments without a name belongs to them.
8. Name and arguments together are a complete call. A name alone stays open, because its arguments may
   follow; if something else follows, it is a call without arguments, and never dropped.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from multi_llm_chat.events import Event, FinishReason, TextDelta, Usage
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.native_text import plain_words
from multi_llm_chat.history.values import Extras, JsonObject, Media, Part
from multi_llm_chat.protocol._failures import ErrorDetails, read_error_details, read_failure
from multi_llm_chat.protocol.calls import DecodeContext
from multi_llm_chat.protocol.gemini.native_parts import (
    describe,
    describe_metadata,
    extra_fields_of,
    in_camel_case,
    is_native,
    native_kind,
)
from multi_llm_chat.protocol.lenient_json import FAULTS, LenientDecoder, read_json
from multi_llm_chat.protocol.turn_assembly import Assembly, ReplyDecoder, TextDraft, ThinkingDraft

# The shape of a reply.


class FunctionCall(Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """A call, or the part of it that has arrived."""

    name: str | None = None
    args: Any = None
    id: str | None = None


class Blob(Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """Media in the reply itself."""

    mime_type: str = "application/octet-stream"
    data: str = ""


class FileData(Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """Media at a URL."""

    mime_type: str = "application/octet-stream"
    file_uri: str = ""


class ReplyPart(Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """One part of the content."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None


class CandidateContent(Struct, gc=False):
    """The content of a candidate."""

    parts: list[ReplyPart] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the alternative answers; our own requests ask for only one."""

    content: CandidateContent | None = None
    finish_reason: str | int | None = None
    finish_message: str | None = None
    index: int | None = None
    grounding_metadata: Any = None
    url_context_metadata: Any = None
    citation_metadata: Any = None
    logprobs_result: Any = None


class PromptFeedback(Struct, rename="camel", gc=False):
    """The reason why there is no candidate."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class UsageMetadata(Struct, rename="camel", gc=False):
    """Tokens as counted by the server."""

    prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None

    def as_usage(self) -> Usage:
        """Convert to ``Usage``: the provider counts thoughts separately, we include them in the output."""
        thoughts = self.thoughts_token_count or 0
        return Usage(
            input_tokens=(self.prompt_token_count or 0) + (self.tool_use_prompt_token_count or 0),
            output_tokens=(self.candidates_token_count or 0) + thoughts,
            cache_read_tokens=self.cached_content_token_count or 0,
            thinking_tokens=thoughts,
        )


class GeminiChunk(Struct, rename="camel", gc=False):
    """One event of the stream, or a reply that is not streamed."""

    candidates: list[Candidate] | None = None
    usage_metadata: UsageMetadata | None = None
    prompt_feedback: PromptFeedback | None = None
    error: Any = None


FRAMES = LenientDecoder(GeminiChunk)
CALLS = LenientDecoder(FunctionCall)
PARTS = LenientDecoder(ReplyPart)


# Function calls.


def add_function_call(
    assembly: Assembly, call: FunctionCall, extras: JsonObject | None = None
) -> list[Event]:
    """Add one function call, or a part of one."""
    last = assembly.calls.last
    continues = last is not None and not last.closed and not (call.name and last.name)
    events: list[Event] = [] if last is None or continues else assembly.calls.close(last)
    events += assembly.add_call(
        wire_id=None if continues else call.id,
        name=call.name,
        arguments=call.args or None,
        separate=not continues,
    )
    added = assembly.calls.last
    if added is not None and extras:
        added.extras |= extras
    if added is not None and added.name and added.has_arguments:
        events += assembly.calls.close(added)
    return events


# The decoder.

__all__ = ["GeminiDecoder", "decode_reply", "read_failure"]

_REASONS: Final[dict[str, FinishReason | None]] = {
    "FINISH_REASON_UNSPECIFIED": None,
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "safety",
    "RECITATION": "safety",
    "BLOCKLIST": "safety",
    "PROHIBITED_CONTENT": "safety",
    "SPII": "safety",
    "IMAGE_SAFETY": "safety",
    "IMAGE_PROHIBITED_CONTENT": "safety",
    "IMAGE_RECITATION": "safety",
    "MODEL_ARMOR": "safety",
    "LANGUAGE": "refusal",
    "MALFORMED_FUNCTION_CALL": "failed",
    "MALFORMED_RESPONSE": "failed",
    "UNEXPECTED_TOOL_CALL": "failed",
    "TOO_MANY_TOOL_CALLS": "failed",
    "NO_IMAGE": "failed",
    "IMAGE_OTHER": "failed",
    "OTHER": "other",
}

#: Vertex AI can send enums as numbers, if the client asks for them; AI Studio's numbers are the same up to here.
_NUMBERED: Final = {1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER"}

_decode = FRAMES.decode


class GeminiDecoder(ReplyDecoder):
    """Reads one generateContent reply."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._open: TextDraft | ThinkingDraft | None = None  # the part that unsigned text continues
        self._last_frame: GeminiChunk | None = None
        self.answered = False  # a candidate has arrived
        self._aside: dict[str, JsonObject] = {}  # the data next to the content, by kind
        self._others: dict[int, JsonObject] = {}  # further candidates, by index
        self._odd: dict[int, JsonObject] = {}  # parts of the frame with unknown keys, by ``id()``

    def feed(self, event: str | None, data: bytes) -> list[Event]:
        """Read one server-sent event."""
        del event  # they have no names
        if self.done:
            return []
        try:
            frame = _decode(data)
        except FAULTS:
            return self._feed_odd(data)
        return self._read(frame)

    def _feed_odd(self, data: bytes) -> list[Event]:
        value = read_json(data)
        if listed := as_list(
            value
        ):  # a stream without server-sent events is a list of frames, or of one error
            if "error" in (as_object(listed[0]) or {}):
                return self._fail(read_error_details(listed))
            return [
                event for each in listed for event in self.feed(None, msgspec.json.encode(each))
            ]
        entry = as_object(value)
        if entry is None:
            return self._unreadable()
        events = self._read(self._fit(entry))
        self._odd = {}
        return events

    def _fit(self, entry: JsonObject) -> GeminiChunk:
        """Read leniently a frame whose parts have unknown keys, or whose values have other types."""
        candidates = [as_object(each) or {} for each in as_list(entry.get("candidates")) or ()]
        found: list[list[ReplyPart]] = []
        bare: list[JsonObject] = []
        for candidate in candidates:
            content = as_object(candidate.get("content")) or {}
            alone = as_object(content.get("parts"))
            given = [alone] if alone is not None else as_list(content.get("parts")) or ()
            found.append([self._fit_part(each) for each in map(as_object, given) if each])
            bare.append(candidate | {"content": None})
        frame = FRAMES.fit(entry | {"candidates": bare} if candidates else entry)
        for candidate, parts in zip(frame.candidates or (), found, strict=False):
            candidate.content = CandidateContent(parts)
        return frame

    def _fit_part(self, given: JsonObject) -> ReplyPart:
        part = in_camel_case(given)
        fitted = PARTS.fit(part)
        if extra_fields_of(part):
            self._odd[id(fitted)] = part
        return fitted

    def _read(self, frame: GeminiChunk) -> list[Event]:
        if frame.usage_metadata is not None:
            self._last_frame = frame
        if not frame.candidates:
            return self._read_aside(frame)
        candidate = frame.candidates[0]
        if len(frame.candidates) > 1 or candidate.index:
            return self._read_candidates(frame)
        return self._read_answer(candidate, frame)

    def _read_candidates(self, frame: GeminiChunk) -> list[Event]:
        events: list[Event] = []
        for candidate in frame.candidates or ():
            if candidate.index:
                self._add_other(candidate.index, candidate)
            else:
                events += self._read_answer(candidate, frame)
        return events

    def _add_other(self, index: int, candidate: Candidate) -> None:
        """Keep a further candidate: its parts and its finish reason."""
        kept = self._others.setdefault(index, {"index": index, "content": {"parts": []}})
        for part in (candidate.content and candidate.content.parts) or ():
            written = self._odd.get(id(part)) or in_camel_case(msgspec.to_builtins(part))
            before: list[JsonObject] = kept["content"]["parts"]
            if before and before[-1].keys() == written.keys() == {"text"}:
                before[-1]["text"] += written["text"]
            else:
                before.append(written)
        if candidate.finish_reason:
            kept["finishReason"] = candidate.finish_reason

    def _read_answer(self, candidate: Candidate, frame: GeminiChunk) -> list[Event]:
        self.answered = True
        events: list[Event] = []
        content = candidate.content
        if content is not None and content.parts:
            for part in content.parts:
                text = part.text
                if text and part.thought_signature is None and not (part.thought or self._odd):
                    draft = self._open
                    if not isinstance(draft, TextDraft):
                        events += self._close_call()
                        draft = self._open = self._assembly.open_text()
                    draft.fragments.append(text)
                    events.append(TextDelta(text))
                else:
                    events += self._read_part(part)
        if candidate.finish_reason or frame.error is not None:
            events += self._read_end(candidate, frame)
        if (
            candidate.grounding_metadata
            or candidate.citation_metadata
            or candidate.url_context_metadata
            or candidate.logprobs_result
        ):
            self._keep_aside(candidate)
        return events

    def _keep_aside(self, candidate: Candidate) -> None:
        """Keep the data next to the content; a later chunk adds to an earlier one."""
        for kind, value in (
            ("groundingMetadata", candidate.grounding_metadata),
            ("urlContextMetadata", candidate.url_context_metadata),
            ("citationMetadata", candidate.citation_metadata),
            ("logprobsResult", candidate.logprobs_result),
        ):
            if value:
                kept = self._aside.setdefault(kind, {})
                for key, given in (as_object(value) or {}).items():
                    before, more = as_list(kept.get(key)), as_list(given)
                    grows = kind == "logprobsResult" and before is not None and more is not None
                    kept[key] = [*(before or ()), *(more or ())] if grows else given

    def _read_aside(self, frame: GeminiChunk) -> list[Event]:
        if frame.error is not None:
            return self._fail(read_error_details({"error": frame.error}))
        feedback = frame.prompt_feedback
        if feedback is not None and feedback.block_reason:
            reason = (
                feedback.block_reason_message or f"the prompt was blocked: {feedback.block_reason}"
            )
            return self._fail(
                ErrorDetails(reason, codes=(feedback.block_reason, "moderation_blocked"))
            )
        return []

    def _read_end(self, candidate: Candidate, frame: GeminiChunk) -> list[Event]:
        if frame.error is not None:
            return self._fail(read_error_details({"error": frame.error}))
        raw = candidate.finish_reason or ""
        raw = _NUMBERED.get(raw, "OTHER") if isinstance(raw, int) else raw
        reason = _REASONS.get(raw, "other")
        if reason is not None:
            self._reason = reason
            self._raw_reason = raw
        return []

    def _read_part(self, part: ReplyPart) -> list[Event]:
        odd = self._odd.get(id(part))
        extras = {} if odd is None else extra_fields_of(odd)
        if odd is not None and is_native(odd):
            events = self._close_call()
            self._open = None
            kind = native_kind(odd)
            return events + self._assembly.add_native(kind, describe(kind, odd), odd)
        if part.thought:
            return self._think(part)
        if part.function_call is not None:
            return self._call(part.function_call, part.thought_signature, extras)
        events = self._sign(part.thought_signature)
        if part.text:
            events += self._close_call()
            draft = self._open if not extras and part.thought_signature is None else None
            if not isinstance(draft, TextDraft):
                draft = self._assembly.open_text()
                self._open = None if extras or part.thought_signature is not None else draft
            draft.extras |= extras
            events += draft.add(part.text)
        kept = Extras(self.context.origin, extras) if extras else None
        for media in _media_of(part, kept):
            events += self._close_call()
            self._open = None
            self._assembly.add_media(media)
        return events

    def _think(self, part: ReplyPart) -> list[Event]:
        events = self._close_call()
        draft = self._open
        if part.thought_signature or not isinstance(draft, ThinkingDraft):
            draft = self._open = self._assembly.open_thinking()
        if part.thought_signature:
            draft.opaque["thoughtSignature"] = part.thought_signature
            if not part.text:
                draft.opaque["thought"] = (
                    True  # the signature of an empty thought, not of what follows
                )
            self._open = None
        return events + draft.add(part.text or "")

    def _sign(self, signature: str | None) -> list[Event]:
        """Put a signature before the part that follows."""
        if signature is None:
            return []
        events = self._close_call()
        self._open = None
        if signature:
            self._assembly.open_thinking().opaque["thoughtSignature"] = signature
        return events

    def _call(self, call: FunctionCall, signature: str | None, extras: JsonObject) -> list[Event]:
        events = self._sign(signature)
        self._open = None
        return events + add_function_call(self._assembly, call, extras)

    def _close_call(self) -> list[Event]:
        last = self._assembly.calls.last
        return [] if last is None else self._assembly.calls.close(last)

    @property
    def usage(self) -> Usage | None:
        """The tokens that the provider has counted so far: every chunk may have them, and the last one counts."""
        if self._last_frame is not None and self._last_frame.usage_metadata is not None:
            return self._last_frame.usage_metadata.as_usage()
        return self._usage

    def _close(self) -> list[Event]:
        self._usage = self.usage
        return ([] if self.done else self._add_aside()) + super()._close()

    def _add_aside(self) -> list[Event]:
        events: list[Event] = []
        probabilities = self._aside.pop("logprobsResult", None)
        if probabilities is not None and isinstance(self._open, TextDraft):
            self._open.extras["logprobsResult"] = probabilities
        for kind, value in self._aside.items():
            events += self._assembly.add_native(kind, describe_metadata(kind, value), value)
        for _, candidate in sorted(self._others.items()):
            words = f"another answer: {plain_words(candidate['content'])}"
            events += self._assembly.add_native("candidate", words, candidate)
        return events


def decode_reply(data: bytes, context: DecodeContext) -> tuple[tuple[Part, ...], list[Event]]:
    """Read a reply that was not streamed.

    Raises:
        ProviderError: The body is an error, or not a reply.
    """
    decoder = GeminiDecoder(context)
    events = decoder.feed(None, data)
    events += decoder.end()
    return decoder.parts, events


def _media_of(part: ReplyPart, extras: Extras | None) -> list[Media]:
    found: list[Media] = []
    if part.inline_data is not None:
        blob = part.inline_data
        found.append(Media(blob.mime_type, data=blob.data, extras=extras))
    if part.file_data is not None:
        file = part.file_data
        found.append(Media(file.mime_type, url=file.file_uri, extras=extras))
    return found
