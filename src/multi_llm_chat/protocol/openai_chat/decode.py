"""Decodes Chat Completions replies, streamed or not, to events and parts.

Rules:
1. A message has one reasoning, one content and its calls, and the parts are in that order,
   whatever the order in which the pieces arrive: this is the order of a replayed message and of a reply that is not streamed.
2. ``[DONE]`` or a finish reason completes a reply (STR-17); an empty finish reason does not count.
3. A chunk without choices has the usage, a content filter's report (STR-07), or an error (STR-09).
4. The first choice is the answer; each further choice is a native part after it. An unknown field of the message
   is an extra of the answer: lists are extended, text is appended unless it is repeated, any other value is replaced.
5. Thinking records in ``opaque["field"]`` the field it came in: ``reasoning_content``, ``reasoning``,
   or ``content`` (Mistral's thinking chunks); OpenRouter's ``reasoning_details`` are kept completely.
6. A refusal is marked text, and the finish reason is ``refusal``. A spoken answer is its transcript, with the server's id
   of the sound in ``extras``, and the sound itself.
7. A call that the server itself rejected is part of the reply, with an error: it is not run, but answered. Groq answers 400
   with the model's output in ``failed_generation`` (GRQ-04). A call is a name and the text after it, in one of
   the forms that models write; the text of its arguments is kept. Output in any other form has no call, and the reply fails.
"""

import json
import re
from typing import Any, Final, NamedTuple, cast

from multi_llm_chat.events import Event, FinishReason, TextDelta
from multi_llm_chat.history.json_values import as_object, as_text, compact_json
from multi_llm_chat.history.values import Extras, JsonObject, Media, Part
from multi_llm_chat.protocol._failures import (
    ErrorDetails,
    read_error_details,
    read_failure,
    words_of,
)
from multi_llm_chat.protocol.calls import CallDraft, DecodeContext
from multi_llm_chat.protocol.lenient_json import FAULTS, read_json
from multi_llm_chat.protocol.openai_chat.chunks import (
    CHUNKS,
    AudioDelta,
    CallDelta,
    Chunk,
    ChunkChoice,
    Delta,
    FunctionDelta,
    ReasoningDetails,
)
from multi_llm_chat.protocol.openai_chat.extra_content import (
    OtherChoice,
    executed_text,
    join_base64,
    joined_field,
    unknown_fields,
)
from multi_llm_chat.protocol.turn_assembly import ReplyDecoder, TextDraft

__all__ = ["OpenAIChatDecoder", "decode_reply", "read_failure"]

_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "safety",
    "refusal": "refusal",
}

#: Finish reasons that mean the server gave up.
_FAILURES: Final[dict[str, str]] = {
    "error": "The server stopped the reply because of an error.",
    "insufficient_system_resource": "The server interrupted the reply for lack of resources.",
}

_decode = CHUNKS.decode


