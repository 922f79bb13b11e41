"""Hear that a run has told something, instead of asking all the time: from Postgres, or from this very process.

Rules:
1. One connection for a whole process, while anybody waits. A file tells nothing: what other processes write to it is
   found by looking.
2. What this process has written itself is handed to those who follow here, once it is committed: nobody reads it again.
3. A nudge without events says "look", never what happened; who misses one looks a moment later all the same.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, Self

from multi_llm_chat.durable.saving import Numbered
from multi_llm_chat.store import Store
from multi_llm_chat.store.journal import CHANNEL
from multi_llm_chat.store.lanes import Listening

#: Seconds between two looks of who hears nothing.
POLL: Final = 0.05
#: Seconds after which who waits looks without a nudge.
LONGEST: Final = 0.5
#: How many events wait for who follows slowly; with more, all are read from the store.
_MOST: Final = 1_000
#: How many silent waits the connection outlives when nobody waits.
_PATIENT: Final = 4


class Ear:
    """What one who follows a run hears of it; used within one event loop, in a ``with`` block."""

    def __init__(self, nudges: "Nudges", run_id: str) -> None:
        self.run_id = run_id
        self.loop: asyncio.AbstractEventLoop | None = None
        self._nudges = nudges
        self._woken = asyncio.Event()
        self._heard: list[tuple[int, str]] = []
        self._last = -1
        self._is_near = False

    def __enter__(self) -> Self:
        self.loop = asyncio.get_running_loop()
        self._nudges.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._nudges.remove(self)

    def hear(self, events: Numbered) -> None:
        """These were written just now; none means that others may have written something."""
        self._heard = [*self._heard, *events] if len(self._heard) < _MOST else []
        self._woken.set()

    async def next(self, after: int) -> Numbered:
        """Wait; the events behind a number, or none where the store must be asked."""
        if after > self._last:
            self._is_near = False  # somebody else writes them
        try:
            async with asyncio.timeout(LONGEST if self._is_near else self._nudges.patience):
                await self._woken.wait()
        except TimeoutError:
            return ()
        self._woken.clear()
        heard, self._heard = self._heard, []
        new = tuple(sorted({number: text for number, text in heard if number > after}.items()))
        if not new or new[0][0] != after + 1 or new[-1][0] != after + len(new):
            return ()
        self._last, self._is_near = new[-1][0], True
        return new


class Nudges:
    """The nudges of one database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ears: dict[str, set[Ear]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_deaf = False

    @property
    def patience(self) -> float:
        """For how long it is worth waiting for a nudge."""
        return POLL if self._is_deaf else LONGEST

    def add(self, ear: Ear) -> None:
        """Somebody follows a run."""
        with self._lock:
            self._ears.setdefault(ear.run_id, set()).add(ear)
            if self._thread is None and not self._is_deaf:
                self._thread = threading.Thread(
                    target=self._listen, name="multi_llm_chat nudges", daemon=True
                )
                self._thread.start()

    def remove(self, ear: Ear) -> None:
        """Somebody follows no more."""
        with self._lock:
            ears = self._ears.get(ear.run_id, set())
            ears.discard(ear)
            if not ears:
                self._ears.pop(ear.run_id, None)

    def nudge(self, told: Mapping[str, Numbered]) -> None:
        """These runs have told something, and what, where it is known; from any thread."""
        waking: dict[asyncio.AbstractEventLoop, list[tuple[Ear, Numbered]]] = defaultdict(list)
        with self._lock:
            for run_id, events in told.items():
                for ear in self._ears.get(run_id, ()):
                    assert ear.loop is not None
                    waking[ear.loop].append((ear, events))
        for loop, heard in waking.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_hear, heard)

    def _listen(self) -> None:
        try:
            listening = self._store.listen(CHANNEL)
            self._is_deaf = listening is None
        except ConnectionError:
            listening = None
        idle = 0
        while listening is not None:
            listening, idle = self._hear(listening, idle)
        with self._lock:
            self._thread = None

    def _hear(self, listening: Listening, idle: int) -> tuple[Listening | None, int]:
        """Pass on what is heard; None when the connection is lost or nobody has waited for long."""
        try:
            told = listening.wait(LONGEST)
        except ConnectionError:
            listening.close()
            return None, 0
        self.nudge(dict.fromkeys(told, ()))
        with self._lock:
            idle = 0 if self._ears else idle + 1
        if idle > _PATIENT:
            listening.close()
            return None, 0
        return listening, idle


def _hear(heard: Iterable[tuple[Ear, Numbered]]) -> None:
    for ear, events in heard:
        ear.hear(events)


_lock = threading.Lock()


def pause_for(store: Store, run_id: str) -> Ear:
    """How to wait between two looks at a run."""
    with _lock:
        nudges = store.beside.get("nudges")
        if nudges is None:
            nudges = store.beside["nudges"] = Nudges(store)
            store.beside["nudge"] = nudges.nudge
    return Ear(nudges, run_id)
