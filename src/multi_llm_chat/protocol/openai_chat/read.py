"""Read the messages of Chat Completions as a history.

Rules:
1. Each message becomes one turn. Additional fields of a message (``name``, Mistral's ``prefix``, OpenRouter's
   ``annotations``) are the extra ``message`` of its first part, or of the result of a tool message; additional fields of a
   content part are the extras of its text.
2. Reasoning becomes thinking, whatever its field; the name of the field is kept.
3. Part types for which there is no part of ours become native parts.
4. Both forms of refusals, sound with its transcript, the legacy ``function_call`` and Ollama's ``images`` are read.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from multi_llm_chat.history.arguments import decode_arguments, parse_arguments
from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json, type_of
from multi_llm_chat.history.reader import (
    ROLE_ALIASES,
    ReadHistory,
    UsualContents,
    read_function_call,
    read_with_contents,
)
from multi_llm_chat.history.values import (
    NOWHERE,
    Extras,
    JsonObject,
    Media,
    Native,
    Origin,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.history.writer import write_part
from multi_llm_chat.protocol._message_reader import (
    content_parts,
    media_from_url,
    read_messages_list,
)
from multi_llm_chat.protocol.openai_chat.extra_content import executed_text

_THINKING_FIELDS: Final = ("reasoning_content", "reasoning")

_CACHE_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")

#: Keys of a message that are not read as additional fields.
_READ: Final = frozenset(
    {"role", "content", "tool_calls", "function_call", "tool_call_id", "refusal", "audio", "images",
     "reasoning_content", "reasoning", "reasoning_details", "executed_tools"}
)  # fmt: skip


#: The keys of a message that has only text and calls.
_SPOKEN: Final = frozenset({"role", "content", "tool_calls"})

#: Roles that the fast path for a message of text does not take: an empty one, a result's, other systems' names.
_OTHER_ROLES: Final = frozenset({"", "tool", *ROLE_ALIASES})


def read_usual_messages(messages: Iterable[Any]) -> ReadHistory | None:
    """Read messages by the fast path; None if any message is not usual, or if they may be of another format.

    A list without calls may be of another format.
    """
    contents = UsualContents([], [], [], [])
    turns: list[Turn] = []
    for message in messages:
        turn = _read_usual(message, len(turns), contents) if type_of(message) is dict else None
        if turn is None or not turn.parts:
            return None
        turns.append(turn)
    if not contents.calls or "" in [call.tool_call_id for call in contents.calls]:
        return None
    return read_with_contents(turns, contents)


def read_messages(messages: object, origin: Origin = NOWHERE) -> list[Turn]:
    """One turn for each message; reasoning, native parts and extras get this ``origin``."""
    reading = _Reader(origin)
    seen = UsualContents([], [], [], [])
    return [
        _read_usual(message, index, seen) or _read_message(message, index, reading)
        for index, message in enumerate(read_messages_list(messages))
    ]


def _read_message(message: JsonObject, index: int, reading: "_Reader") -> Turn:
    stated = as_text(message.get("role")) or "user"
    role = ROLE_ALIASES.get(stated, stated)
    parts: list[Part] = reading.content(message.get("content"), index)
    if message.get("content") == "" and role in ("user", "system"):
        parts = [Text("")]  # blank messages are kept
    if role == "tool":
        return Turn("tool", (reading.result(message, parts),))
    if stated == role and _SPOKEN.issuperset(message):
        return Turn(role, (*parts, *reading.calls(message)))
    all_parts = [*reading.thinking(message), *parts, *reading.keys(message)]
    fields = _message_fields(message)
    if stated == "developer":
        fields["role"] = stated
    if fields:
        all_parts = _with_fields(all_parts, {"message": fields}, reading.origin)
    return Turn(role, tuple(all_parts))


def _read_usual(message: JsonObject, at: int, contents: UsualContents) -> Turn | None:
    """The fast path for a text, calls, or a result with text, without other fields; None for any other message.

    The parts are appended to ``contents``.
    """
    role: Any = message.get("role")
    content: Any = message.get("content")
    if type(role) is not str:
        return None
    if type(content) is str and len(message) == 2 and role not in _OTHER_ROLES:
        contents.texts.append(content)
        return Turn(role, (Text(content),))
    if role == "assistant":
        parts = _usual_parts(message, content, contents)
        contents.lists.append(at)
        return None if parts is None else Turn(role, parts)
    if role == "tool" and type(content) is str and len(message) == 3:
        identifier: Any = message.get("tool_call_id")
        if type(identifier) is str:
            result = ToolResult("", content, identifier)
            contents.results.append(result)
            contents.lists.append(at)
            return Turn(role, (result,))
    return None


def _usual_parts(
    message: JsonObject, content: Any, contents: UsualContents
) -> tuple[Part, ...] | None:
    """The text and the calls of a message without other fields and with usual calls; None for any other message."""
    values: Any = message.get("tool_calls")
    if type_of(values) is not list or not _SPOKEN.issuperset(message):
        return None
    parts: list[Part] = []
    if content:
        if type(content) is not str:
            return None
        contents.texts.append(content)
        parts.append(Text(content))
    for value in values:
        call = _usual_call(value)
        if call is None:
            return None
        contents.calls.append(call)
        parts.append(call)
    return tuple(parts)


def _message_fields(message: JsonObject) -> JsonObject:
    return {
        key: value
        for key, value in message.items()
        if key not in _READ and value is not None and value != []
    }


def _with_fields(parts: list[Part], fields: JsonObject, origin: Origin) -> list[Part]:
    """The parts, with the fields added to the extras of the first part that can have them."""
    for place, part in enumerate(parts):
        if isinstance(part, (Text, Media, ToolCall)):
            own = part.extras.fields if part.extras else {}
            parts[place] = replace(part, extras=Extras(origin, own | fields))
            break
    return parts


class _Reader:
    """Reads the content of messages; reasoning, native parts and extras get this ``origin``."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin

    def _extras(self, fields: JsonObject) -> Extras | None:
        return Extras(self.origin, fields) if fields else None

    def content(self, content: object, index: int) -> list[Part]:
        if type(content) is str:
            return [Text(content)] if content else []
        return [self.part(part) for part in content_parts(content, index)]

    def result(self, message: JsonObject, parts: list[Part]) -> ToolResult:
        identifier, name = as_text(message.get("tool_call_id")), as_text(message.get("name"))
        fields = _message_fields(message)
        if message.get("role") == "function":  # the legacy form, in which the name is the id
            fields.pop("name", None)
        extras = self._extras(fields)
        if all(isinstance(part, Text) and part.extras is None for part in parts):
            words = "\n".join(part.content for part in parts if isinstance(part, Text))
            return ToolResult(name, words, identifier, extras=extras)
        return ToolResult(name, [write_part(part) for part in parts], identifier, extras=extras)

    def keys(self, message: JsonObject) -> Iterator[Part]:
        """The parts in the message's other keys."""
        refusal, audio = as_text(message.get("refusal")), as_object(message.get("audio"))
        if refusal:
            yield Text(refusal, self._extras({"type": "refusal", "place": "message"}))
        if audio:
            yield from self._audio_answer(audio)
        for image in as_list(message.get("images")) or []:
            yield _ollama_image(image)
        steps = [
            step
            for each in as_list(message.get("executed_tools")) or []
            if (step := as_object(each))
        ]
        if steps:
            yield Native(
                "executed_tools", executed_text(steps), self.origin, {"executed_tools": steps}
            )
        yield from self.calls(message)
        legacy = self._call(message.get("function_call"))
        if legacy is not None:
            yield replace(legacy, extras=self._extras({"form": "function_call"}))

    def calls(self, message: JsonObject) -> list[ToolCall]:
        values = as_list(message.get("tool_calls")) or []
        return [call for value in values if (call := self._call(value)) is not None]

    def _audio_answer(self, audio: JsonObject) -> Iterator[Part]:
        fields = {"audio": {key: audio[key] for key in ("id", "expires_at") if audio.get(key)}}
        transcript, data = as_text(audio.get("transcript")), as_text(audio.get("data"))
        words = transcript or ("" if data else "[a spoken answer]")
        if words:
            yield Text(words, self._extras(fields))
        if data:
            yield Media("audio/wav", data=data, extras=self._extras(fields))

    def _call(self, value: object) -> ToolCall | None:
        usual = _usual_call(value)
        if usual is not None:
            return usual
        entry, call = as_object(value), read_function_call(value)
        if entry is None or call is None:
            return None
        custom = as_object(entry.get("custom"))
        if custom is not None and not as_text(custom.get("name")):
            custom = None  # Snowflake sends both, one of them empty
            call = read_function_call({k: v for k, v in entry.items() if k != "custom"}) or call
        keys = ("extra_content", *_CACHE_MARKS)
        fields = {key: entry[key] for key in keys if entry.get(key) is not None}
        if custom is not None:
            text = as_text(custom.get("input"))
            extras = self._extras(fields | {"type": "custom"})
            return ToolCall(call.name, {"input": text}, call.tool_call_id, extras=extras)
        if call.error and (call.raw_arguments or "").strip() == "null":  # GRQ-08
            arguments, raw, error = parse_arguments(None)
            call = replace(call, arguments=arguments, raw_arguments=raw, error=error)
        return replace(call, extras=self._extras(fields)) if fields else call

    def thinking(self, message: JsonObject) -> Iterator[Part]:
        details = as_list(message.get("reasoning_details"))
        field = next((field for field in _THINKING_FIELDS if as_text(message.get(field))), None)
        opaque: JsonObject = {} if field is None else {"field": field}
        if details:
            opaque["reasoning_details"] = details
        if opaque:
            yield Thinking(as_text(message.get(field or "")), self.origin, opaque)

    def part(self, part: JsonObject) -> Part:
        kind = as_text(part.get("type"))
        if kind == "text":
            fields = {
                key: value for key, value in part.items() if key not in ("type", "text") and value
            }
            return Text(as_text(part.get("text")), self._extras(fields))
        if kind == "refusal":
            return Text(as_text(part.get("refusal")), self._extras({"type": "refusal"}))
        if kind == "thinking":
            chunks = as_list(part.get("thinking")) or []
            words = [as_text(chunk.get("text")) for each in chunks if (chunk := as_object(each))]
            opaque = {"field": "content"} | {
                key: value
                for key, value in part.items()
                if key != "type" and (key != "thinking" or len(chunks) > 1)
            }
            return Thinking("".join(words) or as_text(part.get("thinking")), self.origin, opaque)
        reader = _MEDIA.get(kind)
        if reader is None:
            return Native(kind or "unknown", _describe(part), self.origin, part)
        media = reader(part)
        fields = {key: part[key] for key in _CACHE_MARKS if part.get(key)}
        detail = (as_object(part.get("image_url")) or {}).get("detail")
        if detail not in (None, "auto"):
            fields["detail"] = detail
        if media.file_id is not None:
            fields["type"] = kind
        return replace(media, extras=self._extras(fields)) if fields else media


