"""Follow a run, whichever process drives it: read its committed events.

Rules:
1. Events arrive in the order of their numbers, without a gap and none twice, from any number on.
2. The events end with the run. The last one is ``RunFinished`` or ``RunFailed``, also if the run's own events were pruned; its turns stay
   in the store.
3. A follower polls the store. ``Notifications`` shortens the wait: it passes on the rows that this process commits, and the notifications
   of Postgres.
4. After ``_LOOKS`` reads without new events a follower checks that a process drives the run, and raises ``StoreError`` if none does. If
   workers serve a queue, it keeps waiting: a worker will take the run.
5. While the store cannot be read, a follower waits, and emits one ``RunWaiting``, which has no number of its own. After ``patience``
   seconds it raises the ``StoreError``.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from multi_llm_chat.errors import StoreError
from multi_llm_chat.event_codec import read_row
from multi_llm_chat.events import (
    ErrorRecord,
    Event,
    RunFailed,
    RunFinished,
    RunWaiting,
    TurnFinished,
)
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.owner import is_dead
from multi_llm_chat.runs.records import STORE_PATIENCE, TRANSIENT
from multi_llm_chat.store import RunEvents, RunInfo, Store, get_turn, read_events, run_info
from multi_llm_chat.store.journal import MOST_EVENTS
from multi_llm_chat.store.transaction import read_json

Numbered: TypeAlias = tuple[int, Event]

#: How many reads without new events lie between two checks that the owner of the run is alive.
_LOOKS: Final = 20

#: Seconds between two retries of a read.
_PAUSE: Final = 0.5

_ENDED_EARLY: Final = ErrorRecord("RunLost", "The run was ended before its answer was complete.")


async def follow(
    host: RunHost,
    run_id: str,
    after: int = 0,
    *,
    store: Store | None = None,
    patience: float | None = STORE_PATIENCE,
) -> AsyncGenerator[Numbered]:
    """The numbered events of a run after a number, until the run ends.

    Args:
        host: The host of this process.
        run_id: The run.
        after: The number of the last event that the caller has.
        store: The store of the run's user; the host's own if not given.
        patience: Seconds to wait for a store that cannot be read; None waits for ever.

    Raises:
        StoreError: No process drives the run (reason ``interrupted``), or the store cannot be read.
    """
    own = store or host.store
    following = _Following(own, run_id, after)
    with host.notifications.subscribe(run_id) as subscription:
        began, shown = 0.0, ""
        while True:
            try:
                await following.begin()
                async for numbered in _events(host, following, subscription.next):
                    shown = ""
                    yield numbered
            except StoreError as error:
                if error.reason not in TRANSIENT:
                    raise
                began = began if shown else time.monotonic()
                if patience is not None and time.monotonic() - began > patience:
                    raise
                if shown != str(error):
                    shown = str(error)
                    yield following.after, following.marked(RunWaiting("store", shown))
                await asyncio.sleep(_PAUSE)
            else:
                return


async def _events(
    host: RunHost, following: "_Following", next_rows: Callable[[int], Any]
) -> AsyncGenerator[Numbered]:
    """The events from where the follower is to the end of the run."""
    own, run_id = following.store, following.run_id
    read = await own.arun(read_events, run_id, following.after)
    silent = 0
    while True:
        for number, event in following.new(read):
            resolved = await following.resolved(event)
            following.after = number
            yield number, resolved
            if isinstance(event, RunFinished | RunFailed):
                return
        if following.has_ended(read):
            yield following.after + 1, following.ending(await own.arun(run_info, run_id))
            return
        # A full page means that more rows may be there: read on at once, without waiting.
        rows = () if len(read.events) >= MOST_EVENTS else await next_rows(following.after)
        if rows:
            read, silent = RunEvents(rows, "running", None), 0
            continue
        read = await own.arun(read_events, run_id, following.after)
        silent = 0 if read.events else silent + 1
        if silent >= _LOOKS:
            silent = 0
            await following.check(host)


class _Following:
    """The position of a follower in its run."""

    def __init__(self, store: Store, run_id: str, after: int) -> None:
        self.after = after
        self.store = store
        self.run_id = run_id
        self.info: RunInfo | None = None

    async def begin(self) -> RunInfo:
        """Read the run, once."""
        if self.info is None:
            self.info = await self.store.arun(run_info, self.run_id)
        return self.info

    def marked(self, event: Event) -> Event:
        """The event with its run, and its speaker if ``begin`` has read it."""
        speaker = event.speaker if self.info is None else self.info.speaker
        return replace(event, run=self.run_id, speaker=speaker)

    def new(self, read: RunEvents) -> list[Numbered]:
        """The events of these rows."""
        events = [(number, read_row(read_json(payload))) for number, payload in read.events]
        known = [(number, event) for number, event in events if event is not None]
        if read.events and not known:
            self.after = read.events[-1][0]  # rows of a newer version, which this one cannot read
        return [(number, self.marked(event)) for number, event in known]

    def has_ended(self, read: RunEvents) -> bool:
        """Whether the run ended without a final event: its events were pruned, or an operator ended it."""
        return read.status != "running" and not read.events

    def ending(self, info: RunInfo) -> Event:
        """The final event of a run whose own one is not in the store."""
        event: Event = RunFinished("answered")
        if info.status == "cancelled":
            event = RunFinished("cancelled")
        elif info.status == "failed":
            event = RunFailed(info.error or _ENDED_EARLY)
        return replace(event, run=info.id, speaker=info.speaker)

    async def resolved(self, event: Event) -> Event:
        """The event with its turn, if it has one."""
        if not isinstance(event, TurnFinished):
            return event
        conversation = (await self.begin()).conversation
        placed = await self.store.arun(get_turn, conversation, event.turn.id or "")
        return replace(event, turn=placed.turn)

    async def check(self, host: RunHost) -> None:
        """Raise if no process drives the run and none will."""
        info = await self.store.arun(run_info, self.run_id)
        if info.status == "running" and host.queue is None and is_interrupted(info):
            raise StoreError(
                f"The answer of {info.speaker!r} was interrupted: the process that gave it has ended. "
                "Continue it with resume().",
                reason="interrupted",
            )


def is_interrupted(info: RunInfo) -> bool:
    """Whether the run has begun and no process drives it."""
    return (
        info.status == "running"
        and bool(info.owner)
        and (info.is_free or is_dead(info.owner or ""))
    )
