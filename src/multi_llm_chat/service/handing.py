"""Answers that others give: put into the queue of the workers, and followed from here.

Rules:
1. What is told is the same as if the answer were given here; it comes through the store.
2. Half an answer whose worker died is taken back by ``AnswerResumed``; the next attempt follows.
3. To stop an answer is to ask for it: whoever gives it ends it in good order. An answer that was not begun here is
   only listened to, and goes on when nobody listens any more; it is stopped where the user asks for just that.
"""

from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Protocol, cast

from multi_llm_chat.context.notes import CompressionNote
from multi_llm_chat.durable.following import follow, follow_plainly
from multi_llm_chat.durable.janitor import partition_of
from multi_llm_chat.durable.nudges import pause_for
from multi_llm_chat.durable.recording import VERSION
from multi_llm_chat.durable.saving import Save
from multi_llm_chat.durable.stream import (
    Begun,
    Compressed,
    Ended,
    Resumed,
    StreamEvent,
    TurnKept,
)
from multi_llm_chat.events import TextDelta, Usage
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.loop.limits import StopReason
from multi_llm_chat.metering.prices import Cost
from multi_llm_chat.service.events import (
    AnswerEvent,
    AnswerFailed,
    AnswerFinished,
    AnswerResumed,
    AnswerStarted,
    ChatEvent,
    TurnSaved,
)
from multi_llm_chat.service.keeping import Keeping, new_id
from multi_llm_chat.store import (
    ErrorRecord,
    RunInfo,
    Store,
    Transaction,
    begin_run,
    get_turn,
    run_info,
)
from multi_llm_chat.store.values import Placed
from multi_llm_chat.tools.threads import in_thread

_GONE = ErrorRecord("RunLost", "The answer was ended before it was complete.")


class Queue(Protocol):
    """Where runs wait for a worker; kept as ``engine`` beside the store."""

    def enqueue(self, run_id: str, partition: str, epoch: int = 0) -> None:
        """Have the run worked on."""
        ...


def queue_of(store: Store) -> Queue | None:
    """The queue of the store's workers, if answers are given by workers."""
    return cast("Queue | None", store.beside.get("engine"))


def runs_of(runs: Iterable[RunInfo], user: str, conversation: str) -> list[RunInfo]:
    """Those of the runs that are in the conversation."""
    return [each for each in runs if (each.user, each.conversation) == (user, conversation)]


def save_handed(
    transaction: Transaction,
    conversation: str,
    run: str,
    speaker: str,
    base: str | None,
    spec: JsonObject,
) -> None:
    """A run begins that a worker will take."""
    begin_run(
        transaction,
        conversation,
        speaker,
        base=base,
        spec={**spec, "version": VERSION},
        identifier=run,
    )


class Followed:
    """An answer that is given elsewhere, while it comes."""

    def __init__(
        self,
        conversation: str,
        name: str,
        keeping: Keeping,
        *,
        base: str | None = None,
        spec: JsonObject | None = None,
        run: str | None = None,
    ) -> None:
        self.run = run or new_id()
        self.name = name
        self.failed = False
        self.note: CompressionNote | None = None
        #: Whether it was begun elsewhere: then it is only listened to.
        self.is_attached = run is not None
        self._conversation = conversation
        self._keeping = keeping
        self._base = base
        self._spec = spec or {}
        self._start: Save | None = None
        self._end: Ended | None = None
        self._words: list[str] = []

    @property
    def words(self) -> str:
        """What was said since the last complete turn."""
        return "".join(self._words)

    def begin(self) -> Sequence[Save]:
        """The steps before anything is said."""
        return [] if self.is_attached or self._start is not None else [self.start()]

    def start(self) -> Save:
        """How it is kept that the answer is wanted."""
        arguments = (self._conversation, self.run, self.name, self._base, self._spec)
        self._start = Save(save_handed, arguments)
        return self._start

    def listen(self, store: Store) -> Generator[ChatEvent]:
        """What happens, told while it happens; a run that was begun here is queued first."""
        self._enqueue(store)
        for _, event in follow_plainly(store, self.run):
            wanted = self._wanted(event)
            yield from self.heard(event, store.run(get_turn, *wanted) if wanted else None)
        yield from self._ended(store.run(run_info, self.run))

    async def alisten(self, store: Store) -> AsyncGenerator[ChatEvent]:
        """Like ``listen``, with ``async``."""
        await in_thread(lambda: self._enqueue(store), "enqueue")
        async for _, event in follow(store, self.run, pause=pause_for(store, self.run)):
            wanted = self._wanted(event)
            placed = await store.arun(get_turn, *wanted) if wanted else None
            for told in self.heard(event, placed):
                yield told
        for told in self._ended(await store.arun(run_info, self.run)):
            yield told

    def heard(self, event: StreamEvent, placed: Placed | None) -> Sequence[ChatEvent]:
        """What an event of the stream tells; ``placed`` is the turn it speaks of."""
        match event:
            case Begun():
                return [AnswerStarted(self.run, self.name, event.model)]
            case Resumed():
                self._words = []
                return [AnswerResumed(self.run, self.name, event.attempt)]
            case TurnKept():
                assert placed is not None
                self._words = []
                self._keeping.add(placed.turn, self.run)
                return [TurnSaved(self.run, self.name, placed.turn)]
            case Ended():
                self._end = event
                return []
            case Compressed():
                return []
            case TextDelta():
                self._words.append(event.text)
            case _:
                pass
        return [AnswerEvent(self.run, self.name, event)]

    def _wanted(self, event: StreamEvent) -> tuple[str, str] | None:
        return (self._conversation, event.turn) if isinstance(event, TurnKept) else None

    def _enqueue(self, store: Store) -> None:
        queue = queue_of(store)
        if queue is not None and not self.is_attached:
            queue.enqueue(self.run, partition_of(store.run(run_info, self.run)))

    def _ended(self, info: RunInfo) -> Iterator[ChatEvent]:
        end = self._end or Ended("failed", "error", Usage(), None, 0.0)
        cost = None if end.cost is None else Cost(Decimal(end.cost))
        if info.status == "failed" or self._end is None:
            self.failed = True
            error = info.error or _GONE
            yield AnswerFailed(self.run, self.name, error, end.usage, cost, end.seconds)
        else:
            reason = cast("StopReason", end.reason)
            yield AnswerFinished(self.run, self.name, reason, end.usage, cost, end.seconds)
