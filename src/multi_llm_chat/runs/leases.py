"""The runs that this process owns: their leases, and their events on the way to the store.

Rules:
1. The thread of a ``RunHost`` writes the new events of all its runs in one transaction, every 50 ms.
2. An event gets its number when it first goes into a transaction, and stays in memory until that transaction is committed. A transaction
   that records a turn also writes the events before it.
3. The thread renews leases long before they end. When another process has taken a run, it calls ``on_lost`` and writes
   nothing more for that run; when a stop was requested in the store, it calls ``on_stop``.
4. The thread retries the writes that a driver could not make before it ended (``unsaved``); ``close`` waits for them.
5. A process with many runs works in frames: once per frame, each run reads the part of its reply that has arrived, and the thread writes.
   Runs with the same slot read together. The first text of a reply does not wait.
6. The thread lives as long as there are runs or unsaved writes.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final, Protocol
from weakref import WeakSet

from multi_llm_chat.errors import RunLost, StoreError
from multi_llm_chat.event_codec import write_row
from multi_llm_chat.events import Event
from multi_llm_chat.runs._notifications import Notifications
from multi_llm_chat.runs.channel import merge_deltas
from multi_llm_chat.runs.owner import new_owner
from multi_llm_chat.runs.records import NumberedRows, Write
from multi_llm_chat.store import Events, Fence, Store, append_events, renew
from multi_llm_chat.store.transaction import write_json

#: Seconds between two writes of events.
FLUSH: Final = 0.05
#: Seconds between two renewals; a run without events learns within this time of a stop request. A process with many runs renews less often,
#: to keep below a number of renewals per second, but three times within the length of a lease.
RENEWAL: Final = 2.0
RENEWALS_A_SECOND: Final = 100
#: How many runs this process drives without frames. Above, each run reads its reply once per frame; the frame grows with the number of
#: runs, to keep the process below a number of steps per second.
UNFRAMED_RUNS: Final = 100
STEPS_A_SECOND: Final = 1_000
LONGEST_FRAME: Final = 0.5
#: Runs read at multiples of this many seconds: those that read at the same moment share the wake-ups of their process.
FRAME_END: Final = 0.05
#: Seconds for which a run belongs to this process without a renewal.
LEASE: Final = 15.0
#: Seconds between two retries of unsaved writes.
RETRY: Final = 0.5
#: Seconds for which ``close`` retries unsaved writes.
CLOSING: Final = 5.0


class RunQueue(Protocol):
    """A queue of runs that wait for a worker."""

    def enqueue(self, run_id: str, epoch: int = 0, *, minute: int = 0) -> None:
        """Let a worker take a run from the store."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Lease:
    """The right of this process to write for one run, and the run's uncommitted events."""

    def __init__(self, host: "RunHost", fence: Fence, sequence: int = 1) -> None:
        self.fence = fence
        self.on_lost: Callable[[], None] = _nothing
        self.on_stop: Callable[[], None] = _nothing
        self.is_held = False
        self._host = host
        self._slot = next(host.slots)
        self._next = sequence
        #: Events without a number; the run's event loop appends them, and the thread that numbers them removes them.
        self._open: deque[Event] = deque()
        self._numbered: dict[int, str] = {}

    def hold(self) -> None:
        """Start to renew the lease and to write the run's events."""
        self.is_held = True
        self._host.hold(self)

    def release(self) -> None:
        """Stop renewing: the run is over, or another process owns it."""
        self.is_held = False
        self._host.release(self)

    def pause(self) -> float:
        """Seconds until the run reads its reply again, after it has read some of it; 0 if there are few runs."""
        return frame_pause(self._host.frame(), self._slot, time.monotonic())

    def append(self, events: Sequence[Event]) -> None:
        """Add events for the next write; successive deltas are merged to one event."""
        # Not under the lock: the thread holds it while it numbers the events of all runs.
        self._open.extend(events)

    def bind(self, event: Event) -> NumberedRows:
        """The uncommitted rows and one more event, whose transaction commits them all."""
        with self._host.lock:
            before = self.numbered()
            number = self._next
            self._next += 1
        return (*before, (number, write_json(write_row(event))))

    def landed(self, rows: NumberedRows) -> None:
        """Remove rows that were committed, and pass them to followers in this process."""
        self.forget(rows)
        self._host.notifications.notify({self.fence.run_id: rows})

    def numbered(self) -> NumberedRows:
        """The rows that are not yet committed; the caller holds the host's lock."""
        taken = [self._open.popleft() for _ in range(len(self._open))]
        for event in merge_deltas(taken):
            self._numbered[self._next] = write_json(write_row(event))
            self._next += 1
        return tuple(self._numbered.items())

    def forget(self, rows: NumberedRows) -> None:
        """Remove rows that are committed."""
        with self._host.lock:
            for number, _ in rows:
                self._numbered.pop(number, None)


