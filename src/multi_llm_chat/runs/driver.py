"""Drive one run: ask the model, run its tools, record each step, emit events.

This is the only code that drives ``agent_loop``. It runs as one task of one event loop; other tasks of that loop may
call ``cancel``, ``pause`` and ``resume``. The store's own threads make the writes.

Rules:
1. The calls of one turn run at the same time; results are emitted as they arrive and sent in the order of the calls.
2. ``cancel`` closes the model's socket at once, cancels running tools and ends a wait for the store. The text and the
   results that arrived before are kept, and the run ends with ``RunFinished``.
3. While the run is paused nothing runs; results can be edited, and tools run again.
4. Nothing runs that is not recorded: the journal commits the start of a call before the tool runs. While the store
   refuses writes, no tool starts and no turn is emitted as saved. A watched run (one with ``store_patience``) then
   fails after that many seconds; a worker's run keeps waiting.
5. The time limit ends a run like ``cancel``, also while the model streams or a tool runs; the stop reason is ``time``.
6. At the end of the run, the driver passes writes that the store has not accepted to the ``RunHost``, which retries them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from multi_llm_chat.agent.agent_loop import LoopEnd, agent_loop
from multi_llm_chat.agent.effects import (
    CallModel,
    Cancelled,
    Effect,
    ModelAnswered,
    ModelFailed,
    Outcome,
    RunTools,
    ToolsRan,
)
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.agent.telemetry import observed_run, observed_tool
from multi_llm_chat.agent.window.run_window import Fitting
from multi_llm_chat.errors import MultiLLMChatError, ProviderError, RunLost, StoreError, UsageError
from multi_llm_chat.events import (
    Event,
    Finish,
    RunFailed,
    RunFinished,
    RunPaused,
    RunStarted,
    RunWaiting,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Usage,
)
from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.runs.channel import EventSink, merge_deltas
from multi_llm_chat.runs.rates import RateGate, RunBudget, retry_waits
from multi_llm_chat.runs.records import STORE_PATIENCE, TRANSIENT, Write, error_record, given_up
from multi_llm_chat.runs.transcripts import Transcripts
from multi_llm_chat.tools.approval import (
    APPROVAL_OBSERVER,
    EDITED_CALL,
    ApprovalRequest,
    Decision,
    approval_event,
)
from multi_llm_chat.tools.tool import FORM_OBSERVER, IDEMPOTENCY_KEY
from multi_llm_chat.tools.tool_runner import may_repeat

if TYPE_CHECKING:
    from multi_llm_chat.runs.journal import Journal
    from multi_llm_chat.runs.spec import RunSpec

#: Seconds between two retries of a refused write: the first pause, and the longest.
_PAUSES: Final = (0.05, 1.0)
#: Seconds for which a cancelled run tries to record its end before the host takes over.
_LAST_TRY: Final = 1.0

T = TypeVar("T")


class _CancelledByUserError(Exception):
    """``cancel`` was called; the task itself was not cancelled."""


class RunDriver:
    """Drives one run.

    Args:
        spec: The description of the run.
        sink: Receives its events.
        journal: Records the run; a run without one cannot be resumed.
        gate: The provider's rate limit; None if it has none.
        step: Whether to pause after each round of tools.
        store_patience: Seconds to wait for a store that refuses writes; None waits for ever.
    """

    def __init__(
        self,
        spec: "RunSpec",
        sink: EventSink,
        *,
        journal: "Journal | None" = None,
        gate: RateGate | None = None,
        step: bool = False,
        store_patience: float | None = STORE_PATIENCE,
    ) -> None:
        self.spec = spec
        self.end: LoopEnd | None = None
        self.fitting = Fitting(spec.provider, spec.compression, spec.system_prompt)
        self._sink = sink
        self._journal = journal
        self._gate = gate
        self._budget = RunBudget(spec, journal)
        self._step = step
        self._patience = store_patience
        self._transcripts = spec.transcripts or Transcripts()
        self._speaks = spec.conversation, spec.provider
        self._loop = agent_loop(spec.history, options=spec.request_options, limits=spec.limits)
        replay = journal.replay.outcomes if journal is not None else ()
        self._replay: Sequence[Outcome] = replay
        self._started = time.monotonic() - max((each.elapsed for each in replay), default=0.0)
        self._open = asyncio.Event()
        self._open.set()
        self._cancelled = False
        self._is_lost = False
        self._task: asyncio.Task[Any] | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._words: list[str] = []
        # The usage reported so far for the reply that arrives.
        self._count: Callable[[], Usage] = Usage
        self._offered: Sequence[ToolDefinition] | None = None
        self._has_streamed = False
        self._calls: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}
        self._finished: list[TurnFinished] = []

    # Controls.

    def cancel(self) -> None:
        """Stop the run. It ends with the stop reason ``cancelled``."""
        if self._cancelled:
            return
        self._cancelled = True
        self._open.set()
        if self._waiting is not None:
            self._waiting.cancel()

    def lose(self) -> None:
        """Stop at once and write nothing more, because another process owns the run."""
        self._is_lost = True
        self.cancel()

    def pause(self) -> None:
        """Stop before the next step, until ``resume``."""
        self._open.clear()

    def resume(self) -> None:
        """Continue after ``pause``."""
        self._open.set()

    def modify_tool_result(self, tool_call_id: str, content: Any) -> ToolResult:
        """Replace a tool's result before the model gets it; only while the run is paused after tools."""
        self._waiting_call(tool_call_id)
        edited = msgspec.structs.replace(self._results[tool_call_id], content=content)
        self._results[tool_call_id] = edited
        return edited

    async def reexecute_tool(self, tool_call_id: str) -> ToolResult:
        """Run a tool again and use its new result; only while the run is paused after tools."""
        call = self._waiting_call(tool_call_id)
        result = await self.spec.tools.execute(call, conversation=self.spec.conversation)
        self._results[tool_call_id] = result
        return result

    def _waiting_call(self, tool_call_id: str) -> ToolCall:
        if tool_call_id not in self._results:
            waiting = ", ".join(self._results) or "none"
            raise UsageError(f"No result of {tool_call_id!r} waits to be sent (waiting: {waiting})")
        return self._calls[tool_call_id]

    # The run.

    async def drive(self, *, begun: bool = False) -> None:
        """Run to the end; ``begun`` if the transaction that saved the message also recorded the start of the run.

        Raises:
            RunLost: Another process owns the run.
            UsageError: The journal does not fit the run.
        """
        self._task = asyncio.current_task()
        with observed_run(self.spec.labels, lambda: self.end):
            await self._drive(begun=begun)

    async def _drive(self, *, begun: bool) -> None:
        journal = self._journal
        try:
            await self._begin(begun=begun)
            effect = self._first_effect()
            await self._finish_turns(effect)
            while effect is not None:
                try:
                    outcome = await self._perform(effect)
                except _CancelledByUserError:
                    outcome = self._cancelled_outcome()
                effect = self._advance(outcome)
                await self._finish_turns(effect)
            assert self.end is not None
            await self._finish(self.end)
        except RunLost:
            raise
        except MultiLLMChatError as error:
            if journal is None:
                raise
            await self._fail(journal, error)
        finally:
            if journal is not None:
                if not self._is_lost:
                    journal.leave_unsaved()
                journal.close()

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._started

    async def _begin(self, *, begun: bool) -> None:
        journal = self._journal
        if journal is None or begun:
            self._put([RunStarted(self.spec.model, self.spec.purpose)])
            await self._sink.ready()
            return
        event, writes = journal.resume()
        await self._commit(writes)
        self._put([event])
        await self._sink.ready()

    async def _perform(self, effect: Effect) -> Outcome:
        """Perform the effect; at the run's time limit, return its outcome so far."""
        seconds = self.spec.limits.seconds_left(self.elapsed)
        time_limit = nullcontext() if seconds is None else asyncio.timeout(seconds)
        try:
            async with time_limit:
                await self._interruptible(self._open.wait())
                if isinstance(effect, CallModel):
                    return await self._call_model(effect)
                return await self._run_tools(effect)
        except TimeoutError:
            if not isinstance(time_limit, asyncio.Timeout) or not time_limit.expired():
                raise
            return replace(self._cancelled_outcome(), reason="time")

    def _first_effect(self) -> Effect | None:
        """The first effect that the journal has no outcome for; None if the run was interrupted after its last one."""
        effect: Effect | None = next(self._loop)
        for outcome in self._replay:
            if effect is None or isinstance(outcome, ToolsRan) != isinstance(effect, RunTools):
                raise UsageError("What the run did before is not what it does now")
            effect = self._advance(outcome)
        return effect

    def _advance(self, outcome: Outcome) -> Effect | None:
        """Send the loop an outcome; return its next effect, or None if the run is over."""
        effect: Effect | None = None
        try:
            effect = self._loop.send(outcome)
            added = effect.added
        except StopIteration as stop:
            self.end = stop.value
            added = stop.value.added
        whole = isinstance(outcome, (ModelAnswered, ToolsRan))
        for turn in added:
            is_models = turn.role != "tool"
            usage = outcome.usage if is_models and not isinstance(outcome, ToolsRan) else None
            if usage == Usage() and not whole:
                usage = None  # unknown usage, which is not the same as zero
            self._finished.append(TurnFinished(turn, usage, whole or not is_models))
        return effect

    async def _finish_turns(self, effect: Effect | None) -> None:
        """Record and emit the turns that were added; the last one together with the tools it calls."""
        finished, self._finished = self._finished, []
        for event in finished:
            await self._finish_turn(event, effect if event is finished[-1] else None)

    async def _finish_turn(self, event: TurnFinished, effect: Effect | None) -> None:
        journal = self._journal
        if journal is None:
            await self._emit([event])
            return
        calls: Sequence[ToolCall] = ()
        if isinstance(effect, RunTools) and self._open.is_set() and not self._cancelled:
            calls = effect.calls
        turn, writes = journal.finish_turn(event, calls)
        if not writes:
            return  # an earlier attempt recorded it
        if self._gate is not None:
            writes += self._gate.answered(event.usage)
        try:
            is_saved = await self._commit(writes)
        except StoreError as error:
            if not isinstance(error, RunLost):  # show the text, although it is not saved
                self._put([replace(event, turn=turn, is_saved=False)])
            raise
        self._put([replace(event, turn=turn, is_saved=is_saved)])

    async def _finish(self, end: LoopEnd) -> None:
        journal = self._journal
        error = None if end.error is None else error_record(end.error)
        if journal is None:
            event: Event = RunFinished(end.reason, end.usage, None, self.elapsed)
            if error is not None:
                event = RunFailed(error, end.usage, None, self.elapsed)
        else:
            writes = self._gate.failed(end.error) if self._gate is not None else []
            event, write = journal.finish(end.reason, error)
            await self._commit([*writes, write])
        self._put([event])

    async def _fail(self, journal: "Journal", error: MultiLLMChatError) -> None:
        """End the run with an error of the store or of the caller, not of the provider."""
        self._cancelled = True  # the run ends now: no further wait for the store
        event, write = journal.finish("error", error_record(error))
        await self._commit([write])
        self._put([event])

    # Recording and emitting.

    async def _commit(self, writes: Sequence[Write]) -> bool:
        """Commit writes; wait while the store refuses, unless the run is cancelled. Return whether they are committed."""
        journal = self._journal
        if journal is None or not (writes or journal.pending):
            return True
        journal.pending.extend(writes)
        try:
            await self._interruptible(self._write_pending(journal))
        except _CancelledByUserError:
            return await self._commit_at_last(journal)
        return True

    async def _write_pending(self, journal: "Journal") -> None:
        """Make the pending writes; wait while the store refuses. The wait is not recorded: its event would follow later ones."""
        began, pause, shown = time.monotonic(), _PAUSES[0], ""
        while True:
            try:
                await journal.commit()
            except StoreError as error:
                if isinstance(error, RunLost) or error.reason not in TRANSIENT:
                    raise
                if str(error) != shown:
                    shown = str(error)
                    self._put([RunWaiting("store", shown)])
                    await self._sink.ready()
                if self._patience is not None and time.monotonic() - began > self._patience:
                    raise given_up(error) from None
            else:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSES[1])

    async def _commit_at_last(self, journal: "Journal") -> bool:
        """Try the commit of a cancelled run a last time; return whether it succeeded. If not, the host retries it."""
        if self._is_lost:
            raise RunLost(self.spec.run)
        trying = asyncio.ensure_future(journal.commit())
        done, _ = await asyncio.wait({trying}, timeout=_LAST_TRY)
        if not done:
            trying.cancel()
            await asyncio.wait({trying})
            return False
        failure = trying.exception()
        if isinstance(failure, StoreError) and failure.reason in TRANSIENT:
            return False
        trying.result()
        return True

    async def _emit(self, events: list[Event]) -> None:
        """Append events to the journal, and pass them to the reader without waiting for the commit."""
        if events:
            self._record(events)
            await self._sink.ready()

    def _record(self, events: list[Event]) -> None:
        if self._journal is not None:
            self._journal.append(events)
        self._put(events)

    def _put(self, events: list[Event]) -> None:
        run, speaker = self.spec.run, self.spec.speaker
        if run:
            events = [replace(event, run=run, speaker=speaker) for event in events]
        self._sink.put(events)

    async def _interruptible(self, awaited: Awaitable[T]) -> T:
        """Await something that ``cancel`` may interrupt."""
        if self._cancelled:
            if asyncio.iscoroutine(awaited):
                awaited.close()
            raise _CancelledByUserError
        self._waiting = self._task
        try:
            return await awaited
        except asyncio.CancelledError:
            if not self._cancelled or self._task is None or self._task.uncancel() > 0:
                raise
            raise _CancelledByUserError from None
        finally:
            self._waiting = None

    # The model.

    async def _call_model(self, effect: CallModel) -> Outcome:
        self._offered = self.spec.tools.definitions() if effect.offer_tools else None
        self.fitting.begin(effect.history, self._offered or (), effect.options)
        while True:
            await self._compress()
            if refusal := await self._interruptible(self._budget.refusal(self.fitting)):
                return ModelFailed(refusal, None, self.elapsed)
            await self._wait_for_rate(effect)
            try:
                reply = await self._stream(effect)
            except ProviderError as error:
                if isinstance(error, UsageError):  # such as a missing key: nothing was sent
                    raise
                if self._has_streamed or not self.fitting.refused(error):
                    partial = error.partial if isinstance(error.partial, Turn) else None
                    return ModelFailed(error, partial, self.elapsed, self._count())
                continue
            self.fitting.answered(reply.usage)
            self._budget.answered(reply.usage)
            return ModelAnswered(reply.turn, reply.finish.reason, reply.usage, self.elapsed)

    async def _compress(self) -> None:
        """Emit how the request was shortened; before that, request a summary of the part left out, if one is configured."""
        fitting = self.fitting
        request = fitting.summary_request
        if request is not None and fitting.summariser is not None:
            try:
                reply = await self._interruptible(fitting.summariser.open_reply(request).read())
            except MultiLLMChatError as error:
                fitting.not_summarised(error)
            else:
                fitting.summarised(reply)
        if (compressed := fitting.news()) is not None:
            await self._emit([compressed])

    async def _wait_for_rate(self, effect: CallModel) -> None:
        while self._gate is not None:
            if not (seconds := await self._interruptible(self._gate.admit(effect))):
                return
            text = f"Waiting {seconds:.0f} s: the limit of {self.spec.provider.name} is used up."
            await self._emit([RunWaiting("rate", text, time.time() + seconds)])
            await self._interruptible(asyncio.sleep(seconds))

    async def _stream(self, effect: CallModel) -> Reply:
        self._words, self._has_streamed, spec = [], False, self.spec
        request = spec.provider.request(
            self.fitting.turns,
            spec.system_prompt,
            self._offered,
            options=effect.options,
            policy=spec.policy,
            previous=await self._interruptible(
                self._transcripts.find(*self._speaks, self.fitting.turns, self._journal)
            ),
            conversation=spec.conversation or ("" if self._offered else None),
        )
        if spec.hooks is not None:
            request = await spec.hooks.prepare_request(request)
        async with spec.provider.open_reply(request) as stream:
            stream.on_retry, self._count = self._on_retry, lambda: stream.counted
            if self._journal is not None:
                stream.pace = self._journal.lease.pause
            batches = aiter(stream.batches())
            complete = False  # a cancel after the last event does not discard the reply
            while True:
                try:
                    step = anext(batches)
                    events = await (step if complete else self._interruptible(step))
                except StopAsyncIteration:
                    break
                self._has_streamed = True
                complete = type(events[-1]) is Finish
                await self._emit_deltas(merge_deltas(events) if stream.pace() else events)
            self._transcripts.keep(*self._speaks, stream.reply, self._journal)
            if spec.hooks is not None:
                await spec.hooks.observe_reply(stream.reply)
            return stream.reply

    def _on_retry(self, failure: ProviderError, seconds: float) -> None:
        if waits := retry_waits(failure, seconds, self.spec.provider.name):
            self._record(waits)

    async def _emit_deltas(self, events: list[Event]) -> None:
        if not self._sink.in_step:
            self._words += [event.text for event in events if type(event) is TextDelta]
            await self._emit(events)
            return
        for event in events:
            if self._cancelled:
                raise _CancelledByUserError
            self._words += [event.text] if type(event) is TextDelta else []
            await self._emit([event])

    def _cancelled_outcome(self) -> Cancelled:
        """The outcome of a cancelled effect: the text and the results so far."""
        words, speaker = "".join(self._words), self.spec.provider.speaker
        partial = Turn(speaker, (Text(words),)) if words.strip() else None
        return Cancelled(partial, tuple(self._results.values()), self.elapsed, usage=self._count())

    # The tools.

    async def _run_tools(self, effect: RunTools) -> Outcome:
        self._words, self._count = [], Usage
        self._calls = {call.tool_call_id: call for call in effect.calls}
        self._results = {}
        calls: Iterable[ToolCall] = effect.calls
        journal = self._journal
        if journal is not None:
            starts = journal.start_tools(effect.calls)
            if not await self._commit(journal.start_write(starts)):
                raise _CancelledByUserError
            calls = filter(journal.is_announced, effect.calls)
        await self._emit([ToolStarted(call) for call in calls])
        await self._together(effect.calls)
        if self._step:
            self.pause()
        if not self._open.is_set():
            await self._emit([RunPaused(tuple(self._results.values()))])
            await self._interruptible(self._open.wait())
        return ToolsRan(tuple(self._results.values()), self.elapsed)

    async def _together(self, calls: Sequence[ToolCall]) -> None:
        """Run all calls at once; emit each result as it arrives."""
        if self._cancelled:
            raise _CancelledByUserError
        began, news = time.monotonic(), asyncio.Event()

        async def run(call: ToolCall) -> ToolResult:
            try:
                return await self._execute(call)
            finally:
                news.set()

        running = {asyncio.create_task(run(call)): call for call in calls}
        try:
            while running:
                await self._interruptible(news.wait())
                news.clear()
                for task in [task for task in running if task.done()]:
                    call = running.pop(task)
                    await self._finish_tool(call, task.result(), time.monotonic() - began)
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.gather(*running, return_exceptions=True)

    async def _finish_tool(self, call: ToolCall, result: ToolResult, seconds: float) -> None:
        self._results[call.tool_call_id] = result
        event = ToolFinished(call, result, seconds)
        journal = self._journal
        if journal is None:
            await self._emit([event])
        elif not journal.is_recorded(call):
            await self._commit(journal.finish_tool(event))
            self._put([event])

    async def _execute(self, call: ToolCall) -> ToolResult:
        """Run a call, unless the journal has its result or has marked its outcome as unknown."""
        journal, tools, conversation = self._journal, self.spec.tools, self.spec.conversation
        APPROVAL_OBSERVER.set(partial(self._observe_approval, call))  # in the call's own task
        EDITED_CALL.set(None if journal is None else journal.edited(call))
        FORM_OBSERVER.set(lambda form: self._record([form]))
        if journal is not None:
            if journal.is_doubtful(call):
                again = await may_repeat(tools, call, conversation)
                await self._commit_decision(journal.decide(call, again=again))
            if (known := journal.answer(call)) is not None:
                return known
            IDEMPOTENCY_KEY.set(journal.key(call))
        return await observed_tool(call, tools.execute(call, conversation=conversation))

    async def _observe_approval(
        self, call: ToolCall, request: ApprovalRequest, decision: Decision | None
    ) -> None:
        """Emit the approval request for a call, and the decision about it; changed arguments are committed first."""
        event, journal = approval_event(request, decision), self._journal
        writes = [] if journal is None else journal.edit(call, event)
        await self._commit_decision(writes)
        (self._put if writes else self._record)([event])

    async def _commit_decision(self, writes: Sequence[Write]) -> None:
        """Record the decision about a call, in the call's own task; ``cancel`` cancels it with the round."""
        if self._journal is not None and writes:
            self._journal.pending.extend(writes)
            await self._write_pending(self._journal)
