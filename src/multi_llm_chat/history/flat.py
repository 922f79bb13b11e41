"""Flat messages (seed 001's ``Message``): ids, unknown keys and untouched messages stay as they are.

Rules:
1. One message in, one turn out; the message itself travels in the turn's ``meta``.
2. A turn that came through unchanged is written as the very message it was read from.
3. A changed one keeps its id and every key we do not know; ``tool_calls``, ``tool_call_id``,
   ``content`` say what the turn says, and the legacy keys are gone.
"""

from collections.abc import Iterable
from typing import Any

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, as_text, compact_json
from multi_llm_chat.history.reader import ROLE_ALIASES, read_function_call, split_result
from multi_llm_chat.history.values import JsonObject, Part, Text, ToolCall, ToolResult, Turn

_SOURCE = "message"
_PARTS = "parts"

#: Keys whose meaning the parts carry; anything else in a message is its owner's business.
_OWN_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", "tool_use", "thinking"})


def read_flat(messages: Iterable[Any]) -> list[Turn]:
    """Read flat messages, one turn for each."""
    return [_read_message(message, index) for index, message in enumerate(messages)]


def _read_message(value: Any, index: int) -> Turn:
    message = as_object(value)
    if message is None:
        raise UsageError(f"A message must be an object (found: {type(value).__name__})", turn=index)
    role = as_text(message.get("role")) or "user"
    role = ROLE_ALIASES.get(role, role)
    words = [Text(text) for text in _texts(message.get("content"), index)]
    parts: tuple[Part, ...]
    if role == "tool":
        text = "\n".join(part.content for part in words)
        name, identifier = as_text(message.get("name")), as_text(message.get("tool_call_id"))
        parts = (ToolResult(name, text, identifier),)
    else:
        parts = (*words, *_read_calls(message))
    return Turn(role, parts, meta={_SOURCE: message, _PARTS: parts})


def _texts(content: object, index: int) -> list[str]:
    if content is None:
        return []
    if isinstance(content, str):
        return [content] if content else []
    items = as_list(content)
    if items is None:
        raise UsageError(
            f"History content must be a list or string (actual type: {type(content).__name__})",
            turn=index,
        )
    return [
        item if isinstance(item, str) else as_text((as_object(item) or {}).get("text"))
        for item in items
    ]


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
    words = "\n\n".join(part.content for part in turn.parts if isinstance(part, Text))
    message = _ordered(source, kept, {"role": turn.role, "content": words})
    calls = [_write_call(part) for part in turn.parts if isinstance(part, ToolCall)]
    return [message | {"tool_calls": calls} if calls else message]


def _unchanged(turn: Turn, source: JsonObject) -> bool:
    return (
        turn.parts == turn.meta[_PARTS]
        and turn.role == source.get("role")
        and "tool_use" not in source
        and "thinking" not in source
        and source.get("tool_calls", True) not in (None, [])
        and (isinstance(source.get("content"), str) or "tool_calls" in source)
        and source.get("content") != []
        and all(_is_written(call) for call in as_list(source.get("tool_calls")) or [])
    )


def _is_written(value: object) -> bool:
    """Whether a call is in the one form that is sent: arguments as the text of an object."""
    call = as_object(value) or {}
    function = as_object(call.get("function")) or {}
    return isinstance(function.get("arguments"), str) and function["arguments"] != ""


def _ordered(source: JsonObject | None, kept: JsonObject, said: JsonObject) -> JsonObject:
    """Keys in the order of the source, so that a reader recognises its message."""
    if source is None:
        return said
    both = kept | said
    return {key: both[key] for key in [*source, *said] if key in both}


def _write_result(part: ToolResult, kept: JsonObject, result_names: bool) -> JsonObject:
    text, _ = split_result(part.content)
    said: JsonObject = {"role": "tool", "content": text, "tool_call_id": part.tool_call_id}
    if (result_names or "name" in kept) and part.name:
        said["name"] = part.name
    return kept | said


def _write_call(call: ToolCall) -> JsonObject:
    arguments = call.raw_arguments or compact_json(call.arguments)
    return {
        "id": call.tool_call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }
