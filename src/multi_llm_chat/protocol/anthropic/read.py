"""Read the messages of Anthropic's API as a history.

A user message that opens with results becomes a tool turn and a user turn. Blocks of tools that
ran on Anthropic's side mean nothing to another provider, nor to Anthropic without their partners: they are written as text.
"""

from collections.abc import Callable

from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_object, as_text
from multi_llm_chat.history.reader import ROLE_ALIASES
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
    content_parts,
    left_out,
    read_messages_list,
    turns_of,
)


def read_messages(messages: object, origin: Origin = NOWHERE) -> list[Turn]:
    """The messages as turns; ``origin`` stamps the thinking found in them."""
    turns: list[Turn] = []
    for index, message in enumerate(read_messages_list(messages)):
        role = as_text(message.get("role")) or "user"
        parts = [
            _read_block(block, index, origin)
            for block in content_parts(message.get("content"), index)
        ]
        turns.extend(turns_of(ROLE_ALIASES.get(role, role), parts))
    return turns


def _read_block(block: JsonObject, index: int, origin: Origin) -> Part:
    kind = as_text(block.get("type"))
    if kind == "tool_result":
        return _read_result(block, index)
    if kind in ("thinking", "redacted_thinking"):
        return _read_thinking(block, origin)
    reader = _READERS.get(kind)
    return reader(block) if reader is not None else left_out(kind)


def _read_thinking(block: JsonObject, origin: Origin) -> Part:
    if block.get("type") == "redacted_thinking":
        return Thinking("", origin, {"redacted": as_text(block.get("data"))})
    signature = block.get("signature")
    opaque = {"signature": signature} if isinstance(signature, str) else {}
    return Thinking(as_text(block.get("thinking")), origin, opaque)


def _read_text(block: JsonObject) -> Part:
    return Text(as_text(block.get("text")))


def _read_call(block: JsonObject) -> Part:
    arguments, raw, error = parse_arguments(block.get("input"))
    return ToolCall(as_text(block.get("name")), arguments, as_text(block.get("id")), raw, error)


def _read_media(block: JsonObject) -> Part:
    source = as_object(block.get("source")) or {}
    default = "application/pdf" if block.get("type") == "document" else "image/png"
    mime = as_text(source.get("media_type")) or default
    if isinstance(source.get("url"), str):
        return Media(mime, url=source["url"])
    if source.get("type") == "text":
        return Text(as_text(source.get("data")))
    return Media(mime, data=as_text(source.get("data")))


def _read_result(block: JsonObject, index: int) -> Part:
    parts = [
        _read_block(part, index, NOWHERE) for part in content_parts(block.get("content"), index)
    ]
    texts = [part.content for part in parts if isinstance(part, Text)]
    content = "\n".join(texts) if len(texts) == len(parts) else [write_part(part) for part in parts]
    return ToolResult(
        name="",
        content=content,
        tool_call_id=as_text(block.get("tool_use_id")),
        is_error=bool(block.get("is_error", False)),
    )


_READERS: dict[str, Callable[[JsonObject], Part]] = {
    "text": _read_text,
    "tool_use": _read_call,
    "image": _read_media,
    "document": _read_media,
}
