"""Read Gemini's contents as a history; names may be in camelCase or snake_case."""

import re
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.reader import ROLE_ALIASES, unknown_part
from multi_llm_chat.history.values import (
    NOWHERE,
    JsonObject,
    Media,
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
    MODEL,
    content_parts,
    read_messages_list,
    turns_of,
)

#: What stands in a result's text for one of its media, as the encoder writes it: name and type.
_LABEL = re.compile(r"\[attachment: (?:([^\[\]]+), )?([^,\[\]]+)\]")


def read_messages(messages: object, origin: Origin = NOWHERE) -> list[Turn]:
    """The contents as turns; ``origin`` stamps the signatures found in them."""
    turns: list[Turn] = []
    for index, content in enumerate(read_messages_list(messages)):
        role = as_text(content.get("role")) or "user"
        role = MODEL if role == "model" else ROLE_ALIASES.get(role, role)
        parts = [
            part
            for value in content_parts(content.get("parts"), index)
            for part in _read_part(value, origin)
        ]
        turns.extend(turns_of("user" if role == "tool" else role, parts))
    return turns


def _either(part: JsonObject, camel: str, snake: str) -> Any:
    return part.get(camel, part.get(snake))


def _read_part(part: JsonObject, origin: Origin) -> Iterator[Part]:
    signature = _either(part, "thoughtSignature", "thought_signature")
    opaque: JsonObject = {"thoughtSignature": signature} if isinstance(signature, str) else {}
    if part.get("thought") is True:
        yield Thinking(as_text(part.get("text")), origin, opaque)
        return
    if opaque:
        yield Thinking("", origin, opaque)
    read = _read_content(part)
    if not (opaque and read == Text("")):
        yield read


def _read_content(part: JsonObject) -> Part:
    if isinstance(part.get("text"), str):
        return Text(part["text"])
    call = as_object(_either(part, "functionCall", "function_call"))
    if call is not None:
        arguments, raw, error = parse_arguments(call.get("args"))
        return ToolCall(as_text(call.get("name")), arguments, as_text(call.get("id")), raw, error)
    response = as_object(_either(part, "functionResponse", "function_response"))
    if response is not None:
        return _read_response(response)
    blob = as_object(_either(part, "inlineData", "inline_data"))
    if blob is not None:
        mime = as_text(_either(blob, "mimeType", "mime_type"))
        return Media(mime or "application/octet-stream", data=as_text(blob.get("data")))
    file = as_object(_either(part, "fileData", "file_data"))
    if file is not None:
        mime = as_text(_either(file, "mimeType", "mime_type"))
        address = as_text(_either(file, "fileUri", "file_uri"))
        return Media(mime or "application/octet-stream", url=address)
    return unknown_part(part, next(iter(part), "part"))


def _read_response(response: JsonObject) -> ToolResult:
    content, is_error = _unwrapped(response.get("response"))
    parts = [
        _read_content(part) for part in map(as_object, as_list(response.get("parts")) or ()) if part
    ]
    media = [part for part in parts if isinstance(part, Media)]
    if media:
        content = _with_media(content, media)
    return ToolResult(
        name=as_text(response.get("name")),
        content=content,
        tool_call_id=as_text(response.get("id")),
        is_error=is_error,
    )


def _with_media(content: Any, media: list[Media]) -> list[JsonObject]:
    """A result's text and the media it came with, each under the name that its label in the text has."""
    answer = as_object(content)
    if answer is not None and answer.keys() == {"result"}:
        content = answer["result"]
    text = content if isinstance(content, str) else compact_json(content)
    labels: list[tuple[str, str]] = _LABEL.findall(text)
    parts: list[Part] = [Text(text)]
    for item in media:
        label = next((label for label in labels if label[1] == item.mime), None)
        if label is not None:
            labels.remove(label)
        parts.append(replace(item, name=label[0] or None) if label else item)
    return [write_part(part) for part in parts]


def _unwrapped(content: Any) -> tuple[Any, bool]:
    """Plain text out of the object that had to be put around it; other objects stay as they are."""
    answer = as_object(content)
    if answer is None or len(answer) != 1:
        return content, False
    key, text = next(iter(answer.items()))
    if key == "error" and isinstance(text, str):
        return text, True
    # Text that reads as an object would be sent as that object.
    if key == "result" and isinstance(text, str) and not text.startswith("{"):
        return text, False
    return content, False
