"""What a run of a model with tools tells while it goes on, and how it ends."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeAlias

from msgspec import Struct

from multi_llm_chat.context.notes import CompressionNote
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Event, TextDelta, ToolCallEnd, Usage
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult, Turn
from multi_llm_chat.history.writing import write_call, write_part
from multi_llm_chat.loop.effects import CallModel
from multi_llm_chat.loop.limits import StopReason


class ToolStarted(Struct, frozen=True):
    """A tool begins to run."""

    call: ToolCall


class ToolFinished(Struct, frozen=True):
    """A tool has its result, ``seconds`` after it began."""

    call: ToolCall
    result: ToolResult
    seconds: float


class TurnFinished(Struct, frozen=True):
    """A turn was added to the history: the model's, or that of the tools it called.

    ``usage`` is what the model's turn took, where the provider has said so. A turn that is not whole is what was said
    before the run failed or was stopped.
    """

    turn: Turn
    usage: Usage | None = None
    is_whole: bool = True


class RunPaused(Struct, frozen=True):
    """The run waits for ``resume``; ``results`` can still be edited or asked for again."""

    results: tuple[ToolResult, ...]


class HistoryCompressed(Struct, frozen=True):
    """The next request leaves out a part of the history; the history itself stays as it is."""

    note: CompressionNote


class Delayed(Struct, frozen=True):
    """The model is asked only in so many seconds: what may be asked of its provider is used up."""

    provider: str
    seconds: float

    @property
    def text(self) -> str:
        """What to tell the user."""
        return f"Waiting {self.seconds:.0f} s: the limit of {self.provider} is used up."


AgentEvent: TypeAlias = (
    Event | ToolStarted | ToolFinished | TurnFinished | RunPaused | HistoryCompressed | Delayed
)

#: Asked before each question to the model: the seconds to wait before asking again, 0 if it may be put.
Admit: TypeAlias = Callable[[CallModel], Future[float]]


class AgenticLoopResult(Struct, frozen=True):
    """How a run ended.

    ``chunks`` are the texts, calls and results in the order they came, as plain dicts;
    ``history_delta`` the turns to be added to the history; ``final_text`` the model's last words.
    ``compressions`` tell what its requests left out of the history.
    """

    chunks: tuple[JsonObject, ...]
    history_delta: tuple[Turn, ...]
    final_text: str
    iterations_used: int
    timed_out: bool
    error: ProviderError | None
    stop_reason: StopReason
    usage: Usage
    compressions: tuple[CompressionNote, ...] = ()


def chunk_of(event: AgentEvent) -> JsonObject | None:
    """The event as a plain dict, as the seeds' systems have it; None where they have none."""
    match event:
        case TextDelta():
            return {"type": "text", "content": event.text}
        case ToolCallEnd():
            return {"type": "tool_call", "content": write_call(event.call)}
        case ToolFinished():
            return write_part(event.result)
        case _:
            return None