def _usual_call(value: Any) -> ToolCall | None:
    """The fast path for a function call in the published form with valid arguments; None for any other call."""
    if type_of(value) is not dict or len(value) != 3:
        return None
    try:  # a missing key is rare, so the keys are read without a check
        function: Any = value["function"]
        if type_of(function) is not dict or len(function) != 2 or value["type"] != "function":
            return None
        name, source, identifier = function["name"], function["arguments"], value["id"]
    except KeyError:
        return None
    if type(name) is not str or type(source) is not str or type(identifier) is not str:
        return None
    arguments = decode_arguments(source)
    return None if arguments is None else ToolCall(name, arguments, identifier, source)


def _describe(part: JsonObject) -> str:
    rest = {key: value for key, value in part.items() if key != "type"}
    return f"{as_text(part.get('type')) or 'part'} {compact_json(rest)}"


def _address(value: Any) -> str:
    described = as_object(value)
    return as_text(described.get("url")) if described else as_text(value)


def _image(part: JsonObject) -> Media:
    return media_from_url(_address(part.get("image_url")))


def _video(part: JsonObject) -> Media:
    return media_from_url(_address(part.get("video_url")), "video/mp4")


def _document(part: JsonObject) -> Media:
    name = as_text(part.get("document_name")) or None
    return media_from_url(_address(part.get("document_url")), "application/pdf", name)


def _audio(part: JsonObject) -> Media:
    audio = as_object(part.get("input_audio"))
    if audio is None:  # Mistral: only the base64 text or a URL
        text = as_text(part.get("input_audio"))
        if text.startswith(("http:", "https:", "data:")):
            return media_from_url(text, "audio/wav")
        return Media("audio/wav", data=text)
    return Media(f"audio/{as_text(audio.get('format')) or 'wav'}", data=as_text(audio.get("data")))


def _file(part: JsonObject) -> Media:
    file = as_object(part.get("file")) or {}
    name = as_text(file.get("filename")) or None
    data = as_text(file.get("file_data"))
    if not data:
        return Media("application/pdf", name=name, file_id=as_text(file.get("file_id")) or None)
    return media_from_url(data, "application/pdf", name)


def _ollama_image(value: object) -> Media:
    text = as_text(value)
    if text.startswith(("http:", "https:", "data:")) or not isinstance(value, str):
        return media_from_url(text or _address(value))
    return Media("image/png", data=text)


_MEDIA: Final[dict[str, Callable[[JsonObject], Media]]] = {
    "image_url": _image,
    "video_url": _video,
    "document_url": _document,
    "input_audio": _audio,
    "file": _file,
}
