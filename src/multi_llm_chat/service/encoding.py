"""Events as JSON, for programs: ``--jsonl``, streams to a browser, logs.

Rules:
1. Every event is an object whose ``type`` is its kind in small letters; its other keys are its fields.
2. Turns, calls and results have the form they have in a history.
3. Decimal numbers are strings, so that money stays exact.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from multi_llm_chat.history.json_values import clean_json
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.history.writing import write_call, write_part, write_turn
from multi_llm_chat.metering.prices import Cost
from multi_llm_chat.service.events import AnswerEvent, ChatEvent

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


def write_event(event: ChatEvent) -> JsonObject:
    """The event as a JSON object; an answer's own events carry its ``run`` and ``speaker``."""
    if isinstance(event, AnswerEvent):
        return {**_fields(event.event), "run": event.run, "speaker": event.speaker}
    return _fields(event)


def _fields(event: Struct) -> JsonObject:
    kind = _CAPITAL.sub("_", type(event).__name__).lower()
    return {"type": kind, **_struct(event)}


def _struct(value: Struct) -> JsonObject:
    return {name: write_value(getattr(value, name)) for name in value.__struct_fields__}


def write_value(value: Any) -> Any:
    """Any value of an event as JSON."""
    kind = cast("type[Any]", type(value))
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(value)
    if isinstance(value, Struct):
        return _struct(value)
    if isinstance(value, (tuple, list)):
        return [write_value(each) for each in cast("list[Any]", value)]
    return clean_json(msgspec.to_builtins(value))


def _cost(cost: Cost) -> JsonObject:
    return {"total": str(cost.total), "currency": "USD"}


def _clean(write: Callable[[Any], JsonObject]) -> Callable[[Any], Any]:
    return lambda value: clean_json(write(value))


_WRITERS: Final[dict[type, Callable[[Any], Any]]] = {
    Turn: _clean(write_turn),
    ToolCall: _clean(write_call),
    **dict.fromkeys((Text, ToolResult, Thinking, Media), _clean(write_part)),
    Cost: _cost,
    Decimal: str,
}
