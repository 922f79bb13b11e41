"""Read the messages of Chat Completions as a history."""

from collections.abc import Callable, Iterator

from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.reader import ROLE_ALIASES, read_function_call, unknown_part
from multi_llm_chat.history.values import (
    NOWHERE,
    JsonObject,
    Media,
    Origin,
    Part,
    Text,
    Thinking,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol._message_reader import (
    content_parts,
    media_from_url,
    read_messages_list,
)

_THINKING_FIELDS = ("reasoning_content", "reasoning")


def read_messages(messages: object, origin: Origin = NOWHERE) -> list[Turn]:
    """One turn for each message; ``origin`` stamps the reasoning found in them."""
    return [
        _read_message(message, index, origin)
        for index, message in enumerate(read_messages_list(messages))
    ]


def _read_message(message: JsonObject, index: int, origin: Origin) -> Turn:
    role = as_text(message.get("role")) or "user"
    role = ROLE_ALIASES.get(role, role)
    parts = [_read_part(part) for part in content_parts(message.get("content"), index)]
    if role == "tool":
        return Turn("tool", (_read_result(message, parts),))
    return Turn(role, (*_thinking(message, origin), *parts, *_calls(message)))


def _read_result(message: JsonObject, parts: list[Part]) -> ToolResult:
    texts = [part.content for part in parts if isinstance(part, Text)]
    return ToolResult(
        name=as_text(message.get("name")),
        content="\n".join(texts),
        tool_call_id=as_text(message.get("tool_call_id")),
    )


def _calls(message: JsonObject) -> Iterator[Part]:
    calls = as_list(message.get("tool_calls")) or []
    legacy = message.get("function_call")
    for value in [*calls, legacy] if legacy is not None else calls:
        call = read_function_call(value)
        if call is not None:
            yield call


def _thinking(message: JsonObject, origin: Origin) -> Iterator[Part]:
    details = as_list(message.get("reasoning_details"))
    field = next((field for field in _THINKING_FIELDS if as_text(message.get(field))), None)
    opaque: JsonObject = {} if field is None else {"field": field}
    if details:
        opaque["reasoning_details"] = details
    if opaque:
        yield Thinking(as_text(message.get(field or "")), origin, opaque)


def _read_part(part: JsonObject) -> Part:
    reader = _READERS.get(as_text(part.get("type")))
    kind = as_text(part.get("type"))
    return reader(part) if reader is not None else unknown_part(part, kind or "part")


def _text(part: JsonObject) -> Part:
    return Text(as_text(part.get("text")))


def _refusal(part: JsonObject) -> Part:
    return Text(as_text(part.get("refusal")))


def _image(part: JsonObject) -> Part:
    image = part.get("image_url")
    described = as_object(image)
    return media_from_url(as_text(described.get("url")) if described else as_text(image))


def _audio(part: JsonObject) -> Part:
    audio = as_object(part.get("input_audio")) or {}
    return Media(f"audio/{as_text(audio.get('format')) or 'wav'}", data=as_text(audio.get("data")))


def _file(part: JsonObject) -> Part:
    file = as_object(part.get("file")) or {}
    name = as_text(file.get("filename")) or None
    return media_from_url(as_text(file.get("file_data")), "application/pdf", name)


_READERS: dict[str, Callable[[JsonObject], Part]] = {
    "text": _text,
    "refusal": _refusal,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
}