def _nothing() -> None:
    """Do nothing."""


class RunHost:
    """The runs that this process drives in one store.

    Args:
        store: Where the runs are recorded, those of every user.
        lease: Seconds for which a run belongs to this process without a renewal.
        flush: Seconds between two writes of events.
        queue: Where new runs wait for workers; without one this process drives them.
    """

    def __init__(
        self,
        store: Store,
        *,
        lease: float = LEASE,
        flush: float = FLUSH,
        queue: RunQueue | None = None,
    ) -> None:
        self.owner = new_owner()
        self.lease_ms = int(lease * 1000)
        #: CPU seconds that the thread has used.
        self.cpu_seconds = 0.0
        self.store = store
        self.queue = queue
        self.notifications = Notifications(store)
        #: Numbers the leases, to spread them over the frames.
        self.slots = count()
        self.lock = threading.Lock()
        self._changed = threading.Condition(self.lock)
        self._flush = flush
        self._leases: dict[str, Lease] = {}
        self._unsaved: list[tuple[Store, list[Write]]] = []
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        _hosts.add(self)

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that this process owns."""
        with self.lock:
            return tuple(self._leases)

    def frame(self) -> float:
        """Seconds between two reads of a reply by each run; 0 if there are few runs."""
        return frame_seconds(len(self._leases))

    @property
    def unsaved(self) -> int:
        """The number of writes of ended runs that the store has not accepted yet."""
        with self.lock:
            return sum(len(writes) for _, writes in self._unsaved)

    def hold(self, lease: Lease) -> None:
        """Renew the lease and write its events from now on."""
        with self.lock:
            self._leases[lease.fence.run_id] = lease
            self._start()

    def release(self, lease: Lease) -> None:
        """Stop renewing the lease."""
        with self.lock:
            if self._leases.get(lease.fence.run_id) is lease:
                del self._leases[lease.fence.run_id]
            self._changed.notify_all()
        self._woken.set()

    def keep_trying(self, store: Store, writes: Sequence[Write]) -> None:
        """Retry these writes, in order, until the store accepts them."""
        if writes:
            with self.lock:
                self._unsaved.append((store, list(writes)))
                self._start()

    def close(self, seconds: float = CLOSING) -> int:
        """Wait, at most for this time, until the runs have ended and the thread has made all writes; return how many are unsaved.

        The caller has stopped the runs before. A run that ends passes its unsaved writes on; this method makes no writes itself, because an
        unreachable database could block it for longer.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._leases and not self._unsaved, seconds)
        return self.unsaved

    def _start(self) -> None:
        if self._thread is None:
            self._woken.clear()
            self._thread = threading.Thread(
                target=self._work, name="multi_llm_chat runs", daemon=True
            )
            self._thread.start()

    def _work(self) -> None:
        renewed = retried = due = time.monotonic()
        while True:
            # The interval counts from start to start, so that a slow write does not delay the next one.
            self._woken.wait(max(due - time.monotonic(), self._flush / 5))
            due = time.monotonic() + max(self._flush, self.frame())
            began = time.thread_time()
            with self.lock:
                self._woken.clear()
                if not self._leases and not self._unsaved:
                    self._thread = None
                    return
            self._write()
            interval = max(RENEWAL, len(self._leases) / RENEWALS_A_SECOND)
            if time.monotonic() - renewed >= min(self.lease_ms / 3000, interval):
                renewed = time.monotonic()
                self._renew()
            if time.monotonic() - retried >= RETRY:
                retried = time.monotonic()
                self._write_unsaved()
            self.cpu_seconds += time.thread_time() - began

    def _write(self) -> None:
        with self.lock:
            batches = [
                Events(lease.fence, rows)
                for lease in self._leases.values()
                if (rows := lease.numbered())
            ]
        if not batches:
            return
        try:
            lost, stopped = self.store.run(append_events, batches)
        except StoreError:
            return  # the events stay in memory; the next write includes them
        written = {
            batch.fence.run_id: batch.numbered
            for batch in batches
            if batch.fence.run_id not in lost
        }
        for run_id, rows in written.items():
            lease = self._lease(run_id)
            if lease is not None:
                lease.forget(rows)
        self.notifications.notify(written)
        self._lose(lost)
        self._stop(stopped)

    def _renew(self) -> None:
        with self.lock:
            fences = [lease.fence for lease in self._leases.values()]
        if not fences:
            return
        try:
            ours, stopped = self.store.run(renew, fences, self.lease_ms)
        except StoreError:
            return  # the lease may end; if another process takes the run, a later write or renewal reports it
        # A run that ended in the meantime has no lease here, so ``_lose`` ignores it.
        self._lose({fence.run_id for fence in fences} - ours)
        self._stop(stopped)

    def _write_unsaved(self) -> None:
        with self.lock:
            waiting = list(self._unsaved)
        for entry in waiting:
            if self._write_all(*entry):
                with self.lock:
                    self._unsaved.remove(entry)
                    self._changed.notify_all()

    @staticmethod
    def _write_all(store: Store, writes: list[Write]) -> bool:
        """Make writes in order; return whether the entry is done."""
        try:
            while writes:
                store.run(writes[0].operation, *writes[0].arguments)
                writes[0].landed()
                del writes[0]
        except RunLost:
            return True
        except StoreError:
            return False
        return True

    def _stop(self, stopped: set[str]) -> None:
        for run_id in stopped:
            lease = self._lease(run_id)
            if lease is not None:
                lease.on_stop()

    def _lose(self, lost: set[str]) -> None:
        for run_id in lost:
            lease = self._lease(run_id)
            if lease is not None:
                lease.release()
                lease.on_lost()

    def _lease(self, run_id: str) -> Lease | None:
        with self.lock:
            return self._leases.get(run_id)


