"""See to it that every run is in somebody's hands, on many machines.

Rules:
1. It looks at what is, not at what happened: whatever was missed, the next look finds.
2. One process at a time looks; if it dies, another is next.
3. To queue a run again does no harm: only one worker can take it. A run of one epoch is queued once; and once more each
   minute that it is still nobody's, should the queue have lost it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from multi_llm_chat.durable.embedded import KEPT_MS
from multi_llm_chat.errors import StoreError
from multi_llm_chat.store import RunInfo, Store, prune_events
from multi_llm_chat.store.running import orphans, sign_of_life

#: For how long a run may wait for its first worker before it is queued again, in milliseconds.
GRACE_MS: Final = 10_000
#: Seconds between two looks.
PACE: Final = 1.0
#: How many looks lie between two times that old events are pruned.
_PRUNING: Final = 60

_LOGGER = logging.getLogger(__name__)


class Enqueue(Protocol):
    """Puts runs into the queue of the workers."""

    def enqueue(self, run_id: str, partition: str, epoch: int = 0, *, minute: int = 0) -> None:
        """Have the run worked on; once for each epoch, and each minute in which it is still nobody's."""
        ...

    def forget(self, run_id: str, epoch: int) -> None:
        """Drop what the queue still holds of earlier epochs."""
        ...


def partition_of(info: RunInfo) -> str:
    """Runs of one partition are worked on one after the other: those of a speaker in a conversation."""
    return f"{info.user}/{info.conversation}/{info.speaker}"


def tidy(store: Store, engine: Enqueue, *, grace_ms: int = GRACE_MS) -> int:
    """Queue every run again that nobody has; how many there were."""
    found = store.run(orphans, grace_ms)
    for info in found:
        engine.forget(info.id, info.epoch)
        minute = max(0, -(info.lease_left_ms or 0)) // 60_000
        engine.enqueue(info.id, partition_of(info), info.epoch, minute=minute)
    return len(found)


async def keep_tidy(
    store: Store,
    engine: Enqueue,
    worker: str,
    on_look: Callable[[int], object] = lambda _count: None,
) -> None:
    """Look again and again, until cancelled."""
    look = 0
    while True:
        try:
            await store.arun(sign_of_life, worker)
            on_look(await asyncio.to_thread(tidy, store, engine))
            if look % _PRUNING == 0:
                await store.arun(prune_events, KEPT_MS)
        except StoreError as error:
            _LOGGER.warning("runs could not be looked after: %s", error)
        look += 1
        await asyncio.sleep(PACE)
