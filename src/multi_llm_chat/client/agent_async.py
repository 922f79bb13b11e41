"""Run a model with tools, with ``async``.

Rules:
1. The calls of one turn run at the same time; their results are told in the order of the calls.
2. ``cancel`` may come from any task of the same loop: the model's socket is closed at once, running tools
   are cancelled, what was finished is kept, and the run ends in good order.
3. While paused nothing runs; results can be edited and tools asked again.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any

from multi_llm_chat.client.agent_course import Course
from multi_llm_chat.client.agent_events import (
    Admit,
    AgentEvent,
    AgenticLoopResult,
    Delayed,
    HistoryCompressed,
    RunPaused,
    ToolFinished,
    ToolStarted,
)
from multi_llm_chat.client.reply import Reply
from multi_llm_chat.errors import MultiLLMChatError, ProviderError
from multi_llm_chat.events import Finish
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.loop.effects import CallModel, Effect, Outcome, RunTools


class _CancelledByUserError(Exception):
    """The run was cancelled through ``cancel``, not its task."""


class AgentRun:
    """A run; iterate over its events with ``async for``, then read ``result``."""

    def __init__(
        self,
        *arguments: Any,
        step: bool = False,
        admit: Admit | None = None,
        **settings: Any,
    ) -> None:
        """Prepare a run; the arguments are those of ``Course``.

        ``step`` pauses after each round of tools; ``admit`` says when the model may be asked.
        """
        self._admit = admit
        self._course = Course(*arguments, **settings)
        self._step = step
        self._open = asyncio.Event()
        self._open.set()
        self._cancelled = False
        self._waiting: asyncio.Task[Any] | None = None
        self._outcome: Outcome | None = None
        self._reply: Reply | None = None
        self._events = self._run()

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        return self._events

    async def aclose(self) -> None:
        """Leave the run; whatever is under way is ended."""
        await self._events.aclose()

    @property
    def result(self) -> AgenticLoopResult:
        """How the run ended."""
        return self._course.result

    def cancel(self) -> None:
        """Stop the run; it ends with ``stop_reason`` ``cancelled``."""
        if self._cancelled:
            return
        self._cancelled = True
        self._open.set()
        if self._waiting is not None:
            self._waiting.cancel()

    def pause(self) -> None:
        """Wait before the next step."""
        self._open.clear()

    def resume(self) -> None:
        """Go on."""
        self._open.set()

    def modify_tool_result(self, tool_call_id: str, content: Any) -> ToolResult:
        """Tell the model something else than the tool did; while paused after tools."""
        return self._course.modify_tool_result(tool_call_id, content)

    async def reexecute_tool(self, tool_call_id: str) -> ToolResult:
        """Run a tool again and take its new result; while paused after tools."""
        call = self._course.call_of(tool_call_id)
        result = await self._course.tools.execute(call, conversation=self._course.conversation)
        self._course.found(call, result)
        return result

    async def _run(self) -> AsyncGenerator[AgentEvent]:
        effect: Effect | None = self._course.begin()
        for finished in self._course.finished():
            yield self._course.seen(finished)
        while effect is not None:
            self._outcome = None
            try:
                await self._interruptible(self._open.wait())
                steps = self._call(effect) if isinstance(effect, CallModel) else self._use(effect)
                async with aclosing(steps):
                    async for event in steps:
                        yield self._course.seen(event)
            except _CancelledByUserError:
                self._outcome = self._course.cancelled()
            assert self._outcome is not None
            effect = self._course.advance(self._outcome)
            for finished in self._course.finished():
                yield self._course.seen(finished)

    async def _interruptible(self, awaited: Any) -> Any:
        """Await something that ``cancel`` may interrupt."""
        task = asyncio.current_task()
        assert task is not None
        if self._cancelled:
            awaited.close()
            raise _CancelledByUserError
        self._waiting = task
        try:
            return await awaited
        except asyncio.CancelledError:
            if not self._cancelled or task.uncancel() > 0:
                raise
            raise _CancelledByUserError from None
        finally:
            self._waiting = None

    async def _call(self, effect: CallModel) -> AsyncGenerator[AgentEvent]:
        self._course.fit(effect)
        while True:
            compressed = await self._compressed()
            if compressed is not None:
                yield compressed
            async for delayed in self._delays(effect):
                yield delayed
            try:
                async with aclosing(self._listen(effect)) as events:
                    async for event in events:
                        yield event
            except ProviderError as error:
                if not self._course.asks_again(error):
                    self._outcome = self._course.failed(error)
                    return
                continue
            assert self._reply is not None
            self._outcome = self._course.answered(self._reply)
            return

    async def _delays(self, effect: CallModel) -> AsyncGenerator[Delayed]:
        """Wait until the model may be asked."""
        while self._admit is not None:
            seconds = await self._interruptible(_result(self._admit(effect)))
            if not seconds:
                return
            yield Delayed(self._course.provider.name, seconds)
            await self._interruptible(asyncio.sleep(seconds))

    async def _compressed(self) -> HistoryCompressed | None:
        """Let what is left out be summarised, where that is wanted."""
        fitting = self._course.fitting
        wanted = fitting.summary_question
        if wanted is not None and fitting.summariser is not None:
            try:
                reply = await self._interruptible(fitting.summariser.acomplete(**wanted))
            except MultiLLMChatError as error:
                fitting.not_summarised(error)
            else:
                fitting.summarised(reply)
        return fitting.told()

    async def _listen(self, effect: CallModel) -> AsyncGenerator[AgentEvent]:
        async with self._course.provider.astream(**self._course.question(effect)) as stream:
            events = aiter(stream)
            complete = False  # a cancel that comes behind the last event takes nothing away
            while True:
                try:
                    step = anext(events)
                    event = await (step if complete else self._interruptible(step))
                except StopAsyncIteration:
                    break
                complete = type(event) is Finish
                yield event
            self._reply = stream.reply

    async def _use(self, effect: RunTools) -> AsyncGenerator[AgentEvent]:
        self._course.expect(effect.calls)
        for call in effect.calls:
            yield ToolStarted(call)
        async with aclosing(self._together(effect.calls)) as finished:
            async for event in finished:
                yield event
        if self._step:
            self.pause()
        if not self._open.is_set():
            yield RunPaused(self._course.results)
            await self._interruptible(self._open.wait())
        self._outcome = self._course.ran()

    async def _together(self, calls: Sequence[ToolCall]) -> AsyncGenerator[AgentEvent]:
        """Run all calls at once; tell each result when it is there."""
        began = time.monotonic()
        running = {asyncio.ensure_future(self._execute(call)): call for call in calls}
        try:
            while running:
                done, _ = await self._interruptible(
                    asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                )
                for task in [task for task in running if task in done]:
                    call = running.pop(task)
                    result = task.result()
                    self._course.found(call, result)
                    yield ToolFinished(call, result, time.monotonic() - began)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def _execute(self, call: ToolCall) -> Any:
        return self._course.tools.execute(call, conversation=self._course.conversation)


async def _result(future: "Future[float]") -> float:
    return await asyncio.wrap_future(future)
