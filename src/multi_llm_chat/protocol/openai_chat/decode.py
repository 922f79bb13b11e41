"""Chat Completions replies, streamed or whole, to events and parts.

Rules:
1. A message has one reasoning, one content and its calls, and the parts stand in that order,
   whatever the order in which the pieces came: so it is replayed, and so a whole reply has it.
2. ``[DONE]`` or a finish reason completes a reply (STR-17); an empty finish reason is none.
3. A chunk without choices is usage, a content filter's report (STR-07), or an error (STR-09).
4. Only the first choice is read.
5. Thinking remembers in ``opaque["field"]`` where it stood: ``reasoning_content``, ``reasoning``,
   or ``content`` (Mistral's thinking chunks); OpenRouter's ``reasoning_details`` are kept whole.
6. A refusal is text, and the reason is ``refusal``.
7. A call that the server itself refused is part of the reply, with an error: not run, but answered (GRQ-04).
   Groq checks a model's calls and answers 400 where one fails, with the model's words in
   ``failed_generation``. The call is then as good as any other wrong call: the model learns what is wrong
   with it and tries again. Nothing is guessed: a call is a name and the text behind it, in one of the forms
   models write; the text of its arguments is kept as it was written. What is no call in any of these
   forms gives none, and the reply fails.
"""

import json
import re
from typing import Any, Final, NamedTuple, cast

from multi_llm_chat.events import Event, FinishReason, TextDelta
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.values import Media, Part
from multi_llm_chat.protocol._failures import (
    ErrorDetails,
    read_error_details,
    read_failure,
    words_of,
)
from multi_llm_chat.protocol.calls import DecodeContext
from multi_llm_chat.protocol.lenient_json import FAULTS, read_json
from multi_llm_chat.protocol.openai_chat.chunks import (
    CHUNKS,
    CallDelta,
    Chunk,
    ChunkChoice,
    Delta,
    FunctionDelta,
    ReasoningDetails,
)
from multi_llm_chat.protocol.turn_assembly import ReplyDecoder

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
        self._refused = False
        self.answered = False  # a choice has come

    def feed(self, event: str | None, data: bytes) -> list[Event]:
        """Take one server-sent event."""
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
        if delta is None or choice.index:
            return self._read_choices(chunk)
        if chunk.usage is not None or chunk.x_groq is not None:
            counted = self._count(chunk)
            if self.done:
                return counted
        events = self._read_delta(delta)
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
        return self._read_choices(chunk)

    def _read_choices(self, chunk: Chunk) -> list[Event]:
        events = self._count(chunk)
        if self.done:
            return events
        for choice in chunk.choices or ():
            if not choice.index:
                self.answered = True
                events += self._read_delta(choice.delta or choice.message or Delta())
                events += self._read_end(choice)
        return events

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
        if delta.tool_calls:
            events += self._read_calls(delta.tool_calls)
        if delta.refusal:
            self._refused = True
            events += self._text.add(delta.refusal)
        if delta.function_call is not None:
            events += self._read_calls([CallDelta(index=0, function=delta.function_call)])
        if delta.images:
            self._read_images(delta.images)
        return events

    def _think(self, delta: Delta) -> list[Event]:
        field = "reasoning_content" if delta.reasoning_content else "reasoning"
        text = delta.reasoning_content or delta.reasoning or ""
        if delta.reasoning_details:
            details = self._details.add(delta.reasoning_details)
            text = text or details
        self._thinking.opaque.setdefault("field", field)
        return self._thinking.add(text)

    def _read_content(self, chunks: list[Any]) -> list[Event]:
        events: list[Event] = []
        for chunk in chunks:
            if isinstance(chunk, str):
                events += self._text.add(chunk)
            elif isinstance(chunk, dict):
                entries = cast("dict[str, Any]", chunk)
                if entries.get("type") == "thinking":
                    self._thinking.opaque.setdefault("field", "content")
                    events += self._thinking.add(_text_of(entries.get("thinking")))
                else:
                    events += self._text.add(_text_of(entries))
        return events

    def _read_calls(self, calls: list[CallDelta]) -> list[Event]:
        events: list[Event] = []
        for position, call in enumerate(calls):
            function = call.function or FunctionDelta()
            events += self._assembly.add_call(
                key=call.index,
                wire_id=call.id,
                name=function.name,
                arguments=function.arguments,
                separate=position > 0,
            )
        return events

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
        if self._refused:
            self._reason = "refusal"
        if self._details.entries:
            self._thinking.opaque["reasoning_details"] = self._details.merged()
        return super()._close()


def decode_reply(data: bytes, context: DecodeContext) -> tuple[tuple[Part, ...], list[Event]]:
    """Read a reply that was not streamed.

    Raises:
        ProviderError: The body is an error, or not a reply.
    """
    decoder = OpenAIChatDecoder(context)
    events = decoder.feed(None, data)
    if decoder.answered:
        events += decoder.feed(None, b"[DONE]")
    events += decoder.end()
    return decoder.parts, events


def _text_of(value: object) -> str:
    """Give the text of a content chunk, or of a list of them."""
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


# Calls that the server refused.

#: ``<function=name>{…}</function>``, also with the bracket missing or round ones around the object.
_TAGGED: Final = re.compile(
    r"<function\s*=\s*([^\s>{(<]+)\s*>?\s*\(?\s*(.*?)\s*\)?\s*>?\s*(?:</?function>|(?=<function\s*=)|\Z)",
    re.DOTALL,
)
_OPENING: Final = re.compile(r"[\[{]")
_DECODER: Final = json.JSONDecoder()
_ARGUMENTS: Final = ("arguments", "parameters", "input", "args")


class RefusedCall(NamedTuple):
    """A call that was not passed on; ``arguments`` is its text."""

    name: str
    arguments: str


def read_refused_calls(generation: str) -> list[RefusedCall]:
    """The calls in what a model wrote."""
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
            return values  # what follows a broken value is part of it
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
