"""What a run tells while it goes on, as it is kept: small JSON objects, numbered.

Rules:
1. Words that follow each other are one event, however many pieces they came in.
2. A turn is told by its id when it is in the store, never before.
3. ``Resumed`` takes back everything that was told since the last complete turn or tool: another attempt begins.
4. What is read is what was told; kinds that this program does not know are passed over.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias, cast

from msgspec import Struct

from multi_llm_chat.client.agent_events import (
    AgentEvent,
    Delayed,
    HistoryCompressed,
    ToolFinished,
    ToolStarted,
)
from multi_llm_chat.events import (
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult
from multi_llm_chat.store.json_text import read_json, write_json
from multi_llm_chat.store.rows import read_part_row, write_part_row

Ending: TypeAlias = Literal["done", "failed", "cancelled"]


class Begun(Struct, frozen=True):
    """The run has begun."""

    speaker: str
    model: str


class Resumed(Struct, frozen=True):
    """The run goes on after an interruption: half a turn that was told is no more."""

    attempt: int


class TurnKept(Struct, frozen=True):
    """A turn is complete and in the store."""

    turn: str
    role: str
    is_whole: bool = True


class Compressed(Struct, frozen=True):
    """A request left out a part of the history."""

    text: str


class Ended(Struct, frozen=True):
    """The run is over; ``reason`` is the stop reason, or ``error``."""

    status: Ending
    reason: str
    usage: Usage
    cost: str | None
    seconds: float


StreamEvent: TypeAlias = (
    Begun
    | Resumed
    | TurnKept
    | Compressed
    | Ended
    | TextDelta
    | ThinkingDelta
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Usage
    | Finish
    | ToolStarted
    | ToolFinished
    | Delayed
)


def joined(first: StreamEvent, second: StreamEvent) -> StreamEvent | None:
    """Two events as one, where that says the same."""
    match first, second:
        case TextDelta(), TextDelta():
            return TextDelta(first.text + second.text)
        case ThinkingDelta(), ThinkingDelta():
            return ThinkingDelta(first.text + second.text)
        case ToolCallDelta(), ToolCallDelta() if first.index == second.index:
            return ToolCallDelta(first.index, first.arguments + second.arguments)
        case Delayed(), Delayed():
            return second
        case _:
            return None


def streamed(event: AgentEvent) -> StreamEvent | None:
    """What is told of an agent's event; its complete turns are told when they are kept."""
    if isinstance(event, HistoryCompressed):
        return Compressed(event.note.text)
    return cast("StreamEvent", event) if type(event) in _WRITERS else None


def write_stream_event(event: StreamEvent) -> str:
    """The event as text."""
    return write_json([_NAMES[type(event)], *_WRITERS[type(event)](event)])


def read_stream_event(text: str) -> StreamEvent | None:
    """The event; None if its kind is not known."""
    name, *fields = cast("list[Any]", read_json(text))
    reader = _READERS.get(name)
    return reader(*fields) if reader is not None else None


def write_result(result: ToolResult) -> str:
    """A tool's result as text."""
    return write_part_row(result).body


def read_result(text: str) -> ToolResult:
    """The result that was written."""
    return cast("ToolResult", read_part_row("tool_result", text, None))


def _plain(event: Any) -> list[Any]:
    return [getattr(event, name) for name in event.__struct_fields__]


def _call(call: ToolCall) -> str:
    return write_part_row(call).body


def _read_call(text: str) -> ToolCall:
    return cast("ToolCall", read_part_row("tool_call", text, None))


def _write_call_end(event: ToolCallEnd) -> list[Any]:
    return [event.index, _call(event.call)]


def _read_call_end(index: int, call: str) -> ToolCallEnd:
    return ToolCallEnd(index, _read_call(call))


def _write_started(event: ToolStarted) -> list[Any]:
    return [_call(event.call)]


def _read_started(call: str) -> ToolStarted:
    return ToolStarted(_read_call(call))


def _write_finished(event: ToolFinished) -> list[Any]:
    return [_call(event.call), write_result(event.result), event.seconds]


def _read_finished(call: str, result: str, seconds: float) -> ToolFinished:
    return ToolFinished(_read_call(call), read_result(result), seconds)


def _write_ended(event: Ended) -> list[Any]:
    return [event.status, event.reason, _plain(event.usage), event.cost, event.seconds]


def _read_ended(
    status: Ending, reason: str, usage: list[int], cost: str | None, seconds: float
) -> Ended:
    return Ended(status, reason, Usage(*usage), cost, seconds)


_PLAIN: Final[dict[type[Any], str]] = {
    Begun: "begun",
    Resumed: "resumed",
    TurnKept: "turn",
    Compressed: "compressed",
    TextDelta: "text",
    ThinkingDelta: "thinking",
    ToolCallStart: "call_start",
    ToolCallDelta: "call_delta",
    Usage: "usage",
    Finish: "finish",
    Delayed: "delayed",
}
_NAMES: Final[dict[type[Any], str]] = _PLAIN | {
    ToolCallEnd: "call_end",
    ToolStarted: "tool",
    ToolFinished: "result",
    Ended: "ended",
}
_WRITERS: Final[dict[type[Any], Callable[[Any], list[Any]]]] = {
    **dict.fromkeys(_PLAIN, _plain),
    ToolCallEnd: _write_call_end,
    ToolStarted: _write_started,
    ToolFinished: _write_finished,
    Ended: _write_ended,
}
_READERS: Final[dict[str, Callable[..., StreamEvent]]] = {
    **{name: kind for kind, name in _PLAIN.items()},
    "call_end": _read_call_end,
    "tool": _read_started,
    "result": _read_finished,
    "ended": _read_ended,
}


def told_text(events: list[StreamEvent]) -> dict[str, str]:
    """The words of each turn, by its id, as who follows the stream has them."""
    words: dict[str, str] = {}
    said: list[str] = []
    for event in events:
        match event:
            case TextDelta():
                said.append(event.text)
            case Resumed():
                said = []
            case TurnKept():
                words[event.turn] = "".join(said)
                said = []
            case _:
                pass
    return words


def json_of(event: StreamEvent) -> JsonObject:
    """The event as a JSON object, for people and programs that look at a run."""
    name, *fields = cast("list[Any]", read_json(write_stream_event(event)))
    return {"type": name, "fields": fields}
