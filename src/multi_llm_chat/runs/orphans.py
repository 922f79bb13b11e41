"""Queue runs that no process drives, on many machines.

Rules:
1. It looks at what is, not at what happened: whatever one look missed, the next look finds.
2. One process at a time looks; if it ends, another is next.
3. Queueing a run again does no harm: only one worker can take it. A run of one epoch is queued once; and once more each
   minute that nobody drives it, should the queue have lost it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from multi_llm_chat.errors import StoreError
from multi_llm_chat.runs.leases import RunQueue
from multi_llm_chat.store import RunInfo, Store, prune_events
from multi_llm_chat.store.run_admin import orphans, sign_of_life

#: For how long a run may wait for its first worker before it is queued again, in milliseconds.
GRACE_MS: Final = 10_000
#: How long the events of a run that has ended are kept for followers, in milliseconds.
KEPT_MS: Final = 600_000
#: Seconds between two looks.
PACE: Final = 1.0
#: How many looks lie between two times that old events are pruned.
_PRUNING: Final = 60

_LOGGER = logging.getLogger(__name__)


class OrphanQueue(RunQueue, Protocol):
    """A queue that can also forget what earlier owners left in it."""

    def forget(self, run_id: str, epoch: int) -> None:
        """Drop what the queue still holds of earlier epochs."""
        ...


def partition_of(info: RunInfo) -> str:
    """Runs of one partition are driven one after the other: those of a speaker in a conversation."""
    return f"{info.user}/{info.conversation}/{info.speaker}"


def queue_orphans(store: Store, queue: OrphanQueue, *, grace_ms: int = GRACE_MS) -> int:
    """Queue every run that nobody drives; how many there were."""
    found = store.run(orphans, grace_ms)
    for info in found:
        queue.forget(info.id, info.epoch)
        minute = max(0, -(info.lease_left_ms or 0)) // 60_000
        queue.enqueue(info.id, partition_of(info), info.epoch, minute=minute)
    return len(found)


async def watch_orphans(
    store: Store,
    queue: OrphanQueue,
    worker: str,
    on_look: Callable[[int], object] = lambda _count: None,
) -> None:
    """Look again and again, until cancelled."""
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
