"""Resume runs whose process has ended.

Rules:
1. Any process may call ``drive_run`` for any run at any time: the process that takes the run drives it, in the others the call returns
   None.
2. The result depends on the journal and on what ``resolve`` finds: no process keeps state for another.
3. A run that was taken ``MOST_ATTEMPTS`` times without any progress fails. A run that cannot be resumed fails with an
   error that says why.
4. Of several processes with the same SQLite file, one resumes interrupted runs: it holds the lock on ``FILE.runner``,
   which the operating system releases however the process ends.
5. A run is free if its lease has run out, or if its owner was a process of this machine that has ended. A run that waits, for instance for
   a person, does not delay the others.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias

from multi_llm_chat.errors import MultiLLMChatError, RunLost, StoreError, UsageError
from multi_llm_chat.runs._replay import read_replay
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.driver import RunDriver
from multi_llm_chat.runs.journal import Journal
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.orphans import KEPT_MS
from multi_llm_chat.runs.owner import is_alive_here, is_dead
from multi_llm_chat.runs.rates import rate_gate
from multi_llm_chat.runs.records import error_record
from multi_llm_chat.runs.spec import VERSION, RunSpec
from multi_llm_chat.store import (
    RunInfo,
    Store,
    Taken,
    finish_run,
    list_runs,
    prune_events,
    release_run,
    run_info,
    take_run,
)
from multi_llm_chat.store.records import RunStatus

try:
    import fcntl
except ImportError:  # Windows: leases alone keep two processes apart
    fcntl = None

#: How often a run may be taken without any progress.
MOST_ATTEMPTS: Final = 5
#: Seconds that a worker waits before it asks an unreachable store again.
PATIENCE: Final = 1.0

#: Finds the provider, the history and the tools of a run; raises ``UsageError`` if they do not exist any more.
Resolve: TypeAlias = Callable[[Taken, Store], Awaitable[RunSpec]]


class _Discard:
    """A sink for runs that are only followed through the store."""

    in_step = False

    def put(self, events: object) -> None:
        """Drop the events."""

    async def ready(self) -> None:
        """Never wait."""


async def drive_run(
    host: RunHost,
    run_id: str,
    resolve: Resolve,
    *,
    dead: str | None = None,
    sink: EventSink | None = None,
    store_patience: float | None = None,
    on_driver: Callable[[RunDriver], object] = lambda _driver: None,
) -> RunStatus | None:
    """Take a run and drive it to its end; return how it ended, or None if another process owns it.

    Args:
        host: The host of this process.
        run_id: The run.
        resolve: Finds its provider, history and tools.
        dead: An owner that is known to have ended: its lease does not count.
        sink: Receives its events, in addition to the journal.
        store_patience: Seconds to wait for a store that refuses writes; None waits without limit.
        on_driver: Gets the driver before it starts.

    If this call is cancelled, it releases the run, so that another process can resume it.
    """
    taken = await host.store.arun(take_run, run_id, host.owner, host.lease_ms, dead=dead)
    if taken is None:
        return None
    return await drive_taken(
        host, taken, resolve, sink=sink, store_patience=store_patience, on_driver=on_driver
    )


async def drive_taken(
    host: RunHost,
    taken: Taken,
    resolve: Resolve,
    *,
    sink: EventSink | None = None,
    store_patience: float | None = None,
    on_driver: Callable[[RunDriver], object] = lambda _driver: None,
) -> RunStatus | None:
    """Drive a run that this process has taken; see ``drive_run``."""
    own = host.store.as_user(taken.user)
    try:
        _check(taken)
        spec = await resolve(taken, own)
        replay = await own.arun(read_replay, taken.conversation, taken.fence.run_id)
    except StoreError:
        raise  # a failure of the database, not of the run: the run stays free for another process
    except MultiLLMChatError as error:
        status: RunStatus = "cancelled" if isinstance(error, _StoppedError) else "failed"
        record = None if status == "cancelled" else error_record(error)
        await own.arun(finish_run, taken.fence, status, error=record)
        return status
    journal = Journal(spec, own, host, fence=taken.fence, sequence=taken.sequence, replay=replay)
    gate = rate_gate(own, spec.provider, spec.rates, patience=PATIENCE)
    driver = RunDriver(
        spec, sink or _Discard(), journal=journal, gate=gate, store_patience=store_patience
    )
    on_driver(driver)
    return await _drive(driver, journal, taken, own)


async def _drive(
    driver: RunDriver, journal: Journal, taken: Taken, store: Store
) -> RunStatus | None:
    journal.bind(stop=driver.cancel, lose=driver.lose)
    try:
        await driver.drive()
    except RunLost:
        return None
    except asyncio.CancelledError:
        await store.arun(release_run, taken.fence)
        raise
    return (await store.arun(run_info, taken.fence.run_id)).status


class _StoppedError(UsageError):
    """A stop was requested before the run was taken."""


def _check(taken: Taken) -> None:
    if taken.stopped:
        raise _StoppedError("The run was stopped")
    if taken.attempts > MOST_ATTEMPTS:
        raise UsageError(
            f"The answer was given up: {MOST_ATTEMPTS} times in a row it was interrupted at the same place. "
            "Ask again, or try once more: mlc runs resume"
        )
    version = taken.spec.get("version")
    if version != VERSION:
        by = "an older" if version is None else "another"
        raise UsageError(
            f"The answer was interrupted and cannot be resumed: {by} version of this program began it. Ask again."
        )


class RunnerLock:
    """The lock on ``FILE.runner``, next to a file of conversations."""

    def __init__(self, file: Path) -> None:
        self._path = file.with_name(f"{file.name}.runner")
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the lock; return whether this process has it."""
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
        """Release the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            _held.discard(self)


#: The locks of this process. A forked child releases its copies: it would hold the locks as long as it runs.
_held: set[RunnerLock] = set()


def _leave_to_parent() -> None:
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


async def resume_runs(
    host: RunHost,
    resolve: Resolve,
    *,
    wanted: Callable[[RunInfo], bool] = lambda _info: True,
    on_found: Callable[[RunInfo], object] = lambda _info: None,
    sink: EventSink | None = None,
    store_patience: float | None = None,
    on_driver: Callable[[RunDriver], object] = lambda _driver: None,
    wait: float | None = None,
) -> dict[str, RunStatus | None]:
    """Resume interrupted runs until every run has an owner or has ended; return how each resumed run ended.

    Args:
        host: The host of this process.
        resolve: Finds a run's provider, history and tools.
        wanted: Which runs to resume.
        on_found: Gets each run that is resumed.
        sink: Receives the events, in addition to the journal.
        store_patience: Seconds to wait for a store that refuses writes; None waits without limit.
        on_driver: Gets each driver before it starts.
        wait: Seconds to wait for the leases of owners on other machines; None waits until they end.
    """
    deadline = None if wait is None else time.monotonic() + wait

    def drive(info: RunInfo) -> Coroutine[Any, Any, RunStatus | None]:
        return drive_run(
            host,
            info.id,
            resolve,
            dead=info.owner,
            sink=sink,
            store_patience=store_patience,
            on_driver=on_driver,
        )

    ended: dict[str, RunStatus | None] = {}
    driving: dict[asyncio.Task[RunStatus | None], str] = {}
    tried: set[tuple[str, int]] = set()
    store = host.store
    lock = RunnerLock(store.file) if store.file is not None else None
    if lock is not None and not lock.take():
        return ended
    try:
        await store.arun(prune_events, KEPT_MS)
        while True:
            listed = [info for info in await store.arun(list_runs) if wanted(info)]
            free, waiting = _sorted(listed, host.owner)
            for info in [each for each in free if (each.id, each.epoch) not in tried]:
                tried.add((info.id, info.epoch))
                on_found(info)
                driving[asyncio.create_task(drive(info))] = info.id
            is_late = deadline is not None and time.monotonic() > deadline
            if not driving and (is_late or not waiting):
                return ended
            done = await _some(driving, host.lease_ms / 4000)
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
    """The tasks that have ended; returns as soon as one has, or after this many seconds."""
    tasks = set(driving)
    if not tasks:
        await asyncio.sleep(seconds)
        return tasks
    return (await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))[0]


def _sorted(runs: Iterable[RunInfo], us: str) -> tuple[list[RunInfo], list[RunInfo]]:
    """The runs that are free, and those of other machines, which become free if their leases run out."""
    free: list[RunInfo] = []
    waiting: list[RunInfo] = []
    for info in runs:
        owner = info.owner or ""
        if owner.startswith(us):
            continue
        if info.is_free or is_dead(owner):
            free.append(info)
        elif not is_alive_here(owner):
            waiting.append(info)
    return free, waiting
