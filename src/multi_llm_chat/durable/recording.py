"""One run's journal, while it is made: what each event of the run means for the store.

Rules:
1. Calls are numbered in the order in which the loop makes them, turns have ids made of the run's and their call's
   number: who goes on with an interrupted run counts the same.
2. What the journal has already is not written again, and not told again.
3. A call is begun before it is made: the first with the run itself, tools when they start, each further question to the
   model together with the tools' turn that leads to it.
4. A tool that was interrupted is made again, given up, or waits for the user's decision, by its policy.
5. Nothing here waits: the steps are wishes to save, in their order.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.client.agent_events import (
    AgentEvent,
    HistoryCompressed,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from multi_llm_chat.client.provider import LLMProvider
from multi_llm_chat.durable.holding import Hands, Holder
from multi_llm_chat.durable.replaying import NOTHING, UNKNOWN, Recorded
from multi_llm_chat.durable.saving import (
    Numbered,
    Outcome,
    Place,
    Save,
    save_begin,
    save_end,
    save_outcome,
    save_start,
    save_turn,
)
from multi_llm_chat.durable.stream import (
    Begun,
    Ended,
    Resumed,
    StreamEvent,
    TurnKept,
    streamed,
    write_result,
)
from multi_llm_chat.durable.tracing import Spans
from multi_llm_chat.events import Finish, FinishReason, Usage
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult, Turn
from multi_llm_chat.metering.prices import Cost, Price, cost_of
from multi_llm_chat.store import CallStart, ErrorRecord, Fence, Spending
from multi_llm_chat.store.values import RunStatus
from multi_llm_chat.tools.runner import ToolRunner, resume_policy

#: The form of what is kept of a run; a run of another form is not gone on with.
VERSION = 1


class Identity(Struct, frozen=True):
    """Whose run it is, and what is noted on its turns."""

    conversation: str
    run: str
    speaker: str
    provider: LLMProvider
    base: str | None
    meta: JsonObject
    prices: Mapping[str, Price]

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.provider.model or ""


class Record:
    """The journal of one run.

    Args:
        identity: Whose run it is.
        holder: Who holds the runs of this process.
        tools: Who knows what to do with interrupted calls.
        fence: The right to write; that of a run which begins here if not given.
        recorded: What the journal has.
    """

    def __init__(
        self,
        identity: Identity,
        holder: Holder,
        tools: ToolRunner,
        *,
        fence: Fence | None = None,
        recorded: Recorded = NOTHING,
    ) -> None:
        self.identity = identity
        self.fence = fence or Fence(identity.run, 1)
        self.usage = Usage()
        self.cost: Cost | None = Cost()
        self._holder = holder
        self._tools = tools
        self._recorded = recorded
        self._meta = dict(identity.meta)
        self._next = 0
        self._model_call = self._number()
        self._next_tool = self._next
        self._numbers: dict[str, int] = {}
        self._took: dict[str, float] = {}
        self._doubtful: set[int] = set()
        self._given_up: set[int] = set()
        self._after = identity.base
        self._finish: FinishReason = "stop"
        self._is_half = False
        self._spans = Spans(
            identity.run, identity.conversation, identity.provider.name, identity.model
        )
        before = max((each.elapsed for each in recorded.outcomes), default=0.0)
        self._began = time.monotonic() - before

    # The steps.

    def start(self, spec: JsonObject) -> Save:
        """The run begins here."""
        self._spans.model_started()
        identity, holder = self.identity, self._holder
        holder.expect(self.fence)
        holder.tell(identity.run, Begun(identity.speaker, identity.model))
        arguments = (
            identity.conversation, identity.run, identity.speaker, identity.base, {**spec, "version": VERSION},
            holder.owner, holder.lease_ms, self._question(),
        )  # fmt: skip
        return Save(save_start, arguments, lambda: holder.hold(identity.run))

    def resume(self, sequence: int, hands: Hands) -> Save | None:
        """The run goes on here."""
        run = self.identity.run
        self._holder.expect(self.fence, sequence)
        self._holder.hold(run, hands)
        again = Resumed(self.fence.epoch) if sequence > 1 else None
        self._holder.tell(run, again or Begun(self.identity.speaker, self.identity.model))
        if self._recorded.asks_model:
            self._spans.model_started()
            return Save(save_begin, (self.fence, [self._question(self._recorded.next_model)]))
        return None

    def heard(self, event: AgentEvent) -> Sequence[Save]:
        """What an event of the run leads to."""
        match event:
            case TurnFinished():
                return self.finish_turn(event)[1]
            case ToolStarted():
                return self._start_tool(event)
            case ToolFinished():
                return self._finish_tool(event)
            case HistoryCompressed():
                self._meta["compressed"] = event.note.text
            case Finish():
                self._finish = event.reason
            case _:
                pass
        self._tell(streamed(event))
        return ()

    def finish_turn(self, event: TurnFinished) -> tuple[Turn, Sequence[Save]]:
        """A turn is complete: as it is kept, and how."""
        turn = self._kept_turn(event)
        is_models = turn.role != "tool"
        outcome, starts = self._call_of(turn, event, is_models=is_models)
        spending = self._spend(turn, event.usage) if is_models else None
        place = Place(self.identity.conversation, self._after)
        self._after = turn.id
        if self.kept(turn):
            return turn, ()
        if is_models:
            self._spans.model_ended(event.usage, self._finish, is_whole=event.is_whole)
        else:
            self._spans.model_started()
        kept = TurnKept(turn.id or "", turn.role, event.is_whole)
        told = self._holder.told(self.identity.run, kept)
        arguments = (self.fence, place, turn, spending, outcome, starts, told)
        return turn, [self._with_events(save_turn, arguments, told)]

    def end(self, status: RunStatus, reason: str, error: ErrorRecord | None) -> Save:
        """The run is over."""
        cost = None if self.cost is None else str(self.cost.total)
        assert status != "running"
        ended = Ended(status, reason, self.usage, cost, self.seconds)
        told = self._holder.told(self.identity.run, ended)

        def landed() -> None:
            self._holder.landed(self.identity.run, told)
            self.let_go()

        return Save(save_end, (self.fence, status, error, told), landed)

    def let_go(self) -> None:
        """The run is over, or no longer ours."""
        self._spans.close()
        self._holder.let_go(self.identity.run)

    # What is known.

    @property
    def seconds(self) -> float:
        """How long the run has taken, not counting interruptions."""
        return time.monotonic() - self._began

    def kept(self, turn: Turn) -> bool:
        """Whether the journal has had the turn before."""
        return turn.id in self._recorded.turns

    def key(self, call: ToolCall) -> str:
        """What tells a call from all others, at every attempt."""
        return f"{self.identity.run}:{self._numbers[call.tool_call_id]}"

    def answer(self, call: ToolCall) -> ToolResult | None:
        """The result of a call that is not made: it was made before, or may have been."""
        number = self._numbers[call.tool_call_id]
        found = self._recorded.results.get(number)
        if found is None and number in self._given_up:
            return ToolResult(call.name, UNKNOWN, call.tool_call_id, is_error=True, synthetic=True)
        return found

    def is_doubtful(self, call: ToolCall) -> bool:
        """Whether the call was interrupted, and the user decides what becomes of it."""
        return self._numbers[call.tool_call_id] in self._doubtful

    def decide(self, call: ToolCall, *, again: bool) -> Sequence[Save]:
        """Make a doubtful call again, or give it up."""
        number = self._numbers[call.tool_call_id]
        self._doubtful.discard(number)
        if again:
            return self._begin_tool(call)
        self._given_up.add(number)
        return ()

    # How it is done.

    def _start_tool(self, event: ToolStarted) -> Sequence[Save]:
        number = self._next_tool
        self._next_tool += 1
        self._numbers[event.call.tool_call_id] = number
        if number in self._recorded.results:
            return ()
        if number in self._recorded.interrupted:
            policy = resume_policy(self._tools, event.call.name)
            if policy == "never":
                self._given_up.add(number)
                return ()
            if policy == "ask":
                self._doubtful.add(number)
                self._tell(event)  # who is asked sees the call
                return ()
        self._tell(event)
        return self._begin_tool(event.call)

    def _begin_tool(self, call: ToolCall) -> Sequence[Save]:
        self._spans.tool_started(call)
        start = CallStart(self._numbers[call.tool_call_id], "tool", call.name, self.key(call))
        return [Save(save_begin, (self.fence, [start]))]

    def _finish_tool(self, event: ToolFinished) -> Sequence[Save]:
        number = self._numbers[event.call.tool_call_id]
        if number in self._recorded.results:
            return ()
        self._spans.tool_ended(event.call, is_error=event.result.is_error)
        is_known = self.answer(event.call) is None
        if is_known:
            self._took[event.call.tool_call_id] = round(event.seconds, 3)
        result = {"result": write_result(event.result), "elapsed": self.seconds}
        outcome = Outcome(number, "done" if is_known else "unknown", result)
        told = self._holder.told(self.identity.run, event)
        return [self._with_events(save_outcome, (self.fence, outcome, told), told)]

    def _kept_turn(self, event: TurnFinished) -> Turn:
        meta = event.turn.meta | self._meta
        if not event.is_whole:
            meta["partial"] = True
        if event.turn.role == "tool" and self._took:
            meta["seconds"], self._took = self._took, {}
        suffix = "" if event.turn.role != "tool" else ".tools"
        # Half a turn is followed by a whole one under another id, if the run is ever taken up again.
        self._is_half = self._is_half or not event.is_whole
        half = f".half{self.fence.epoch}" if self._is_half else ""
        identifier = f"{self.identity.run}.{self._model_call}{suffix}{half}"
        kept = self._recorded.turns.get(identifier)
        if kept is not None:
            return kept
        now = time.time_ns() // 1_000_000
        return replace(event.turn, id=identifier, created_at=now, meta=meta)

    def _call_of(
        self, turn: Turn, event: TurnFinished, *, is_models: bool
    ) -> tuple[Outcome | None, Sequence[CallStart]]:
        if not is_models:
            self._model_call = self._number()
            return None, [self._question()]
        # Its tools have the next numbers, whether they are run here or were run before.
        self._next_tool = self._next
        self._next += sum(isinstance(part, ToolCall) for part in turn.parts)
        if turn.id in self._recorded.turns:
            return None, ()
        fields = Usage.__struct_fields__
        used = None if event.usage is None else [getattr(event.usage, name) for name in fields]
        result = {"finish": self._finish, "usage": used, "elapsed": self.seconds}
        return Outcome(self._model_call, "done" if event.is_whole else "failed", result), ()

    def _spend(self, turn: Turn, usage: Usage | None) -> Spending:
        identity = self.identity
        model = turn.model or identity.model
        cost = None
        if usage is not None and usage != Usage():
            cost = cost_of(usage, identity.provider.priced_as, model, dict(identity.prices))
            self.usage += usage
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        total: Decimal | None = None if cost is None else cost.total
        return Spending(
            turn.id or "", identity.speaker, model, usage, total, turn=turn.id, run_id=identity.run
        )

    def _with_events(
        self, operation: Callable[..., None], arguments: tuple[object, ...], told: Numbered
    ) -> Save:
        run, holder = self.identity.run, self._holder
        return Save(operation, arguments, lambda: holder.landed(run, told))

    def _question(self, number: int | None = None) -> CallStart:
        return CallStart(
            self._model_call if number is None else number, "model", self.identity.model
        )

    def _number(self) -> int:
        number = self._next
        self._next += 1
        return number

    def _tell(self, event: StreamEvent | None) -> None:
        if event is not None:
            self._holder.tell(self.identity.run, event)
