"""The runs that this process has: their leases, and what they tell.

Rules:
1. All runs of a process are written together, once each 50 ms: never one write for a word.
2. An event gets its number once, when it is first handed to a transaction, and stays here until it is known to be
   in the store. Who saves a turn saves what was told before it in the same transaction, and there alone is told that
   the turn is kept: so nobody hears of anything that is not so.
3. Leases are renewed long before they end. Who has lost a run hears of it at once, and nothing more is written for it.
4. The thread that does this lives as long as there are runs.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from uuid import uuid4
from weakref import WeakSet

from msgspec import Struct

from multi_llm_chat.durable.saving import Numbered
from multi_llm_chat.durable.stream import StreamEvent, joined, write_stream_event
from multi_llm_chat.errors import StoreError
from multi_llm_chat.store import Events, Fence, Store, append_events, renew

#: Seconds between two writes of what is told.
FLUSH: Final = 0.05
#: Seconds between two renewals at most: so long does a silent run not learn that it is to stop.
RENEWAL: Final = 2.0
#: For how many seconds a run is ours without a sign of life.
LEASE: Final = 15.0


def _nothing() -> None:
    """Nobody wants to hear of it."""


class Hands(Struct, frozen=True):
    """What to do when a run is lost, and when somebody wants it stopped; called in another thread."""

    lost: Callable[[], None] = _nothing
    stop: Callable[[], None] = _nothing


class _Held:
    """One run: what it told and is not yet known to be kept."""

    def __init__(self, fence: Fence, sequence: int) -> None:
        self.fence = fence
        self.hands = Hands()
        self.is_ours = False
        self._next = sequence
        self._open: list[StreamEvent] = []
        self._numbered: dict[int, str] = {}

    def tell(self, event: StreamEvent) -> None:
        both = joined(self._open[-1], event) if self._open else None
        if both is None:
            self._open.append(event)
        else:
            self._open[-1] = both

    def numbered(self) -> Numbered:
        for event in self._open:
            self._numbered[self._next] = write_stream_event(event)
            self._next += 1
        self._open = []
        return tuple(self._numbered.items())

    def bound(self, event: StreamEvent) -> Numbered:
        before = self.numbered()
        number = self._next
        self._next += 1
        return (*before, (number, write_stream_event(event)))

    def landed(self, numbered: Numbered) -> None:
        for number, _ in numbered:
            self._numbered.pop(number, None)


class Holder:
    """The runs of this process in one place of conversations."""

    def __init__(self, store: Store, *, lease: float = LEASE, flush: float = FLUSH) -> None:
        self.owner = f"{self.host()}:{os.getpid()}:{uuid4().hex[:12]}"
        self.lease_ms = int(lease * 1000)
        #: CPU seconds that writing has taken.
        self.cpu_seconds = 0.0
        self.store = store
        self._flush = flush
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None

    @staticmethod
    def host() -> str:
        """What this machine is called."""
        return socket.gethostname().replace(":", "-")

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs in our hands."""
        with self._lock:
            return tuple(run_id for run_id, held in self._held.items() if held.is_ours)

    def expect(self, fence: Fence, sequence: int = 1) -> None:
        """A run is about to be ours: what it tells is collected."""
        with self._lock:
            self._held[fence.run_id] = _Held(fence, sequence)

    def hold(self, run_id: str, hands: Hands | None = None) -> None:
        """The run is ours: its lease is renewed and its events are written."""
        with self._lock:
            held = self._held.get(run_id)
            if held is None:
                return
            held.is_ours = True
            held.hands = hands or held.hands
            if self._thread is None:
                self._woken.clear()
                self._thread = threading.Thread(
                    target=self._work, name="multi_llm_chat runs", daemon=True
                )
                self._thread.start()

    def handed(self, run_id: str, hands: Hands) -> None:
        """Whom to call about the run."""
        with self._lock:
            held = self._held.get(run_id)
            if held is not None:
                held.hands = hands

    def let_go(self, run_id: str) -> None:
        """The run is over, or no longer ours."""
        with self._lock:
            self._held.pop(run_id, None)
        self._woken.set()

    def tell(self, run_id: str, event: StreamEvent) -> None:
        """Something happens in the run."""
        with self._lock:
            held = self._held.get(run_id)
            if held is not None:
                held.tell(event)

    def told(self, run_id: str, event: StreamEvent) -> Numbered:
        """What was told and is not known to be kept, and behind it an event that is true once it is saved with this."""
        with self._lock:
            held = self._held.get(run_id)
            return () if held is None else held.bound(event)

    def landed(self, run_id: str, numbered: Numbered) -> None:
        """These events are in the store."""
        self._forget(run_id, numbered)
        self._nudge({run_id: numbered})

    def _forget(self, run_id: str, numbered: Numbered) -> None:
        with self._lock:
            held = self._held.get(run_id)
            if held is not None:
                held.landed(numbered)

    def _nudge(self, written: Mapping[str, Numbered]) -> None:
        """Hand it to those of this process who follow; others are told by the database, or look for themselves."""
        nudge: Callable[[Mapping[str, Numbered]], None] | None = self.store.beside.get("nudge")
        if nudge is not None:
            nudge(written)

    def _work(self) -> None:
        renewed = due = time.monotonic()
        while True:
            # From one beginning to the next: what a write takes does not make the next one later.
            self._woken.wait(max(due - time.monotonic(), self._flush / 5))
            due = time.monotonic() + self._flush
            began = time.thread_time()
            with self._lock:
                self._woken.clear()
                if not self._held:
                    self._thread = None
                    return
            self._write()
            if time.monotonic() - renewed >= min(self.lease_ms / 3000, RENEWAL):
                renewed = time.monotonic()
                self._renew()
            self.cpu_seconds += time.thread_time() - began

    def _write(self) -> None:
        with self._lock:
            batches = [
                Events(held.fence, numbered)
                for held in self._held.values()
                if held.is_ours and (numbered := held.numbered())
            ]
        if not batches:
            return
        try:
            lost, stopped = self.store.run(append_events, batches)
        except StoreError:
            return  # it stays here, and is tried again with what comes
        written = {
            batch.fence.run_id: batch.numbered
            for batch in batches
            if batch.fence.run_id not in lost
        }
        for run_id, numbered in written.items():
            self._forget(run_id, numbered)
        self._nudge(written)
        self._lose(lost)
        self._stop(stopped)

    def _renew(self) -> None:
        with self._lock:
            fences = [held.fence for held in self._held.values() if held.is_ours]
        try:
            ours, stopped = self.store.run(renew, fences, self.lease_ms)
        except StoreError:
            return  # nobody else reaches the database either, or we learn soon that the run is lost
        # One that ended meanwhile is no longer held, and was not lost.
        self._lose({fence.run_id for fence in fences} - ours)
        self._stop(stopped)

    def _stop(self, stopped: set[str]) -> None:
        for run_id in stopped:
            self._hands(run_id).stop()

    def _lose(self, lost: set[str]) -> None:
        for run_id in lost:
            hands = self._hands(run_id)
            self.let_go(run_id)
            hands.lost()

    def _hands(self, run_id: str) -> Hands:
        with self._lock:
            held = self._held.get(run_id)
            return Hands() if held is None else held.hands


_lock = threading.Lock()
_holders: "WeakSet[Holder]" = WeakSet()


def holder_of(store: Store) -> Holder:
    """The one holder of this process for the store's place, whosever conversations they are."""
    with _lock:
        holder = store.beside.get("holder")
        if holder is None:
            holder = store.beside["holder"] = Holder(store)
            _holders.add(holder)
        return holder


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this machine that is no more."""
    host, _, rest = owner.partition(":")
    number = rest.partition(":")[0]
    return host == Holder.host() and number.isdigit() and not _is_alive(int(number))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_over(process)


def _is_over(process: int) -> bool:
    """Whether the process has ended and its parent has not asked how: in some containers nobody ever does."""
    try:
        told = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False  # another system, or it is gone by now: then the lease tells
    return told.rpartition(")")[2].split()[:1] in (["Z"], ["X"])


def counts() -> dict[str, float]:
    """How many runs this process has, and what writing them has cost."""
    with _lock:
        holders = list(_holders)
    return {
        "runs_held": sum(len(holder.runs) for holder in holders),
        "writer_cpu_seconds": sum(holder.cpu_seconds for holder in holders),
    }
