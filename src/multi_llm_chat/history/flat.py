"""Flat messages (seed 001's ``Message``): ids, unknown keys and untouched messages stay as they are.

Rules:
1. Each message becomes one turn; the message itself is kept in the turn's ``meta``.
2. An unchanged turn is written as the very message object it was read from.
3. A changed turn keeps its id and every unknown key; ``tool_calls``, ``tool_call_id`` and ``content`` are written from the
   turn, and the legacy keys are removed.
4. Content keeps its form and every item: images, sounds and resources are not read. If the text is unchanged, they keep their
   positions in the written content; otherwise only the texts are replaced.
5. A value that is not a message becomes a user message with its JSON as text.
"""

from collections.abc import Iterable
from typing import Any

from multi_llm_chat.history.json_values import (
    as_list,
    as_object,
    as_text,
    clean_json,
    compact_json,
)
from multi_llm_chat.history.reader import ROLE_ALIASES, read_function_call, split_result
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

#: Types of content items that are text.
_TEXT_TYPES = ("text", "input_text", "output_text")

_SOURCE = "message"
_PARTS = "parts"

#: Keys whose meaning the parts express; all other keys of a message are kept.
_OWN_KEYS = frozenset(
    {
        "role", "content", "tool_calls", "tool_call_id", "tool_use", "thinking", "thinkingSignature",
        "thinking_signature",
    }
)  # fmt: skip


def read_flat(messages: Iterable[Any]) -> list[Turn]:
    """Read flat messages, one turn for each."""
    return [_read_message(message) for message in messages]


def _read_message(value: Any) -> Turn:
    message = as_object(value)
    if message is None:
        text = value if isinstance(value, str) else compact_json(clean_json(value))
        message = {"role": "user", "content": text}
    role = as_text(message.get("role")) or "user"
    role = ROLE_ALIASES.get(role, role)
    content = message.get("content")
    parts: tuple[Part, ...]
    if role == "tool":
        name, identifier = as_text(message.get("name")), as_text(message.get("tool_call_id"))
        parts = (ToolResult(name, _plain(content), identifier),)
    else:
        parts = (*_content_parts(content), *_read_calls(message))
    return Turn(role, parts, meta={_SOURCE: message, _PARTS: parts})


#: The MIME type of the ``Media`` placeholder for a content item that is not text.
_ITEM = "application/x-content-item"


def _content_parts(content: object) -> list[Part]:
    """The texts, and a ``Media`` placeholder for each other item."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content)]
    items = as_list(content)
    return [_content_part(item) for item in (items if items is not None else [content])]


def _content_part(item: object) -> Part:
    text = item_text(item)
    return Text(text) if text is not None else Media(_ITEM, name="item")


def item_text(item: object) -> str | None:
    """The text of a content item; None for any other item, such as an image."""
    if isinstance(item, str):
        return item
    entry = as_object(item)
    is_text = entry is not None and entry.get("type", "text") in _TEXT_TYPES
    text = entry.get("text") if entry is not None and is_text else None
    return text if isinstance(text, str) else None


def _plain(content: object) -> Any:
    """A result's content: a string if all items are text, else the items as they are."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = [item_text(item) for item in as_list(content) or [content]]
    known = [text for text in texts if text is not None]
    return "\n".join(known) if len(known) == len(texts) else content


def _read_calls(message: JsonObject) -> Iterable[ToolCall]:
    legacy = message.get("tool_use")
    listed = [*(as_list(message.get("tool_calls")) or []), *(as_list(legacy) or [legacy])]
    return [call for value in listed if (call := read_function_call(value)) is not None]


def write_flat(turns: Iterable[Turn], *, result_names: bool = False) -> list[JsonObject]:
    """Write turns as flat messages; ``result_names`` adds the tool's name to results."""
    return [message for turn in turns for message in _write_turn(turn, result_names)]


def _write_turn(turn: Turn, result_names: bool) -> Iterable[JsonObject]:
    source: JsonObject | None = turn.meta.get(_SOURCE)
    if source is not None and _unchanged(turn, source):
        return [source]
    kept = {key: value for key, value in (source or {}).items() if key not in _OWN_KEYS}
    if turn.role == "tool":
        return [
            _write_result(part, kept, result_names)
            for part in turn.parts
            if isinstance(part, ToolResult)
        ]
    message = _ordered(source, kept, {"role": turn.role, "content": _written_content(turn, source)})
    calls = [_write_call(part) for part in turn.parts if isinstance(part, ToolCall)]
    return [message | {"tool_calls": calls} if calls else message]


def _written_content(turn: Turn, source: JsonObject | None) -> Any:
    """The content in the form of its source: a list stays a list and keeps every item that is not text."""
    texts = [part.content for part in turn.parts if isinstance(part, Text)]
    items = as_list((source or {}).get("content"))
    if not items:
        return "\n\n".join(texts)
    before = [part for part in turn.meta[_PARTS] if isinstance(part, (Text, Media))]
    now = [part for part in turn.parts if isinstance(part, (Text, Media))]
    if now == before:
        return items
    others = [item for item in items if item_text(item) is None]
    written = [*({"type": "text", "text": text} for text in texts), *others]
    return written or ""  # an empty list is refused (OAI-10)


def _unchanged(turn: Turn, source: JsonObject) -> bool:
    return (
        turn.parts == turn.meta[_PARTS]
        and turn.role == source.get("role")
        and "tool_use" not in source
        and source.keys().isdisjoint(("thinking", "thinkingSignature", "thinking_signature"))
        and source.get("tool_calls", True) not in (None, [])
        and (isinstance(source.get("content"), (str, list)) or "tool_calls" in source)
        and source.get("content") != []
        and all(_is_written(call) for call in as_list(source.get("tool_calls")) or [])
    )


def _is_written(value: object) -> bool:
    """Whether a call already has the form that is sent: its arguments are non-empty text."""
    call = as_object(value) or {}
    function = as_object(call.get("function")) or {}
    return isinstance(function.get("arguments"), str) and function["arguments"] != ""


def _ordered(source: JsonObject | None, kept: JsonObject, said: JsonObject) -> JsonObject:
    """The message with its keys in the order of the source message."""
    if source is None:
        return said
    both = kept | said
    return {key: both[key] for key in [*source, *said] if key in both}


def _write_result(part: ToolResult, kept: JsonObject, result_names: bool) -> JsonObject:
    content = part.content if as_list(part.content) else split_result(part.content)[0]
    values: JsonObject = {"role": "tool", "content": content, "tool_call_id": part.tool_call_id}
    if (result_names or "name" in kept) and part.name:
        values["name"] = part.name
    return kept | values


def _write_call(call: ToolCall) -> JsonObject:
    arguments = call.raw_arguments or compact_json(call.arguments)
    return {
        "id": call.tool_call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }
