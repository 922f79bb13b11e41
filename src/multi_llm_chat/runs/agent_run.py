"""A model with tools, run once and without a journal: ``AgentRun`` for ``async`` code, ``SyncAgentRun`` for other code.

Rules:
1. The run keeps step with its reader: after each event it waits until the reader asks for the next one, so that
   ``cancel`` and ``pause`` take effect at the event that was read last. ``in_step=False`` turns this off. ``finish`` runs without
   a reader.
2. A reader that leaves early cancels the run.
3. ``AgentRun`` drives in the reader's event loop, ``SyncAgentRun`` in the process's background loop (``tools.background_loop``).
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from multi_llm_chat.agent.agent_loop import final_text
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.window.run_window import Compression
from multi_llm_chat.errors import LimitReached, ProviderError, UsageError
from multi_llm_chat.events import (
    CompressionNote,
    Event,
    StopReason,
    TextDelta,
    ToolCallEnd,
    ToolFinished,
    Usage,
)
from multi_llm_chat.history.values import JsonObject, ToolResult, Turn
from multi_llm_chat.history.writer import write_call, write_part
from multi_llm_chat.protocol.message_formats import read_any
from multi_llm_chat.repair import RepairPolicy
from multi_llm_chat.request import Options
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.driver import RunDriver
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.runs.spec import RunSpec
from multi_llm_chat.tools.background_loop import portal_loop, wait_for
from multi_llm_chat.tools.registry import tools_from
from multi_llm_chat.tools.tool_runner import ToolRunner


class AgenticLoopResult(Struct, frozen=True):
    """How a run ended.

    ``chunks`` are the texts, calls and results in the order they came, as plain dicts;
    ``history_delta`` the turns that the run adds to the history; ``final_text`` the text of the model's last turn.
    ``compressions`` describe what its requests left out of the history.
    """

    chunks: tuple[JsonObject, ...]
    history_delta: tuple[Turn, ...]
    final_text: str
    iterations_used: int
    timed_out: bool
    error: ProviderError | LimitReached | None
    stop_reason: StopReason
    usage: Usage
    compressions: tuple[CompressionNote, ...] = ()

    def raise_for_error(self) -> "AgenticLoopResult":
        """Raise the error of a run that failed, with this result as its ``result``; else return the result."""
        if self.error is not None:
            self.error.result = self
            raise self.error
        return self


#: The events that have the form of a plain dict ``{"type": …}``; most others are fragments of calls.
_CHUNKS: Final[dict[type[Event], Callable[[Any], JsonObject]]] = {
    TextDelta: lambda event: {"type": "text", "content": event.text},
    ToolCallEnd: lambda event: {"type": "tool_call", "content": write_call(event.call)},
    ToolFinished: lambda event: write_part(event.result),
}


def chunks_of(events: Iterable[Event]) -> list[JsonObject]:
    """The texts, calls and results among the events, as plain dicts."""
    return [write(event) for event in events if (write := _CHUNKS.get(type(event))) is not None]


class _Run:
    """The common base of both kinds of run: holds the driver and the events it emitted, and is the driver's sink."""

    def __init__(
        self,
        provider: LLMProvider,
        history: Iterable[Any],
        tools: ToolRunner | Iterable[Any],
        *,
        system_prompt: str | None = None,
        options: Options | None = None,
        limits: LoopLimits = LoopLimits(),
        conversation: str | None = None,
        compression: Compression | None = Compression(),
        policy: RepairPolicy | None = None,
        step: bool = False,
        in_step: bool = True,
    ) -> None:
        """Prepare a run.

        Args:
            provider: The provider that answers.
            history: The conversation so far, in any form that ``render`` reads; not changed. A string is a message.
            tools: A ``ToolRegistry`` or another ``ToolRunner``, or a list of functions.
            system_prompt: Sent before the history.
            options: Settings of every request; the provider's own if not given.
            limits: How far the run may go.
            conversation: The scope in which an approval "in this conversation" holds.
            compression: How requests are kept inside the model's window; None sends everything.
            policy: How the history is repaired.
            step: Whether to pause after each round of tools.
            in_step: Whether the run waits for its reader after each event.
        """
        self._spec = RunSpec(
            provider,
            read_any(history),
            tools_from(tools),
            provider.speaker,
            conversation=conversation,
            system_prompt=system_prompt,
            options=options,
            limits=limits,
            compression=compression,
            policy=policy,
        )
        self._seen: list[Event] = []
        self._driver = RunDriver(self._spec, self, step=step)
        self._sink: EventSink | None = None
        self._stream = EventStream(self._produce, self.cancel, in_step=in_step)
        self.in_step = in_step

    @property
    def result(self) -> AgenticLoopResult:
        """How the run ended.

        Raises:
            UsageError: The run has not ended.
        """
        end = self._driver.end
        if end is None:
            raise UsageError("The run has not ended yet; read its events to the end first")
        return AgenticLoopResult(
            chunks=tuple(chunks_of(self._seen)),
            history_delta=end.delta,
            final_text=final_text(end.delta),
            iterations_used=end.iterations,
            timed_out=end.reason == "time",
            error=end.error,
            stop_reason=end.reason,
            usage=end.usage,
            compressions=tuple(self._driver.fitting.notes),
        )

    def cancel(self) -> None:
        """Stop the run; it ends with ``stop_reason`` ``cancelled``."""
        self._driver.cancel()

    def modify_tool_result(self, tool_call_id: str, content: Any) -> ToolResult:
        """Replace a tool's result before the model gets it; only while the run is paused after tools."""
        return self._driver.modify_tool_result(tool_call_id, content)

    def put(self, events: Sequence[Event]) -> None:
        """Receive events from the driver and pass them to the reader."""
        self._seen += events
        if self._sink is not None:
            self._sink.put(events)

    async def ready(self) -> None:
        """Wait for the reader, if there is one."""
        if self._sink is not None:
            await self._sink.ready()

    async def _produce(self, sink: EventSink) -> None:
        self._sink = sink
        await self._driver.drive()


class AgentRun(_Run):
    """A run; iterate over its events with ``async for``, then read ``result``."""

    def __aiter__(self) -> AsyncIterator[Event]:
        self._events = aiter(self._stream)
        return self._events

    async def finish(self) -> AgenticLoopResult:
        """Run to the end in the caller's task, as an alternative to reading the events."""
        await self._driver.drive()
        return self.result

    async def aclose(self) -> None:
        """Stop reading the run; it cancels a running request and running tools."""
        await self._events.aclose()

    def pause(self) -> None:
        """Stop before the next step, until ``resume``."""
        self._driver.pause()

    def resume(self) -> None:
        """Continue after ``pause``."""
        self._driver.resume()

    async def reexecute_tool(self, tool_call_id: str) -> ToolResult:
        """Run a tool again and use its new result; only while the run is paused after tools."""
        return await self._driver.reexecute_tool(tool_call_id)


class SyncAgentRun(_Run):
    """A run for code without ``async``; any thread may call ``cancel``, ``pause`` and ``resume``."""

    def __iter__(self) -> Iterator[Event]:
        self._events = iter(self._stream)
        return self._events

    def close(self) -> None:
        """Stop reading the run; it cancels a running request and running tools."""
        self._events.close()

    def cancel(self) -> None:
        """Stop the run, from any thread; it ends with ``stop_reason`` ``cancelled``."""
        self._soon(self._driver.cancel)

    def pause(self) -> None:
        """Stop before the next step, until ``resume``."""
        self._soon(self._driver.pause)

    def resume(self) -> None:
        """Continue after ``pause``."""
        self._soon(self._driver.resume)

    def reexecute_tool(self, tool_call_id: str) -> ToolResult:
        """Run a tool again and use its new result; only while the run is paused after tools."""
        return wait_for(self._driver.reexecute_tool(tool_call_id))

    @staticmethod
    def _soon(action: Callable[[], None]) -> None:
        portal_loop().call_soon_threadsafe(action)
