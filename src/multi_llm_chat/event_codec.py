"""Events as JSON: journal rows, ``--jsonl``, streams to other programs.

Rules:
1. An event is an object whose ``type`` is its tag; its other keys are its fields. A journal row leaves out fields that
   equal their default; a stream writes every field, except an empty ``run``, ``speaker`` or ``purpose`` and ``arguments`` that
   no person changed.
2. Turns, calls and results have the form they have in a history. Money is text, so that it stays exact.
3. A journal row names a turn by its id and role: the turn itself is in the store.
4. ``read_row`` returns None for a row of an unknown kind, and followers skip it: a journal may hold rows of a newer
   program, and rows of version 4 that have no event any more (``store._tables``).
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, cast, get_args

import msgspec
from msgspec import Struct

from multi_llm_chat.events import TOKEN_COUNTS, Event, TurnFinished, Usage
from multi_llm_chat.history.json_values import clean_json
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Native,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.history.writer import write_call, write_part, write_turn

_KINDS: Final[dict[str, type[Struct]]] = {
    cast("str", kind.__struct_config__.tag): kind for kind in get_args(Event)
}


def write_event(event: Event) -> JsonObject:
    """The event as a JSON object for other programs."""
    values = {name: write_value(getattr(event, name)) for name in event.__struct_fields__}
    return {"type": event.__struct_config__.tag, **_named(values)}


def write_row(event: Event) -> JsonObject:
    """The event as a journal row, without run and speaker: the store keeps the row under its run, and the run has a speaker."""
    defaults = _DEFAULTS[type(event)]
    row: JsonObject = {"type": event.__struct_config__.tag}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name in ("run", "speaker") or value == defaults.get(name, msgspec.NODEFAULT):
            continue
        if isinstance(value, Turn):
            row |= {"turn_id": value.id, "role": value.role}
        else:
            row[name] = _exact(value)
    return row


def read_row(row: JsonObject) -> Event | None:
    """The event of a journal row; None if the kind is unknown. Its turn, if it has one, has only an id and a role."""
    kind = _KINDS.get(row["type"])
    if kind is None:
        return None
    fields = {name: value for name, value in row.items() if name != "type"}
    if kind is TurnFinished:
        turn = Turn(fields.pop("role"), id=fields.pop("turn_id"))
        return cast("TurnFinished", _converted(kind, fields, turn=turn))
    return cast("Event", _converted(kind, fields))


def write_value(value: Any) -> Any:
    """A value of an event as JSON for other programs."""
    writer = _WRITERS.get(cast("type[Any]", type(value)))
    if writer is not None:
        return writer(value)
    if isinstance(value, Struct):
        return {name: write_value(getattr(value, name)) for name in value.__struct_fields__ if name not in _IDENTITY}  # fmt: skip
    if isinstance(value, (tuple, list)):
        return [write_value(each) for each in cast("list[Any]", value)]
    return clean_json(msgspec.to_builtins(value))


_IDENTITY: Final = ("run", "speaker")
_LEFT_OUT: Final = (*_IDENTITY, "purpose")


def _named(values: JsonObject) -> JsonObject:
    """The fields, without an empty run, speaker or purpose, and without arguments that are None."""
    return {
        name: value
        for name, value in values.items()
        if (value or name not in _LEFT_OUT) and not (value is None and name == "arguments")
    }


def _cost(cost: Decimal) -> JsonObject:
    return {"total": str(cost), "currency": "USD"}


def _clean(write: Callable[[Any], JsonObject]) -> Callable[[Any], Any]:
    return lambda value: clean_json(write(value))


_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {
    Turn: _clean(write_turn),
    ToolCall: _clean(write_call),
    **dict.fromkeys((Text, ToolResult, Thinking, Media, Native), _clean(write_part)),
    Decimal: _cost,
}


def _exact(value: Any) -> Any:
    """A field of a row as values that the store's JSON writer encodes; it reads back exactly as it was."""
    if isinstance(value, ToolCall | ToolResult):
        fields = {name: getattr(value, name) for name in value.__struct_fields__ if getattr(value, name) is not None}  # fmt: skip
        if value.extras is not None:
            fields["extras"] = msgspec.to_builtins(value.extras)
        return fields
    if isinstance(value, Usage):
        return {name: count for name in TOKEN_COUNTS if (count := getattr(value, name))}
    if isinstance(value, tuple):
        return [_exact(each) for each in cast("tuple[Any, ...]", value)]
    return msgspec.to_builtins(value)


def _converted(kind: type[Struct], fields: JsonObject, **more: Any) -> Struct:
    types = _TYPES[kind]
    values = {
        name: msgspec.convert(value, types[name]) for name, value in fields.items() if name in types
    }
    return kind(**values, **more)


_DEFAULTS: Final[dict[type, dict[str, Any]]] = {
    kind: {
        each.name: each.default
        for each in msgspec.structs.fields(kind)
        if each.default is not msgspec.NODEFAULT
    }
    for kind in _KINDS.values()
}

_TYPES: Final[dict[type, dict[str, Any]]] = {
    kind: {each.name: each.type for each in msgspec.structs.fields(kind)}
    for kind in _KINDS.values()
}
