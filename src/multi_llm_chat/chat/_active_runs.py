"""The runs of one conversation that this process drives or follows.

Rules:
1. This process drives a run itself, or follows a run that another process drives; the reader gets the same events.
2. A run that fails does not stop the others.
3. Any thread may call ``stop``; without a speaker it stops all runs. A run that another process began is stopped only
   with ``everywhere``.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence, Set

from msgspec.structs import replace

from multi_llm_chat.chat.branch import Branch
from multi_llm_chat.errors import RunLost, StoreError
from multi_llm_chat.events import (
    CompressionNote,
    Event,
    HistoryCompressed,
    RunFailed,
    RunResumed,
    TextDelta,
    TurnFinished,
)
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.driver import RunDriver
from multi_llm_chat.runs.follow import follow
from multi_llm_chat.runs.journal import Journal
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.rates import rate_gate
from multi_llm_chat.runs.records import STORE_PATIENCE, error_record
from multi_llm_chat.store import Store, stop_run
from multi_llm_chat.tools.threads import in_loop, in_thread

_LOGGER = logging.getLogger(__name__)


class ActiveRun:
    """One run of the conversation, from its plan to its end.

    This process drives a run that has a ``journal`` and follows any other; ``is_attached`` if another process began it.
    """

    def __init__(
        self,
        run: str,
        speaker: str,
        *,
        base: str | None = None,
        journal: Journal | None = None,
        is_attached: bool = False,
    ) -> None:
        self.run = run
        self.speaker = speaker
        self.base = base
        self.journal = journal
        self.is_attached = is_attached
        self.failed = False
        self.note: CompressionNote | None = None
        #: The pieces of text since the last finished turn.
        self.pieces: list[str] = []

    @property
    def words(self) -> str:
        """The text since the last finished turn."""
        return "".join(self.pieces)

    def observe(self, event: Event) -> None:
        """Update the state of the run from an event."""
        match event:
            case TurnFinished() | RunResumed():
                self.pieces = []
            case HistoryCompressed():
                self.note = event.note
            case RunFailed():
                self.failed = True
            case _:
                pass


class _Observed:
    """A sink that shows the events of one run to its conversation before it passes them on."""

    in_step = False

    def __init__(self, active: ActiveRun, branch: Branch, sink: EventSink) -> None:
        self._active = active
        self._branch = branch
        self._sink = sink

    def put(self, events: Sequence[Event]) -> None:
        """Pass events on."""
        active = self._active
        words = [event.text for event in events if type(event) is TextDelta]
        if len(words) == len(events):  # as nearly always
            active.pieces += words
            self._sink.put(events)
            return
        for event in events:
            if type(event) is TextDelta:
                active.pieces.append(event.text)
                continue
            active.observe(event)
            if type(event) is TurnFinished:
                self._branch.add(event.turn, active.run)
        self._sink.put(events)

    async def ready(self) -> None:
        """Never wait: the reader does not slow the run down."""


class ObservingSink:
    """A sink that lets these runs, by their ids, observe their own events."""

    in_step = False

    def __init__(self, runs: Mapping[str, ActiveRun], sink: EventSink) -> None:
        self._runs = runs
        self._sink = sink

    def put(self, events: Sequence[Event]) -> None:
        """Pass events on."""
        for event in events:
            active = self._runs.get(event.run)
            if active is not None:
                active.observe(event)
        self._sink.put(events)

    async def ready(self) -> None:
        """Never wait: the reader does not slow the run down."""


class ActiveRuns:
    """The active runs of one conversation."""

    def __init__(
        self,
        host: RunHost,
        store: Store,
        branch: Branch,
        *,
        store_patience: float | None = STORE_PATIENCE,
    ) -> None:
        self._host = host
        self._store_patience = store_patience
        self._store = store
        self._branch = branch
        self._active: dict[str, ActiveRun] = {}
        #: All runs, from the moment they are planned.
        self._expected: dict[str, ActiveRun] = {}
        #: For each message in preparation, the speakers that were stopped meanwhile; None stands for all.
        self._prepared: list[set[str | None]] = []
        self._cancels: dict[str, Callable[[], None]] = {}
        self._stopped: set[str] = set()

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all active runs, from the moment they are planned."""
        return frozenset(self._expected)

    @property
    def current(self) -> tuple[ActiveRun, ...]:
        """The runs that have started and not ended."""
        return tuple(self._active.values())

    def expect(self, active: ActiveRun) -> ActiveRun:
        """Register a run that is about to start."""
        self._expected[active.run] = active
        return active

    def add(self, active: ActiveRun, cancel: Callable[[], None]) -> None:
        """Add a run that ``resume_runs`` drives in this process; ``cancel`` stops it."""
        self._active[self.expect(active).run] = active
        self._cancels[active.run] = cancel

    def forget(self, runs: Sequence[ActiveRun]) -> None:
        """Remove runs that have ended or will not start."""
        for active in runs:
            self._active.pop(active.run, None)
            self._cancels.pop(active.run, None)
            self._stopped.discard(active.run)
            self._expected.pop(active.run, None)

    @contextlib.contextmanager
    def preparation(self) -> Generator[set[str | None]]:
        """Collect the speakers that are stopped while a message is prepared, before its runs are planned."""
        stopped: set[str | None] = set()
        self._prepared.append(stopped)
        try:
            yield stopped
        finally:
            self._prepared = [each for each in self._prepared if each is not stopped]

    def stop(self, speaker: str | None = None, *, everywhere: bool = False) -> None:
        """Stop the runs of a speaker, or all; runs of other processes only with ``everywhere``.

        A run that is being prepared or saved is stopped as soon as it begins.
        """
        for stopped in self._prepared:
            stopped.add(speaker)
        for active in tuple(self._expected.values()):
            if speaker in (None, active.speaker) and (everywhere or not active.is_attached):
                self._stop(active)

    def stop_prepared(self, runs: Sequence[ActiveRun], stopped: Set[str | None]) -> None:
        """Stop the planned runs whose speakers were stopped during the preparation."""
        for active in runs:
            if None in stopped or active.speaker in stopped:
                self._stop(active)

    def _stop(self, active: ActiveRun) -> None:
        self._stopped.add(active.run)
        cancel = self._cancels.get(active.run)
        if cancel is not None:
            cancel()

    async def perform(self, runs: Sequence[ActiveRun], sink: EventSink) -> None:
        """Drive or follow all runs at the same time, until all have ended.

        When it is cancelled, it stops the runs that began here and waits for their end; other runs continue.
        """
        self._active |= {self.expect(active).run: active for active in runs}
        tasks = {asyncio.ensure_future(self._perform(active, sink)): active for active in runs}
        try:
            if tasks:
                await asyncio.wait(tasks)
        except asyncio.CancelledError:
            self.stop()
            for task, active in tasks.items():
                if active.is_attached:
                    task.cancel()
            await asyncio.wait(tasks)
            raise
        finally:
            self.forget(runs)
        for task in tasks:
            task.result()

    async def _perform(self, active: ActiveRun, sink: EventSink) -> None:
        observed = _Observed(active, self._branch, sink)
        try:
            if active.journal is not None:
                await self._drive(active, active.journal, observed)
            else:
                await self._follow(active, observed)
        except RunLost as error:
            failed = RunFailed(error_record(error))
            observed.put([replace(failed, run=active.run, speaker=active.speaker)])
        finally:
            self.forget([active])

    async def _drive(self, active: ActiveRun, journal: Journal, sink: EventSink) -> None:
        spec = journal.spec
        gate = rate_gate(self._store, spec.provider, spec.rates)
        driver = RunDriver(
            spec, sink, journal=journal, gate=gate, store_patience=self._store_patience
        )
        journal.bind(stop=driver.cancel, lose=driver.lose)
        self.control(active, in_loop(driver.cancel))
        await driver.drive(begun=True)

    async def _follow(self, active: ActiveRun, sink: EventSink) -> None:
        queue = self._host.queue
        if queue is not None and not active.is_attached:
            try:
                await in_thread(lambda: queue.enqueue(active.run), "enqueue")
            except StoreError as error:
                # The run is saved: the watcher of orphaned runs queues it.
                _LOGGER.warning("a run could not be queued yet: %s", error)
        self.control(active, self._stopping(active.run))
        async for _, event in follow(
            self._host, active.run, store=self._store, patience=self._store_patience
        ):
            sink.put([event if event.speaker else replace(event, speaker=active.speaker)])

    def control(self, active: ActiveRun, cancel: Callable[[], None]) -> None:
        """Set the function that stops the run from any thread."""
        self._cancels[active.run] = cancel
        if active.run in self._stopped:  # ``stop`` came before the run had started
            cancel()

    def _stopping(self, run: str) -> Callable[[], None]:
        """A function that requests the stop of another process's run, in a thread, without waiting for the store."""

        def ask() -> None:
            with contextlib.suppress(StoreError):
                self._store.run(stop_run, run)

        return lambda: threading.Thread(target=ask, name="stop run", daemon=True).start()
