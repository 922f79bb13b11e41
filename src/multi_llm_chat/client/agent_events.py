"""What a run of a model with tools tells while it goes on, and how it ends."""

import concurrent.futures
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Event, TextDelta, ToolCallEnd, Usage
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult, Turn
from multi_llm_chat.history.writing import write_call, write_part
from multi_llm_chat.loop.limits import StopReason
from multi_llm_chat.request import ToolDefinition


class ToolStarted(Struct, frozen=True):
    """A tool begins to run."""

    call: ToolCall


class ToolFinished(Struct, frozen=True):
    """A tool has its result, ``seconds`` after it began."""

    call: ToolCall
    result: ToolResult
    seconds: float


class TurnFinished(Struct, frozen=True):
    """The model's turn is complete; its tools, if it called any, run next."""

    turn: Turn


class RunPaused(Struct, frozen=True):
    """The run waits for ``resume``; ``results`` can still be edited or asked for again."""

    results: tuple[ToolResult, ...]


AgentEvent: TypeAlias = Event | ToolStarted | ToolFinished | TurnFinished | RunPaused


class AgenticLoopResult(Struct, frozen=True):
    """How a run ended.

    ``chunks`` are the texts, calls and results in the order they came, as plain dicts;
    ``history_delta`` the turns to be added to the history; ``final_text`` the model's last words.
    """

    chunks: tuple[JsonObject, ...]
    history_delta: tuple[Turn, ...]
    final_text: str
    iterations_used: int
    timed_out: bool
    error: ProviderError | None
    stop_reason: StopReason
    usage: Usage


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


class ToolRunner(Protocol):
    """Whoever runs the tools; ``ToolRegistry`` is one."""

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools on offer."""
        ...

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run a call; it always gives one result."""
        ...

    def submit(
        self, call: ToolCall, *, conversation: str | None = None
    ) -> "concurrent.futures.Future[ToolResult]":
        """Run a call in the background."""
        ...