class OpenAIChatDecoder(ReplyDecoder):
    """Reads one Chat Completions reply."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self._thinking = self._assembly.open_thinking()
        self._text = self._assembly.open_text()
        self._details = ReasoningDetails()
        self._refusal: TextDraft | None = None
        self._custom: dict[int, list[str]] = {}
        self._drafts: dict[int, CallDraft] = {}
        self._sounds: list[str] = []
        self._executed: dict[str, JsonObject] = {}
        self._others: dict[int, OtherChoice] = {}
        self.answered = False  # a choice has arrived
        self.is_whole = False  # whether the reply is not streamed

    def feed(self, event: str | None, data: bytes) -> list[Event]:
        """Read one server-sent event."""
        if self.done:
            return []
        try:
            chunk = _decode(data)
        except FAULTS:
            return self._feed_odd(event, data)
        if not chunk.choices or chunk.error is not None:
            return self._read_aside(chunk, event, data)
        choice = chunk.choices[0]
        delta = choice.delta
        if delta is None or choice.index or len(chunk.choices) > 1 or self.is_whole:
            return self._read_choices(chunk)
        if chunk.usage is not None or chunk.x_groq is not None or chunk.citations is not None:
            counted = self._count(chunk)
            if self.done:
                return counted
        events = self._read_delta(delta)
        if choice.logprobs is not None:
            self._add_logprobs(choice.logprobs)
        if choice.finish_reason or choice.error is not None:
            events += self._read_end(choice)
        self.answered = True
        return events

    def _feed_odd(self, event: str | None, data: bytes) -> list[Event]:
        if data.strip() == b"[DONE]":
            return self._finish()
        chunk = CHUNKS.recover(data)
        if chunk is None:
            return self._unreadable()
        if not chunk.choices or chunk.error is not None:
            return self._read_aside(chunk, event, data)
        for name, value in unknown_fields(read_json(data)).items():
            fields: JsonObject = self._text.extras.setdefault("message", {})
            fields[name] = joined_field(fields.get(name), value)
        return self._read_choices(chunk)

    def _read_choices(self, chunk: Chunk) -> list[Event]:
        events = self._count(chunk)
        if self.done:
            return events
        for choice in chunk.choices or ():
            if choice.index:
                other = self._others.setdefault(choice.index, OtherChoice(choice.index))
                other.add(choice)
                continue
            self.answered = True
            # Perplexity sends both: a reply that is not streamed has an empty delta, a chunk has the message so far.
            given = choice.message if self.is_whole and choice.message else choice.delta
            events += self._read_delta(given or choice.message or Delta())
            self._add_logprobs(choice.logprobs)
            events += self._read_end(choice)
        return events

    def _add_logprobs(self, logprobs: object) -> None:
        """Collect the log probabilities of tokens: the lists of all chunks are joined."""
        found = as_object(logprobs)
        if found is None:
            return
        kept: JsonObject = self._text.extras.setdefault("logprobs", {})
        for key, value in found.items():
            if isinstance(value, list):
                kept.setdefault(key, []).extend(cast("list[Any]", value))
            elif value is not None:
                kept[key] = value

    def _read_aside(self, chunk: Chunk, event: str | None, data: bytes) -> list[Event]:
        """Read a chunk that adds nothing to the message."""
        counted = self._count(chunk)
        if self.done:
            return counted
        if chunk.error is not None:
            return self._fail(read_error_details({"error": chunk.error}))
        value = read_json(data)
        body = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if event == "error" or "error" in (body.get("object"), body.get("type")):
            return self._fail(read_error_details(body))
        if "choices" not in body and ("message" in body or "detail" in body):
            return self._fail(read_error_details(body))
        return []

    def _count(self, chunk: Chunk) -> list[Event]:
        """Read the usage, and the error that Groq sends with it."""
        groq = chunk.x_groq
        usage = chunk.usage or (groq.usage if groq is not None else None)
        if usage is not None:
            self._usage = usage.as_usage()
        self._text.extras.update(chunk.sources())
        if groq is not None and groq.error is not None:
            return self._fail(read_error_details({"error": groq.error}))
        return []

    def _fail(self, fault: ErrorDetails) -> list[Event]:
        refused = [] if self.done else read_refused_calls(fault.failed_generation)
        if not refused:
            return super()._fail(fault)
        why = f"The server refused this call: {words_of(fault)}"
        events: list[Event] = []
        for call in refused:
            events += self._assembly.add_refused_call(call.name, call.arguments, why)
        self._reason, self._raw_reason = "tool_calls", next(iter(fault.codes), "")
        return events + self._close()

    def _read_delta(self, delta: Delta) -> list[Event]:
        events = self._read_words(delta)
        if delta.tool_calls:
            events += self._read_calls(delta.tool_calls)
        if delta.refusal:
            events += self._refuse(delta.refusal)
        legacy = delta.function_call
        if legacy is not None and (legacy.name or legacy.arguments):
            events += self._read_calls([CallDelta(index=0, function=legacy)])
        if delta.images or delta.annotations or delta.audio or delta.executed_tools:
            events += self._read_extras(delta)
        if delta.extra_content is not None:
            self._text.extras.setdefault("message", {})["extra_content"] = delta.extra_content
        return events

    def _read_words(self, delta: Delta) -> list[Event]:
        events: list[Event] = []
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            events += self._think(delta)
        content = delta.content
        if content:
            if isinstance(content, str):
                self._text.fragments.append(content)
                events.append(TextDelta(content))
            else:
                events += self._read_content(content)
        return events

    def _read_extras(self, delta: Delta) -> list[Event]:
        events: list[Event] = []
        if delta.images:
            self._read_images(delta.images)
        if delta.annotations:
            self._text.extras.setdefault("annotations", []).extend(delta.annotations)
        if delta.audio is not None:
            events += self._hear(delta.audio)
        if delta.executed_tools:
            self._read_executed(delta.executed_tools)
        return events

    def _refuse(self, refusal: str) -> list[Event]:
        if self._refusal is None:
            self._refusal = self._assembly.open_text()
            self._refusal.extras["type"] = "refusal"
        return self._refusal.add(refusal)

    def _hear(self, audio: AudioDelta) -> list[Event]:
        for key, value in (("id", audio.id), ("expires_at", audio.expires_at)):
            if value:
                self._text.extras.setdefault("audio", {})[key] = value
        if audio.data:
            self._sounds.append(audio.data)
        return self._text.add(audio.transcript or "")

    def _read_executed(self, steps: list[Any]) -> None:
        """Collect the steps of the server's own tools; later pieces of a step complete earlier ones (Groq).

        A step that the server repeats with other arguments has the same index (recorded for groq/compound).
        """
        for place, value in enumerate(steps):
            step = as_object(value)
            if step is not None:
                key = f"{step.get('index', place)} {step.get('arguments') or ''}"
                begun = self._executed.pop(f"{step.get('index', place)} ", {})
                known = begun | self._executed.get(key, {})
                self._executed[key] = known | {k: v for k, v in step.items() if v is not None}

    def _think(self, delta: Delta) -> list[Event]:
        field = "reasoning_content" if delta.reasoning_content else "reasoning"
        text = delta.reasoning_content or delta.reasoning or ""
        if delta.reasoning_details:
            details = self._details.add(delta.reasoning_details)
            text = text or details
        self._thinking.opaque.setdefault("field", field)
        return self._thinking.add(text)

    def _read_content(self, chunks: list[Any] | JsonObject) -> list[Event]:
        if isinstance(chunks, dict):  # the requested object itself, not its text
            return self._text.add(compact_json(chunks))
        events: list[Event] = []
        for chunk in chunks:
            entries = as_object(chunk)
            if isinstance(chunk, str):
                events += self._text.add(chunk)
            elif entries is None:
                continue
            elif entries.get("type") == "thinking":
                self._thinking.opaque.setdefault("field", "content")
                events += self._thinking.add(_text_of(entries.get("thinking")))
            elif entries.get("type") == "refusal":
                events += self._refuse(as_text(entries.get("refusal")))
            elif entries.get("type") == "reference":
                self._text.extras.setdefault("references", []).append(entries)
            else:
                events += self._text.add(_text_of(entries))
        return events

    def _read_calls(self, calls: list[CallDelta]) -> list[Event]:
        events: list[Event] = []
        for position, call in enumerate(calls):
            custom = (
                call.custom if call.custom and (call.custom.name or call.custom.input) else None
            )
            function = call.function or FunctionDelta()
            events += self._assembly.add_call(
                key=call.index,
                wire_id=call.id,
                name=function.name if custom is None else custom.name,
                arguments=function.arguments,
                separate=position > 0,
            )
            draft = self._assembly.calls.last
            if draft is not None and (custom is not None or call.extra_content is not None):
                self._add_extras(draft, call)
        return events

    def _add_extras(self, draft: CallDraft, call: CallDelta) -> None:
        if call.extra_content is not None:
            draft.extras["extra_content"] = call.extra_content
        custom = call.custom
        if custom is not None and (custom.name or custom.input):
            draft.extras["type"] = "custom"
            self._drafts[draft.index] = draft
            self._custom.setdefault(draft.index, []).append(custom.input or "")

    def _read_images(self, images: list[Any]) -> None:
        for image in images:
            url = _url_of(image)
            if url.startswith("data:"):
                head, _, data = url[5:].partition(",")
                self._assembly.add_media(Media(head.partition(";")[0], data=data))
            elif url:
                self._assembly.add_media(Media("image/*", url=url))

    def _read_end(self, choice: ChunkChoice) -> list[Event]:
        raw = choice.finish_reason
        if choice.error is not None:
            return self._fail(read_error_details({"error": choice.error}))
        if not raw:
            return []
        if raw in _FAILURES:
            return self._fail(ErrorDetails(_FAILURES[raw], codes=(raw,)))
        self._reason = _REASONS.get(raw, "other")
        self._raw_reason = raw
        return []

    def _finish(self) -> list[Event]:
        if self._reason is None:
            self._reason = "stop"
        return self._close()

    def _close(self) -> list[Event]:
        if self.done:
            return []
        if self._refusal is not None:
            self._reason = "refusal"
        if self._details.entries:
            self._thinking.opaque["reasoning_details"] = self._details.merged()
        call = self._assembly.calls.last
        if "message" in self._text.extras and not self._text.fragments and call is not None:
            call.extras["message"] = self._text.extras["message"]
        for index, pieces in self._custom.items():
            self._drafts[index].value = {"input": "".join(pieces)}
        events: list[Event] = []
        if self._sounds:
            fields: JsonObject = {"audio": self._text.extras.get("audio", {})}
            if not self._text.fragments:
                fields |= self._text.extras
            data = join_base64(self._sounds)
            # Streamed sound has no header.
            mime = "audio/wav" if len(self._sounds) == 1 else "audio/pcm"
            extras = Extras(self.context.origin, fields)
            self._assembly.add_media(Media(mime, data=data, extras=extras))
        if self._executed:
            steps = list(self._executed.values())
            raw: JsonObject = {"executed_tools": steps}
            events += self._assembly.add_native("executed_tools", executed_text(steps), raw)
        for other in self._others.values():
            events += self._assembly.add_native("choice", other.text(), other.raw())
        return events + super()._close()


def decode_reply(data: bytes, context: DecodeContext) -> tuple[tuple[Part, ...], list[Event]]:
    """Read a reply that was not streamed.

    Raises:
        ProviderError: The body is an error, or not a reply.
    """
    decoder = OpenAIChatDecoder(context)
    decoder.is_whole = True
    events = decoder.feed(None, data)
    if decoder.answered:
        events += decoder.feed(None, b"[DONE]")
    events += decoder.end()
    return decoder.parts, events


def _text_of(value: object) -> str:
    """Return the text of a content chunk, or of a list of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_text_of(item) for item in cast("list[object]", value))
    if isinstance(value, dict):
        text: object = cast("dict[str, object]", value).get("text")
        return text if isinstance(text, str) else ""
    return ""


