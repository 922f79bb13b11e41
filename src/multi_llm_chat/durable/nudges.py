"""Hear that a run has told something, instead of asking all the time: from Postgres, or from this very process.

Rules:
1. One connection for a whole process, while anybody waits. A file tells nothing: what other processes write to it is
   found by looking.
2. A nudge says "look", never what happened; who misses one looks a moment later all the same.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from multi_llm_chat.durable.following import POLL
from multi_llm_chat.store import Store
from multi_llm_chat.store.journal import CHANNEL
from multi_llm_chat.store.lanes import Listening

#: Seconds after which who waits looks without a nudge.
LONGEST: Final = 0.5

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Event"]


class Nudges:
    """The nudges of one database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, set[_Waiter]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._deaf = False

    async def wait(self, run_id: str) -> None:
        """Wait for a nudge, or a moment."""
        waiter: _Waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiting.setdefault(run_id, set()).add(waiter)
            if self._thread is None and not self._deaf:
                self._thread = threading.Thread(
                    target=self._listen, name="multi_llm_chat nudges", daemon=True
                )
                self._thread.start()
        try:
            async with asyncio.timeout(POLL if self._deaf else LONGEST):
                await waiter[1].wait()
        except TimeoutError:
            return
        finally:
            self._forget(run_id, waiter)

    def nudge(self, runs: Iterable[str]) -> None:
        """These runs have told something; from any thread."""
        with self._lock:
            found = {waiter for run_id in runs for waiter in self._waiting.get(run_id, ())}
        for loop, event in found:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def _forget(self, run_id: str, waiter: _Waiter) -> None:
        with self._lock:
            waiters = self._waiting.get(run_id, set())
            waiters.discard(waiter)
            if not waiters:
                self._waiting.pop(run_id, None)

    def _listen(self) -> None:
        try:
            listening = self._store.listen(CHANNEL)
            self._deaf = listening is None
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
        self.nudge(told)
        with self._lock:
            idle = 0 if self._waiting else idle + 1
        if idle > _PATIENT:
            listening.close()
            return None, 0
        return listening, idle


#: How many silent waits the connection outlives when nobody waits.
_PATIENT: Final = 4
_lock = threading.Lock()


def pause_for(store: Store, run_id: str) -> Callable[[], Awaitable[None]]:
    """How to wait between two looks at a run."""
    with _lock:
        nudges = store.beside.get("nudges")
        if nudges is None:
            nudges = store.beside["nudges"] = Nudges(store)
            store.beside["nudge"] = nudges.nudge
    return lambda: nudges.wait(run_id)
