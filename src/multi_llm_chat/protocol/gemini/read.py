"""Read Gemini's contents as a history.

Rules:
1. Names may be in camelCase or snake_case, null means absent, a single part may be in place of a list (GEM-33).
2. A part for which we have no part becomes a ``Native`` part; additional fields become extras: ``native_parts``.
3. A response with media keeps its original content in its extras; its text and media are the content for other providers.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from multi_llm_chat.history.arguments import copy_arguments, parse_arguments
from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json, type_of
from multi_llm_chat.history.native_text import remaining_fields
from multi_llm_chat.history.reader import ROLE_ALIASES, ReadHistory
from multi_llm_chat.history.values import (
    NOWHERE,
    Extras,
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
    read_usual_turns,
    turns_of,
)
from multi_llm_chat.protocol.gemini.native_parts import (
    in_camel_case,
    is_native,
    read_extras,
    read_native,
)

_RESPONSE_KEYS = frozenset({"id", "name", "response", "parts"})
#: Keys of a call or a response that our parts express completely.
_CALL_KEYS = frozenset({"id", "name", "args"})
_ANSWER_KEYS = _RESPONSE_KEYS - {"parts"}

#: The label that the encoder writes into a result's text for one of its media: name and type.
_LABEL = re.compile(r"\[attachment: (?:([^\[\]]+), )?([^,\[\]]+)\]")


def read_messages(messages: object, origin: Origin = NOWHERE) -> list[Turn]:
    """The contents as turns; their signatures, native parts and extras get this ``origin``."""
    turns: list[Turn] = []
    for index, content in enumerate(read_messages_list(messages)):
        role = as_text(content.get("role")) or "user"
        role = MODEL if role == "model" else ROLE_ALIASES.get(role, role)
        given = content.get("parts")
        parts: list[Part] = []
        for value in content_parts([given] if as_object(given) is not None else given, index):
            usual = _read_usual(value)
            if usual is not None:
                parts.append(usual)
            else:
                parts += _read_part(in_camel_case(value), origin)
        if parts and _is_signature(parts[-1]) and all(type(part) is Thinking for part in parts):
            parts.append(Text(""))  # a turn with only thinking would be left out
        turns.extend(turns_of("user" if role == "tool" else role, parts))
    return turns


def read_usual_messages(messages: Iterable[Any]) -> ReadHistory | None:
    """Read contents by the fast path; None if any of them is not usual."""
    turns: list[Turn] = []
    for message in messages:
        if type_of(message) is not dict or len(message) != 2:
            return None
        role: Any = message.get("role")
        given: Any = message.get("parts")
        if role != "user" and role != "model":
            return None
        if type_of(given) is not list or not given:
            return None
        parts: list[Part] = []
        for value in given:
            part = _read_usual(value) if type_of(value) is dict else None
            if part is None:
                return None
            parts.append(part)
        turns += turns_of(MODEL if role == "model" else role, parts)
    return read_usual_turns(turns, wants_calls=False)


def _is_signature(part: Part) -> bool:
    """Whether a part is the signature of an empty text."""
    return isinstance(part, Thinking) and not part.content and "thought" not in part.opaque


def _read_usual(part: JsonObject) -> Part | None:
    """The fast path for most parts: a text, a call or a response without other fields; None for any other part."""
    if len(part) != 1:
        return None
    ((kind, value),) = part.items()
    if kind == "text":
        return Text(value) if type(value) is str else None
    return _read_usual_exchange(kind, value) if type_of(value) is dict else None


def _read_usual_exchange(kind: str, value: JsonObject) -> Part | None:
    name, identifier = value.get("name"), value.get("id", "")
    if type(name) is not str or type(identifier) is not str:
        return None
    if kind == "functionCall" and _CALL_KEYS.issuperset(value):
        if type_of(value.get("args")) is dict:
            return ToolCall(name, copy_arguments(value["args"]), identifier)
    elif kind == "functionResponse" and _ANSWER_KEYS.issuperset(value) and value.get("response"):
        content, is_error = _unwrapped(value["response"])
        return ToolResult(name, content, identifier, is_error)
    return None


def _read_part(part: JsonObject, origin: Origin) -> Iterator[Part]:
    if is_native(part) and "functionResponse" not in part:
        yield read_native(part, origin)
        return
    signature = part.get("thoughtSignature")
    opaque: JsonObject = {"thoughtSignature": signature} if isinstance(signature, str) else {}
    if part.get("thought") is True:
        if opaque and not part.get("text"):
            opaque["thought"] = True
        yield Thinking(as_text(part.get("text")), origin, opaque)
        return
    if opaque:
        yield Thinking("", origin, opaque)
    read = _read_content(part, origin)
    if not (opaque and read == Text("")):
        yield read


def _read_content(part: JsonObject, origin: Origin) -> Part:
    response = as_object(part.get("functionResponse"))
    if response is not None:
        return _read_response(response, origin)
    extras = read_extras(part, origin)
    call = as_object(part.get("functionCall"))
    if call is not None:
        arguments, raw, error = parse_arguments(call.get("args"))
        name, identifier = as_text(call.get("name")), as_text(call.get("id"))
        return ToolCall(name, arguments, identifier, raw, error, extras)
    blob = as_object(part.get("inlineData"))
    if blob is not None:
        mime = as_text(blob.get("mimeType")) or "application/octet-stream"
        name = as_text(blob.get("displayName")) or None
        return Media(mime, data=as_text(blob.get("data")), name=name, extras=extras)
    file = as_object(part.get("fileData"))
    if file is not None:
        mime = as_text(file.get("mimeType")) or "application/octet-stream"
        name = as_text(file.get("displayName")) or None
        return Media(mime, url=as_text(file.get("fileUri")), name=name, extras=extras)
    return Text(as_text(part.get("text")), extras)


def _read_response(response: JsonObject, origin: Origin) -> ToolResult:
    content, is_error, is_whole = read_response_content(response)
    fields = remaining_fields(response, _RESPONSE_KEYS)
    if not is_whole:
        fields["response"] = response.get("response")
        fields |= {"parts": response["parts"]} if "parts" in response else {}
    extras = Extras(origin, {"functionResponse": fields}) if fields else None
    return ToolResult(
        name=as_text(response.get("name")),
        content=content,
        tool_call_id=as_text(response.get("id")),
        is_error=is_error,
        extras=extras,
    )


def read_response_content(response: JsonObject) -> tuple[Any, bool, bool]:
    """The content of a response, whether it is an error, and whether the content expresses the response completely."""
    content, is_error = _unwrapped(response.get("response"))
    given = [
        in_camel_case(part) for part in map(as_object, as_list(response.get("parts")) or ()) if part
    ]
    media = [
        replace(part, extras=None)
        for part in (_read_content(each, NOWHERE) for each in given)
        if isinstance(part, Media)
    ]
    if not given:
        return content, is_error, content is not None and content != {}
    return _with_media(content, media), is_error, False


def _with_media(content: Any, media: list[Media]) -> list[JsonObject]:
    """A result's text and its media, each with the name in its label in the text."""
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
    """The plain text of a response, without the object that the encoder has put around it; other objects are unchanged."""
    answer = as_object(content)
    if answer is None or len(answer) != 1:
        return content, False
    key, text = next(iter(answer.items()))
    if key == "error" and isinstance(text, str):
        return text, True
    # The encoder would send text that is a JSON object as that object.
    if key == "result" and isinstance(text, str) and not text.startswith("{"):
        return text, False
    return content, False
