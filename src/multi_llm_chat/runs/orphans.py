"""Find runs that no process drives, and queue them for workers.

Rules:
1. Each look reads the present state of the store, so that the next look finds what one look missed.
2. One process at a time looks (a Postgres advisory lock); if it ends, another takes its place.
3. Queueing a run twice does no harm: only one worker can take it. A run is queued once for each epoch, and once more
   for each minute in which no worker drives it, in case the queue has lost it or a worker ended before it began the run.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from multi_llm_chat.errors import StoreError
from multi_llm_chat.runs.leases import RunQueue
from multi_llm_chat.store import RunInfo, Store, prune_events
from multi_llm_chat.store.runs import orphans, sign_of_life

#: Milliseconds for which a run may wait for its first worker before it is queued again.
GRACE_MS: Final = 10_000
#: Milliseconds for which the events of a run that has ended are kept for followers.
KEPT_MS: Final = 600_000
#: Seconds between two looks.
PACE: Final = 1.0
#: How many looks lie between two prunings of old events.
_PRUNING: Final = 60

_LOGGER = logging.getLogger(__name__)


class OrphanQueue(RunQueue, Protocol):
    """A queue that can also drop the entries of earlier owners."""

    def forget(self, run_id: str, epoch: int) -> None:
        """Drop the entries of earlier epochs."""
        ...


def partition_of(info: RunInfo) -> str:
    """The partition of a run: one speaker in one conversation. Its runs are driven one after the other."""
    return f"{info.user}/{info.conversation}/{info.speaker}"


def queue_orphans(store: Store, queue: OrphanQueue, *, grace_ms: int = GRACE_MS) -> int:
    """Queue every run that no process drives; how many there were."""
    found = store.run(orphans, grace_ms)
    for info in found:
        queue.forget(info.id, info.epoch)
        queue.enqueue(info.id, partition_of(info), info.epoch, minute=_minute(info))
    return len(found)


def _minute(info: RunInfo) -> int:
    """For how many minutes nobody has driven a run; 0 if it was not queued in this epoch."""
    if info.lease_left_ms is not None:
        return max(0, -info.lease_left_ms) // 60_000
    since_start = time.time_ns() // 1_000_000 - info.began_ms
    is_queued = info.epoch == 0  # by the process that began it
    return max(0, since_start) // 60_000 + is_queued


async def watch_orphans(
    store: Store,
    queue: OrphanQueue,
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
