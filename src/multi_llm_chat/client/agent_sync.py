"""Run a model with tools, without ``async``; the events are those of ``AgentRun``.

Rules:
1. The calls of one turn run at the same time, in the background; results are told in the order of the calls.
2. ``cancel``, ``pause`` and ``resume`` may come from any thread.
3. While paused nothing runs; results can be edited and tools asked again.
"""

import concurrent.futures
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
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
from multi_llm_chat.client.provider import LLMProvider
from multi_llm_chat.client.reply import Reply
from multi_llm_chat.client.streams import ReplyStream
from multi_llm_chat.errors import MultiLLMChatError, ProviderError
from multi_llm_chat.events import Finish
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult
from multi_llm_chat.loop.effects import CallModel, Effect, Outcome, RunTools


class _CancelledByUserError(Exception):
    """The run was cancelled through ``cancel``."""


class SyncAgentRun:
    """A run; iterate over its events, then read ``result``."""

    def __init__(
        self, *arguments: Any, step: bool = False, admit: Admit | None = None, **settings: Any
    ) -> None:
        """Prepare a run; the arguments are those of ``Course``.

        ``step`` pauses after each round of tools; ``admit`` says when the model may be asked.
        """
        self._admit = admit
        self._course = Course(*arguments, **settings)
        self._step = step
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._stream: ReplyStream | None = None
        self._running: dict[concurrent.futures.Future[ToolResult], ToolCall] = {}
        self._outcome: Outcome | None = None
        self._events = self._run()

    def __iter__(self) -> Iterator[AgentEvent]:
        return self._events

    def close(self) -> None:
        """Leave the run; whatever is under way is ended."""
        self._events.close()

    @property
    def result(self) -> AgenticLoopResult:
        """How the run ended."""
        return self._course.result

    def cancel(self) -> None:
        """Stop the run, from any thread; it ends with ``stop_reason`` ``cancelled``."""
        with self._lock:
            self._ended.set()
            stream, running = self._stream, list(self._running)
        self._open.set()
        if stream is not None:
            stream.stop()
        for future in running:
            future.cancel()

    def pause(self) -> None:
        """Wait before the next step."""
        self._open.clear()

    def resume(self) -> None:
        """Go on."""
        self._open.set()

    def modify_tool_result(self, tool_call_id: str, content: Any) -> ToolResult:
        """Tell the model something else than the tool did; while paused after tools."""
        return self._course.modify_tool_result(tool_call_id, content)

    def reexecute_tool(self, tool_call_id: str) -> ToolResult:
        """Run a tool again and take its new result; while paused after tools."""
        call = self._course.call_of(tool_call_id)
        result = self._submit(call).result()
        self._course.found(call, result)
        return result

    def _run(self) -> Generator[AgentEvent]:
        effect: Effect | None = self._course.begin()
        for finished in self._course.finished():
            yield self._course.seen(finished)
        while effect is not None:
            self._outcome = None
            try:
                self._wait()
                steps = self._call(effect) if isinstance(effect, CallModel) else self._use(effect)
                with closing(steps):
                    for event in steps:
                        yield self._course.seen(event)
            except _CancelledByUserError:
                self._outcome = self._course.cancelled()
            assert self._outcome is not None
            effect = self._course.advance(self._outcome)
            for finished in self._course.finished():
                yield self._course.seen(finished)

    def _wait(self) -> None:
        self._open.wait()
        if self._ended.is_set():
            raise _CancelledByUserError

    def _call(self, effect: CallModel) -> Generator[AgentEvent]:
        self._course.fit(effect)
        while True:
            compressed = self._compressed()
            if compressed is not None:
                yield compressed
            yield from self._delays(effect)
            try:
                question = self._course.question(effect)
                reply = yield from self._listen(self._course.provider, question)
            except ProviderError as error:
                if not self._course.asks_again(error):
                    self._outcome = self._course.failed(error)
                    return
                continue
            self._outcome = self._course.answered(reply)
            return

    def _delays(self, effect: CallModel) -> Generator[Delayed]:
        """Wait until the model may be asked."""
        while self._admit is not None:
            self._check()
            seconds = self._admit(effect).result()
            if not seconds:
                return
            yield Delayed(self._course.provider.name, seconds)
            self._ended.wait(seconds)

    def _compressed(self) -> HistoryCompressed | None:
        """Let what is left out be summarised, where that is wanted."""
        fitting = self._course.fitting
        wanted = fitting.summary_question
        if wanted is not None and fitting.summariser is not None:
            try:
                reply = self._heard(fitting.summariser, wanted)
            except MultiLLMChatError as error:
                fitting.not_summarised(error)
            else:
                fitting.summarised(reply)
        return fitting.told()

    def _heard(self, provider: LLMProvider, question: JsonObject) -> Reply:
        """The whole reply, which ``cancel`` may interrupt."""
        listening = self._listen(provider, question)
        while True:
            try:
                next(listening)
            except StopIteration as stop:
                return stop.value

    def _listen(
        self, provider: LLMProvider, question: JsonObject
    ) -> Generator[AgentEvent, None, Reply]:
        with provider.stream(**question) as stream:
            with self._lock:
                self._stream = stream
            complete = False  # a cancel that comes behind the last event takes nothing away
            try:
                for event in stream:
                    self._check()
                    complete = type(event) is Finish
                    yield event
            except ProviderError:
                if not complete:
                    self._check()
                    raise
            finally:
                with self._lock:
                    self._stream = None
            return stream.reply

    def _check(self) -> None:
        if self._ended.is_set():
            raise _CancelledByUserError

    def _use(self, effect: RunTools) -> Generator[AgentEvent]:
        self._course.expect(effect.calls)
        for call in effect.calls:
            yield ToolStarted(call)
        yield from self._together(effect.calls)
        if self._step:
            self.pause()
        if not self._open.is_set():
            yield RunPaused(self._course.results)
            self._wait()
        self._outcome = self._course.ran()

    def _together(self, calls: Sequence[ToolCall]) -> Generator[AgentEvent]:
        """Run all calls at once; tell each result when it is there."""
        self._check()
        began = time.monotonic()
        self._running = {self._submit(call): call for call in calls}
        try:
            while self._running:
                self._check()
                done, _ = concurrent.futures.wait(
                    self._running, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in [future for future in self._running if future in done]:
                    call = self._running.pop(future)
                    if future.cancelled():
                        continue  # others may have finished; the next check ends the run
                    self._course.found(call, future.result())
                    yield ToolFinished(call, future.result(), time.monotonic() - began)
        finally:
            for future in self._running:
                future.cancel()
            self._running = {}

    def _submit(self, call: ToolCall) -> "concurrent.futures.Future[ToolResult]":
        return self._course.tools.submit(call, conversation=self._course.conversation)
