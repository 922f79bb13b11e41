"""Find orphaned runs (which no process drives), queue them for workers, and choose the run that a worker drives next.

Rules:
1. Each scan reads the current state of the store, so that the next scan finds runs that one scan missed.
2. One process at a time scans (a Postgres advisory lock); if it ends, another one takes over.
3. Queueing a run twice does no harm: only one worker can take it. A run is queued once for each epoch, and once more
   for each minute in which no worker drives it, in case the queue has lost it or a worker ended before it began the run.
4. Users get equal shares of the workers: the next run is one of the user with the fewest driven runs; among equals, of
   the user whom this worker has not served for longest. The runs of one user are driven in the order in which they began.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from multi_llm_chat.errors import StoreError
from multi_llm_chat.runs.leases import RunQueue
from multi_llm_chat.store import RunInfo, Store, prune_events
from multi_llm_chat.store.runs import WaitingRun, orphans, sign_of_life

#: Milliseconds for which a run may wait for its first worker before it is queued again.
GRACE_MS: Final = 10_000
#: Milliseconds for which the events of a run that has ended are kept for followers.
KEPT_MS: Final = 600_000
#: Seconds between two scans.
PACE: Final = 1.0
#: How many scans lie between two prunings of old events.
_PRUNING: Final = 60
#: How many recently served users a worker remembers.
_MOST_USERS: Final = 10_000

_LOGGER = logging.getLogger(__name__)


class FairShares:
    """Chooses the next run of a worker, by rule 4."""

    def __init__(self) -> None:
        #: The users, the last served at the end.
        self._served: dict[str, None] = {}

    def choose(self, waiting: Sequence[WaitingRun]) -> WaitingRun | None:
        """The run to drive next; None if no run waits."""
        if not waiting:
            return None
        fewest = min(each.driven for each in waiting)
        places = {user: place for place, user in enumerate(self._served)}
        chosen = min(
            (each for each in waiting if each.driven == fewest),
            key=lambda each: (places.get(each.user, -1), each.began_ms, each.id),
        )
        self._served.pop(chosen.user, None)
        self._served[chosen.user] = None
        if len(self._served) > _MOST_USERS:
            del self._served[next(iter(self._served))]
        return chosen


def queue_orphans(store: Store, queue: RunQueue, *, grace_ms: int = GRACE_MS) -> int:
    """Queue every run that no process drives; return how many there were."""
    found = store.run(orphans, grace_ms)
    for info in found:
        queue.enqueue(info.id, info.epoch, minute=_minute(info))
    return len(found)


def _minute(info: RunInfo) -> int:
    """For how many minutes no process has driven a run; 0 if it was not queued in this epoch."""
    if info.lease_left_ms is not None:
        return max(0, -info.lease_left_ms) // 60_000
    since_start = time.time_ns() // 1_000_000 - info.began_ms
    is_queued = info.epoch == 0  # by the process that began it
    return max(0, since_start) // 60_000 + is_queued


async def watch_orphans(
    store: Store,
    queue: RunQueue,
    worker: str,
    on_look: Callable[[int], object] = lambda _count: None,
) -> None:
    """Queue orphaned runs every ``PACE`` seconds, until cancelled."""
    look = 0
    while True:
        try:
            await store.arun(sign_of_life, worker)
            on_look(await asyncio.to_thread(queue_orphans, store, queue))
            if look % _PRUNING == 0:
                await store.arun(prune_events, KEPT_MS)
        except StoreError as error:
            _LOGGER.warning("orphaned runs could not be queued: %s", error)
        look += 1
        await asyncio.sleep(PACE)
