"""Read the messages of Anthropic's API as a history.

Rules:
1. A user message that opens with results becomes a tool turn and a user turn.
2. A block for which we have no part becomes a ``Native`` part; additional fields become extras: ``native_blocks``.
3. A result that has more than plain texts and attachments keeps its original content in its extras; its text and
   attachments are the content for other providers.
4. A plain-text document is an attachment of the type ``text/plain``; a file that Anthropic stores has a ``file_id``.
"""

import base64
from collections.abc import Iterable
from typing import Any

from multi_llm_chat.history.arguments import copy_arguments, parse_arguments
from multi_llm_chat.history.json_values import as_list, as_object, as_text, type_of
from multi_llm_chat.history.native_text import remaining_fields
from multi_llm_chat.history.reader import ROLE_ALIASES, ReadHistory
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
    read_messages_list,
    read_usual_turns,
    turns_of,
)
from multi_llm_chat.protocol.anthropic.native_blocks import (
    CALL_KEYS,
    TEXT_KEYS,
    read_extras,
    read_native,
)

_MEDIA_KEYS = frozenset({"type", "source"})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", "is_error"})


def read_messages(messages: object, origin: Origin = NOWHERE) -> list[Turn]:
    """The messages as turns; their thinking, native parts and extras get this ``origin``."""
    turns: list[Turn] = []
    for index, message in enumerate(read_messages_list(messages)):
        role = as_text(message.get("role")) or "user"
        role = ROLE_ALIASES.get(role, role)
        content = message.get("content")
        if type(content) is str and content:
            turns.append(Turn(role, (Text(content),)))
            continue
        parts = [
            _read_usual(block) or _read_block(block, index, origin)
            for block in content_parts(content, index)
        ]
        turns += turns_of(role, parts)
    return turns


def read_usual_messages(messages: Iterable[Any]) -> ReadHistory | None:
    """Read messages by the fast path; None if any message is not usual, or if they may be of another format.

    A list without calls may be of another format.
    """
    turns: list[Turn] = []
    for message in messages:
        if type_of(message) is not dict or len(message) != 2:
            return None
        role: Any = message.get("role")
        content: Any = message.get("content")
        if (role != "user" and role != "assistant") or not content:
            return None
        if type_of(content) is str:
            turns.append(Turn(role, (Text(content),)))
        elif type_of(content) is not list:
            return None
        else:
            parts: list[Part] = []
            for block in content:
                part = _read_usual(block) if type_of(block) is dict else None
                if part is None:
                    return None
                parts.append(part)
            turns += turns_of(role, parts)
    return read_usual_turns(turns, wants_calls=True)


def _read_usual(block: JsonObject) -> Part | None:
    """The fast path for most blocks: a text, a call or a result with text, without other fields; None for any other block."""
    kind, size = block.get("type"), len(block)
    if kind == "text" and size == 2:
        text = block.get("text")
        return Text(text) if type(text) is str else None
    if kind == "tool_use" and size == 4:
        name, identifier, given = block.get("name"), block.get("id"), block.get("input")
        if type(name) is str and type(identifier) is str and type_of(given) is dict:
            return ToolCall(name, copy_arguments(given), identifier)
    elif kind == "tool_result" and size == 3:
        content, identifier = block.get("content"), block.get("tool_use_id")
        if type(content) is str and type(identifier) is str:
            return ToolResult("", content, identifier)
    return None


def _read_block(block: JsonObject, index: int, origin: Origin) -> Part:
    match as_text(block.get("type")):
        case "text":
            extras = read_extras(block, TEXT_KEYS, origin) if len(block) > 2 else None
            return Text(as_text(block.get("text")), extras)
        case "tool_use":
            arguments, raw, error = parse_arguments(block.get("input"))
            name, identifier = as_text(block.get("name")), as_text(block.get("id"))
            extras = read_extras(block, CALL_KEYS, origin) if len(block) > 4 else None
            return ToolCall(name, arguments, identifier, raw, error, extras)
        case "tool_result":
            return _read_result(block, index, origin)
        case "thinking" | "redacted_thinking":
            return _read_thinking(block, origin)
        case "image" | "document":
            return _read_media(block, origin)
        case _:
            return read_native(block, origin)


def _read_thinking(block: JsonObject, origin: Origin) -> Part:
    if block.get("type") == "redacted_thinking":
        return Thinking("", origin, {"redacted": as_text(block.get("data"))})
    signature = block.get("signature")
    opaque = {"signature": signature} if isinstance(signature, str) else {}
    return Thinking(as_text(block.get("thinking")), origin, opaque)


def _read_media(block: JsonObject, origin: Origin) -> Part:
    source = as_object(block.get("source")) or {}
    default = "application/pdf" if block.get("type") == "document" else "image/png"
    mime = as_text(source.get("media_type")) or default
    name = as_text(block.get("title")) or None
    extras = read_extras(block, _MEDIA_KEYS, origin)
    match source.get("type"):
        case "file" if isinstance(source.get("file_id"), str):
            # Only its origin can read the file: the reference is written from the extras, which have that origin.
            fields: JsonObject = {"type": as_text(block.get("type")), "source": source}
            fields |= extras.fields if extras else {}
            return Media(mime, name=name, file_id=source["file_id"], extras=Extras(origin, fields))
        case "text" if isinstance(source.get("data"), str):
            data = base64.b64encode(source["data"].encode(errors="replace")).decode()
            return Media("text/plain", data=data, name=name, extras=extras)
        case _ if isinstance(source.get("url"), str):
            return Media(mime, url=source["url"], name=name, extras=extras)
        case _ if isinstance(source.get("data"), str):
            return Media(mime, data=source["data"], name=name, extras=extras)
        case _:
            return read_native(block, origin)


def _read_result(block: JsonObject, index: int, origin: Origin) -> Part:
    fields = {} if _RESULT_KEYS.issuperset(block) else remaining_fields(block, _RESULT_KEYS)
    content = block.get("content")
    read, is_whole = read_result_content(content, index)
    if not is_whole:
        fields["content"] = content
    return ToolResult(
        name="",
        content=read,
        tool_call_id=as_text(block.get("tool_use_id")),
        is_error=bool(block.get("is_error", False)),
        extras=Extras(origin, fields) if fields else None,
    )


def read_result_content(content: object, index: int = 0) -> tuple[Any, bool]:
    """The content of a result in our form, and whether it expresses the blocks completely."""
    if isinstance(content, str):
        return content, True
    if as_list(content) is None and (alone := as_object(content)) is not None:
        content = [alone]
    parts = [_read_block(block, index, NOWHERE) for block in content_parts(content, index)]
    is_whole = not any(
        isinstance(part, Native) or getattr(part, "extras", None) is not None for part in parts
    )
    plain: list[Part] = [
        Text(part.text) if isinstance(part, Native) else _without_extras(part) for part in parts
    ]
    texts = [part.content for part in plain if isinstance(part, Text)]
    if len(texts) == len(plain):
        return "\n".join(texts), is_whole
    return [write_part(part) for part in plain], is_whole


def _without_extras(part: Part) -> Part:
    if isinstance(part, Text):
        return Text(part.content)
    if isinstance(part, Media):
        if part.data is None and part.url is None:
            return Text(f"[attachment: file {part.file_id}, {part.mime}]")
        return Media(part.mime, part.data, part.url, part.name)
    return part
