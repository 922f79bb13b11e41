"""The journal of one run: translates each step of the run into writes to the store.

Rules:
1. Calls are numbered in the order in which the loop makes them; a turn's id is the run's id and its call's number.
   A process that resumes the run counts the same.
2. The journal does not write a recorded step again. A resumed run emits its recorded turns again to its local reader, but not to followers,
   which have them by number.
3. A call is recorded before it starts: the first request to the model together with the run itself, tools with the turn that calls them,
   each further request with the tools' turn before it.
4. A tool that was interrupted runs again, gets the result "outcome unknown", or waits for a person's decision: its
   ``resume`` policy says which. It keeps the arguments that a person gave it.
5. Methods return ``Write`` values; ``commit`` makes them, in order, one transaction each. A write that the store
   refuses stays in ``pending``.
6. One task of one event loop uses a journal; a lock keeps concurrent commits in order.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec.structs import replace

from multi_llm_chat.events import (
    ApprovalDecided,
    ErrorRecord,
    Event,
    Finish,
    FinishReason,
    HistoryCompressed,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    StopReason,
    ToolFinished,
    TurnFinished,
    Usage,
)
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult, Turn
from multi_llm_chat.metering.prices import Cost, cost_of
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.runs._replay import NOTHING, UNKNOWN, Replay
from multi_llm_chat.runs.leases import Lease, RunHost
from multi_llm_chat.runs.records import (
    CallOutcome,
    NumberedRows,
    Place,
    Write,
    record_edit,
    record_end,
    record_outcome,
    record_turn,
    start_run,
)
from multi_llm_chat.store import CallStart, Fence, Spending, Store, begin_calls
from multi_llm_chat.store.records import RunStatus
from multi_llm_chat.store.runs import SentRow
from multi_llm_chat.store.turn_rows import write_part_row
from multi_llm_chat.tools.threads import in_loop
from multi_llm_chat.tools.tool_output import note_edit
from multi_llm_chat.tools.tool_runner import resume_policy

if TYPE_CHECKING:
    from multi_llm_chat.runs.spec import RunSpec


class Journal:
    """The journal of one run.

    Args:
        spec: The description of the run.
        store: The store of the run's user.
        host: The host of this process.
        fence: The right to write for the run; epoch 1, for a run that starts here, if not given.
        sequence: The number of the run's next event.
        replay: The records of earlier attempts.
    """

    def __init__(
        self,
        spec: "RunSpec",
        store: Store,
        host: RunHost,
        *,
        fence: Fence | None = None,
        sequence: int = 1,
        replay: Replay = NOTHING,
    ) -> None:
        self.spec = spec
        self.store = store
        self.host = host
        self.fence = fence or Fence(spec.run, 1)
        self.lease = Lease(host, self.fence, sequence)
        self.pending: deque[Write] = deque()
        self.usage = Usage()
        self.cost: Cost | None = Cost()
        self.replay = replay
        #: What the last request sent; saved with the turn that answers it.
        self.sent: SentRow | None = None
        self._is_resumed = sequence > 1
        self._commits = asyncio.Lock()
        self._meta = dict(spec.meta)
        self._next = 0
        self._model_call = self._number()
        self._next_tool = self._next
        #: The numbers of this round's calls, by object identity: a model may give two calls the same id.
        self._numbers: dict[int, int] = {}
        self._started = -1
        self._took: dict[str, float] = {}
        self._doubtful: set[int] = set()
        self._given_up: set[int] = set()
        #: The arguments that a person gave calls: by the calls' numbers, and in ``_edited`` those of this round by the calls' ids.
        self._edits = dict(replay.edits)
        self._edited: dict[str, JsonObject] = {}
        self._after = spec.base
        self._finish: FinishReason = "stop"
        self._is_half = False
        before = max((each.elapsed for each in replay.outcomes), default=0.0)
        self._began = time.monotonic() - before

    def bind(self, *, stop: Callable[[], None], lose: Callable[[], None]) -> None:
        """Set the functions that the host's thread calls in the running loop: after a stop request, and when the lease is lost."""
        self.lease.on_stop = in_loop(stop)
        self.lease.on_lost = in_loop(lose)

    # Writing.

    async def commit(self, *writes: Write) -> None:
        """Make the pending writes and these, in order.

        Raises:
            RunLost: Another process owns the run.
            StoreError: The store refuses; the writes stay pending.
        """
        self.pending.extend(writes)
        async with self._commits:
            while self.pending:
                first = self.pending[0]
                await self.store.arun(first.operation, *first.arguments)
                self.pending.popleft()
                first.landed()

    def leave_unsaved(self) -> None:
        """Pass writes that the store has not accepted to the host, which retries them."""
        self.host.keep_trying(self.store, list(self.pending))
        self.pending.clear()

    def close(self) -> None:
        """Release the lease: the run is over, or another process owns it."""
        self.lease.release()

    # The steps of a run.

    def start(self) -> Write:
        """The write that starts the run. It may share a transaction with the message that the run answers."""
        spec, host = self.spec, self.host
        self.lease.append([RunStarted(spec.model, spec.purpose)])
        arguments = (
            spec.conversation, spec.run, spec.speaker, spec.base, spec.recorded(),
            host.owner, host.lease_ms, self._model_start(),
        )  # fmt: skip
        return Write(start_run, arguments, self.lease.hold)

    def resume(self) -> tuple[Event, list[Write]]:
        """Resume the run: return the event for it, and the writes that come before other steps."""
        event: Event = RunStarted(self.spec.model, self.spec.purpose)
        if self._is_resumed:
            event = RunResumed(self.fence.epoch)
        self.lease.append([event])
        self.lease.hold()
        if not self.replay.asks_model:
            return event, []
        start = self._model_start(self.replay.next_model)
        return event, [Write(begin_calls, (self.fence, [start]))]

    def append(self, events: Sequence[Event]) -> None:
        """Add events that need no transaction of their own; ``Finish`` and ``HistoryCompressed`` end a batch."""
        match events[-1]:
            case Finish() as finish:
                self._finish = finish.reason
            case HistoryCompressed() as compressed:
                self._meta["compressed"] = compressed.note.text
            case _:
                pass
        self.lease.append(events)

    def finish_turn(
        self, event: TurnFinished, calls: Sequence[ToolCall] = ()
    ) -> tuple[Turn, list[Write]]:
        """Finish a turn: return the turn as it is stored, and its write, which also records the start of ``calls``."""
        event, estimated = _with_estimate(event)
        turn = self._kept_turn(event, {"estimated": True} if estimated else {})
        is_models = turn.role != "tool"
        outcome, starts = self._call_of(turn, event, is_models=is_models)
        spending = self._spend(turn, event.usage, estimated=estimated) if is_models else None
        place = Place(self.spec.conversation or "", self._after)
        self._after = turn.id
        if turn.id in self.replay.turns:
            return turn, []
        starts = [*starts, *self.start_tools(calls)]
        rows = self.lease.bind(replace(event, turn=turn))
        sent, self.sent = (self.sent, None) if is_models else (None, self.sent)
        arguments = (self.fence, place, turn, spending, outcome, starts, rows, sent)
        return turn, [self._with_rows(record_turn, arguments, rows)]

    def start_tools(self, calls: Sequence[ToolCall]) -> list[CallStart]:
        """Number the calls of a round and choose those that start now; empty the second time in a round."""
        if not calls or self._started == self._model_call:
            return []
        self._started = self._model_call
        starts = [self._start_tool(call) for call in calls]
        return [start for start in starts if start is not None]

    def start_write(self, starts: Sequence[CallStart]) -> list[Write]:
        """The write that records the start of calls."""
        return [Write(begin_calls, (self.fence, list(starts)))] if starts else []

    def finish_tool(self, event: ToolFinished) -> list[Write]:
        """The write that records a tool's result."""
        number = self._numbers[id(event.call)]
        if number in self.replay.results:
            return []
        is_known = self.answer(event.call) is None
        if is_known:
            self._took[event.call.tool_call_id] = round(event.seconds, 3)
        result: JsonObject = {"result": write_part_row(event.result).body, "elapsed": self.seconds}
        if number in self._edits:
            result["arguments"] = self._edits[number]
        outcome = CallOutcome(number, "done" if is_known else "unknown", result)
        rows = self.lease.bind(event)
        return [self._with_rows(record_outcome, (self.fence, outcome, rows), rows)]

    def finish(self, reason: StopReason, error: ErrorRecord | None) -> tuple[Event, Write]:
        """Finish the run: return its last event, and its write."""
        cost: Decimal | None = None if self.cost is None else self.cost.total
        status: RunStatus = "cancelled" if reason == "cancelled" else "done"
        event: Event = RunFinished(reason, self.usage, cost, self.seconds)
        if error is not None:
            status, event = "failed", RunFailed(error, self.usage, cost, self.seconds)
        rows = self.lease.bind(event)
        return event, self._with_rows(record_end, (self.fence, status, error, rows), rows)

    # The state of the run.

    @property
    def seconds(self) -> float:
        """How long the run has taken, not counting interruptions."""
        return time.monotonic() - self._began

    def is_recorded(self, call: ToolCall) -> bool:
        """Whether an earlier attempt recorded the call's result."""
        return self._numbers[id(call)] in self.replay.results

    def key(self, call: ToolCall) -> str:
        """The idempotency key of a call, the same in every attempt."""
        return f"{self.spec.run}:{self._numbers[id(call)]}"

    def answer(self, call: ToolCall) -> ToolResult | None:
        """The result of a call that does not run: the recorded one, or "outcome unknown"; None for a call that runs."""
        number = self._numbers[id(call)]
        found = self.replay.results.get(number)
        if found is None and number in self._given_up:
            found = ToolResult(call.name, UNKNOWN, call.tool_call_id, is_error=True, synthetic=True)
            found = note_edit(found, self._edits[number]) if number in self._edits else found
        return found

    def edited(self, call: ToolCall) -> ToolCall | None:
        """The call with the arguments that a person gave it; None if nobody changed them."""
        arguments = self._edits.get(self._numbers[id(call)])
        return None if arguments is None else replace(call, arguments=arguments, raw_arguments=None)

    def edit(self, call: ToolCall, event: Event) -> list[Write]:
        """Note a person's decision about a call: return the write that must precede the call if its arguments were changed."""
        number, arguments = self._numbers[id(call)], None
        if isinstance(event, ApprovalDecided) and event.call.tool_call_id == call.tool_call_id:
            arguments = event.arguments
        if arguments is None:
            return []
        self._edits[number] = self._edited[call.tool_call_id] = arguments
        rows = self.lease.bind(event)
        return [self._with_rows(record_edit, (self.fence, number, arguments, rows), rows)]

    def is_doubtful(self, call: ToolCall) -> bool:
        """Whether the call was interrupted and a person decides whether it runs again."""
        return self._numbers[id(call)] in self._doubtful

    def decide(self, call: ToolCall, *, again: bool) -> list[Write]:
        """Note the decision whether a doubtful call runs again."""
        number = self._numbers[id(call)]
        self._doubtful.discard(number)
        if again:
            return self.start_write([self._begin_tool(call, number)])
        self._given_up.add(number)
        return []

    # Details.

    def _start_tool(self, call: ToolCall) -> CallStart | None:
        number = self._next_tool
        self._next_tool += 1
        self._numbers[id(call)] = number
        if number in self._edits:
            self._edited[call.tool_call_id] = self._edits[number]
        if number in self.replay.results:
            return None
        if number in self.replay.interrupted:
            policy = resume_policy(self.spec.tools, call.name)
            if policy == "never":
                self._given_up.add(number)
                return None
            if policy == "ask":
                self._doubtful.add(number)
                return None
        return self._begin_tool(call, number)

    def _begin_tool(self, call: ToolCall, number: int) -> CallStart:
        return CallStart(number, "tool", call.name, self.key(call))

    def is_announced(self, call: ToolCall) -> bool:
        """Whether ``ToolStarted`` is emitted for the call: it runs now, or waits for a person's decision."""
        number = self._numbers[id(call)]
        return number not in self.replay.results and number not in self._given_up

    def _kept_turn(self, event: TurnFinished, notes: JsonObject) -> Turn:
        meta = event.turn.meta | self._meta | notes
        if not event.is_whole:
            meta["partial"] = True
        if event.turn.role == "tool" and self._took:
            meta["seconds"], self._took = self._took, {}
        if event.turn.role == "tool" and self._edited:
            meta["arguments"], self._edited = self._edited, {}
        suffix = "" if event.turn.role != "tool" else ".tools"
        # A partial turn has an id of its own, which differs from that of the complete turn of a later attempt.
        self._is_half = self._is_half or not event.is_whole
        half = f".half{self.fence.epoch}" if self._is_half else ""
        identifier = f"{self.spec.run}.{self._model_call}{suffix}{half}"
        kept = self.replay.turns.get(identifier)
        if kept is not None:
            return kept
        now = time.time_ns() // 1_000_000
        return replace(event.turn, id=identifier, created_at=now, meta=meta)

    def _call_of(
        self, turn: Turn, event: TurnFinished, *, is_models: bool
    ) -> tuple[CallOutcome | None, list[CallStart]]:
        if not is_models:
            self._model_call = self._number()
            self._numbers = {}
            return None, [self._model_start()]
        # The turn's tools have the next numbers, whether they run now or ran in an earlier attempt.
        self._next_tool = self._next
        self._next += sum(isinstance(part, ToolCall) for part in turn.parts)
        if turn.id in self.replay.turns:
            return None, []
        used = None if event.usage is None else list(event.usage.counts)
        result = {"finish": self._finish, "usage": used, "elapsed": self.seconds}
        state = "done" if event.is_whole else "failed"
        return CallOutcome(self._model_call, state, result), []

    def _spend(self, turn: Turn, usage: Usage | None, *, estimated: bool) -> Spending:
        spec = self.spec
        model = turn.model or spec.model
        cost = None
        if usage is not None and usage != Usage():
            cost = cost_of(usage, spec.provider.priced_as, model, dict(spec.prices))
            self.usage += usage
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        total: Decimal | None = None if cost is None else cost.total
        return Spending(
            turn.id or "", spec.speaker, model, usage, total,
            estimate=estimated, turn=turn.id, run_id=spec.run,
        )  # fmt: skip

    def _with_rows(
        self, operation: Callable[..., None], arguments: tuple[object, ...], rows: NumberedRows
    ) -> Write:
        return Write(operation, arguments, lambda: self.lease.landed(rows))

    def _model_start(self, number: int | None = None) -> CallStart:
        return CallStart(self._model_call if number is None else number, "model", self.spec.model)

    def _number(self) -> int:
        number = self._next
        self._next += 1
        return number


def _with_estimate(event: TurnFinished) -> tuple[TurnFinished, bool]:
    """The turn, with an estimate of its output tokens if it ended before the provider reported them; and whether it has one.

    Claude counts the input at the start of a reply (``message_start``) and the output at its end (``message_delta``: types of
    the anthropic SDK, 2026-11). Gemini counts both with every chunk, OpenAI Chat nothing before the end.
    """
    usage = event.usage
    if event.is_whole or usage is None:
        return event, False
    written = _COUNTER.turn(event.turn)
    if usage.output_tokens * 2 >= written:
        return event, False
    return replace(event, usage=replace(usage, output_tokens=written)), True


_COUNTER = Counter()
