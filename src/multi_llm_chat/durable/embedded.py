"""One machine: who goes on with what was interrupted, and when.

Rules:
1. Of several processes with the same file one goes on with interrupted runs: it holds the lock beside the file. The system
   takes the lock from a process that dies, however it dies, and whatever a tool of it has forked.
2. Every process runs what it was asked itself; its lease keeps others away.
3. A run is free when its lease has run out, or when its owner was a process of this machine that is no more.
4. One that waits, such as for the user, keeps nobody from going on with others.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from multi_llm_chat.durable.driving import Revive, drive
from multi_llm_chat.durable.holding import Holder, is_dead
from multi_llm_chat.errors import StoreError
from multi_llm_chat.store import RunInfo, Store, list_runs, prune_events
from multi_llm_chat.store.values import RunStatus

try:
    import fcntl
except ImportError:  # Windows: leases alone keep two processes apart
    fcntl = None

#: How long the events of a run that has ended are kept for those who still read them, in milliseconds.
KEPT_MS: Final = 600_000


class RunnerLock:
    """The lock beside a file of conversations."""

    def __init__(self, file: Path) -> None:
        self._path = file.with_name(f"{file.name}.runner")
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take it, if nobody has it."""
        if self._descriptor is not None:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return False
        self._descriptor = descriptor
        _held.add(self)
        return True

    def release(self) -> None:
        """Give it back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


#: The locks of this process. The system lets a forked child share them, and with it the time for which they are held.
_held: set[RunnerLock] = set()


def _leave_to_parent() -> None:
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


async def resume_all(
    store: Store,
    holder: Holder,
    revive: Revive,
    *,
    on_found: Callable[[RunInfo], object] = lambda _info: None,
) -> dict[str, RunStatus | None]:
    """Go on with every run that was interrupted, until none is left that nobody has; how each ended."""
    ended: dict[str, RunStatus | None] = {}
    driving: dict[asyncio.Task[RunStatus | None], str] = {}
    tried: set[tuple[str, int]] = set()
    lock = RunnerLock(store.file) if store.file is not None else None
    if lock is not None and not lock.take():
        return ended
    try:
        await store.arun(prune_events, KEPT_MS)
        while True:
            free, waiting = _sorted(await store.arun(list_runs), holder)
            for info in free:
                if (info.id, info.epoch) not in tried:
                    tried.add((info.id, info.epoch))
                    on_found(info)
                    task = asyncio.create_task(
                        drive(store, holder, info.id, revive, dead=info.owner)
                    )
                    driving[task] = info.id
            if not driving and not waiting:
                return ended
            done = await _some(driving, holder.lease_ms / 4000)
            ended |= {driving.pop(task): task.result() for task in done}
    except StoreError as error:
        if error.reason == "closed":
            return ended
        raise
    finally:
        for task in driving:
            task.cancel()
        await asyncio.gather(*driving, return_exceptions=True)
        if lock is not None:
            lock.release()


async def _some(
    driving: Iterable["asyncio.Task[RunStatus | None]"], seconds: float
) -> "set[asyncio.Task[RunStatus | None]]":
    """Those that have ended, as soon as one has, or after so many seconds."""
    tasks = set(driving)
    if not tasks:
        await asyncio.sleep(seconds)
        return tasks
    return (await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))[0]


def _sorted(runs: tuple[RunInfo, ...], holder: Holder) -> tuple[list[RunInfo], list[RunInfo]]:
    """The runs that are free, and those that will be if their owners do not live."""
    free: list[RunInfo] = []
    waiting: list[RunInfo] = []
    for info in runs:
        owner = info.owner or ""
        if owner.startswith(holder.owner):
            continue
        if info.is_free or is_dead(owner):
            free.append(info)
        elif not is_here(owner):
            waiting.append(info)
    return free, waiting


def is_here(owner: str) -> bool:
    """Whether the owner is a process of this machine, which lives."""
    return owner.partition(":")[0] == Holder.host() and not is_dead(owner)
