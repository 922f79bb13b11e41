"""Write a history in its one strict serialised form; optional keys are written only if they have a value."""

from collections.abc import Iterable
from typing import Any, assert_never

import msgspec

from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.values import (
    NOWHERE,
    Extras,
    JsonObject,
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)


def write_history(turns: Iterable[Turn]) -> list[JsonObject]:
    """Write turns as plain dicts."""
    return [write_turn(turn) for turn in turns]


def write_turn(turn: Turn) -> JsonObject:
    """Write one turn as a plain dict."""
    entry: JsonObject = {"role": turn.role, "content": [write_part(part) for part in turn.parts]}
    for key in ("id", "created_at", "model", "unreadable"):
        value = getattr(turn, key)
        if value is not None:
            entry[key] = value
    if turn.meta:
        entry["meta"] = turn.meta
    return entry


def write_part(part: Part) -> JsonObject:
    """Write one part as a plain dict."""
    match part:
        case Text():
            return {"type": "text", "content": part.content} | _extras(part.extras)
        case ToolCall():
            return {"type": "tool_call", "content": write_call(part)}
        case ToolResult():
            return _write_result(part)
        case Thinking():
            written: JsonObject = {"type": "thinking", "content": part.content}
            if part.origin != NOWHERE:
                written["origin"] = msgspec.to_builtins(part.origin)
            if part.opaque:
                written["opaque"] = part.opaque
            return written
        case Media():
            keys = ("data", "url", "name", "file_id")
            given = {key: value for key in keys if (value := getattr(part, key)) is not None}
            return {"type": "media", "mime": part.mime} | given | _extras(part.extras)
        case Native():
            native: JsonObject = {"type": "native", "kind": part.kind, "text": part.text}
            if part.origin != NOWHERE:
                native["origin"] = msgspec.to_builtins(part.origin)
            return native | {"raw": part.raw}
        case _:
            assert_never(part)


def write_call(call: ToolCall) -> JsonObject:
    """Write a call's fields, as ``call_api`` yields them.

    Raw arguments are written only if they add information: the arguments were unusable,
    or the model wrote them differently from our JSON writer.
    """
    written: dict[str, Any] = {
        "name": call.name,
        "arguments": call.arguments,
        "tool_call_id": call.tool_call_id,
    }
    if call.error is not None:
        written["raw_arguments"] = call.raw_arguments or ""
        written["error"] = call.error
    elif call.raw_arguments is not None and call.raw_arguments != compact_json(call.arguments):
        written["raw_arguments"] = call.raw_arguments
    return written | _extras(call.extras)


def _write_result(part: ToolResult) -> JsonObject:
    written: JsonObject = {"type": "tool_result", "name": part.name, "content": part.content}
    if part.tool_call_id:
        written["tool_call_id"] = part.tool_call_id
    if part.is_error:
        written["is_error"] = True
    if part.synthetic:
        written["synthetic"] = True
    return written | _extras(part.extras)


def _extras(extras: Extras | None) -> JsonObject:
    if extras is None:
        return {}
    return {"extras": {"origin": msgspec.to_builtins(extras.origin), "fields": extras.fields}}