def frame_seconds(runs: int) -> float:
    """Seconds between two reads of a reply in a process with this many runs; 0 if they are few."""
    return 0.0 if runs <= UNFRAMED_RUNS else min(LONGEST_FRAME, runs / STEPS_A_SECOND)


def frame_pause(frame: float, slot: int, now: float) -> float:
    """Seconds from ``now`` to the next read of a run with this slot; 0 without frames.

    The slots are spread over the frame, whatever happens: runs that were late together do not stay together.
    """
    slots = round(frame / FRAME_END)
    if not slots:
        return 0.0
    pause = (slot % slots * FRAME_END - now) % (slots * FRAME_END)
    return pause if pause >= frame / 4 else pause + slots * FRAME_END


_hosts: "WeakSet[RunHost]" = WeakSet()


def counts() -> Mapping[str, float]:
    """How many runs this process owns, and the CPU time of their writers."""
    hosts = list(_hosts)
    return {
        "runs_held": sum(len(host.runs) for host in hosts),
        "writer_cpu_seconds": sum(host.cpu_seconds for host in hosts),
    }


def report_unsaved(count: int) -> None:
    """Report writes that were still unsaved when ``close`` ended.

    Raises:
        StoreError: There are unsaved writes.
    """
    if count:
        raise StoreError(
            f"The store accepted no writes: {count} of the last steps of the conversation were not saved. "
            "What was saved before them is complete; unfinished answers continue at the next start.",
            reason="unsaved",
        )