def _url_of(image: object) -> str:
    entries = cast("dict[str, object]", image) if isinstance(image, dict) else {}
    inner: object = entries.get("image_url") or cast("object", image)
    url = cast("dict[str, object]", inner).get("url") if isinstance(inner, dict) else inner
    return url if isinstance(url, str) else ""


#: ``<function=name>{…}</function>``, also without the bracket, or with round brackets around the object.
_TAGGED: Final = re.compile(
    r"<function\s*=\s*([^\s>{(<]+)\s*>?\s*\(?\s*(.*?)\s*\)?\s*>?\s*(?:</?function>|(?=<function\s*=)|\Z)",
    re.DOTALL,
)
_OPENING: Final = re.compile(r"[\[{]")
_DECODER: Final = json.JSONDecoder()
_ARGUMENTS: Final = ("arguments", "parameters", "input", "args")


class RefusedCall(NamedTuple):
    """A call that the server rejected; ``arguments`` is its text."""

    name: str
    arguments: str


def read_refused_calls(generation: str) -> list[RefusedCall]:
    """The calls in a model's rejected output."""
    tagged = [RefusedCall(name, arguments) for name, arguments in _TAGGED.findall(generation)]
    return tagged or [
        call for value in _json_values(generation) for call in _calls_in(cast("object", value))
    ]


def _json_values(text: str) -> list[Any]:
    values: list[Any] = []
    position = 0
    while found := _OPENING.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            return values  # the rest of the text is part of the broken value
        values.append(value)
    return values


def _calls_in(value: object) -> list[RefusedCall]:
    if isinstance(value, list):
        return [call for member in cast("list[object]", value) for call in _calls_in(member)]
    if not isinstance(value, dict):
        return []
    entries = cast("dict[str, Any]", value)
    if "tool_calls" in entries:
        return _calls_in(entries["tool_calls"])
    function = entries.get("function")
    merged = entries | cast("dict[str, Any]", function) if isinstance(function, dict) else entries
    name = merged.get("name")
    if not isinstance(name, str) or not name:
        return []
    arguments = next((merged[key] for key in _ARGUMENTS if key in merged), None)
    return [
        RefusedCall(
            name, arguments if isinstance(arguments, str) else compact_json(arguments or {})
        )
    ]
