"""How a reply is to be sent, step by step.

Rules:
1. A plan is data: nothing is sent or awaited before the connection plays it.
2. Body bytes are whole frames: one server-sent event each, or the whole of a JSON body.
3. A fault is a function from steps to steps; frames are counted from the start of the body.
4. ``length`` is what Content-Length promises even if a fault cuts the body; without it the body
   is chunked, one chunk for each frame.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

# Waiting for what happens in another thread, without asking again and again. A signal is given once and stays given.
# Threads and event loops may wait for it side by side; a blocking wait that takes too long raises ``TimeoutError``.

#: How long a blocking wait lasts by default; only a broken test ever waits so long.
PATIENCE = 30.0


class Signal:
    """Something that happens at most once."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def give(self) -> None:
        """Wake every waiting thread and task, now and later."""
        with self._lock:
            self._event.set()
            waiters, self._waiters = self._waiters, []
        for loop, future in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, future)

    @property
    def given(self) -> bool:
        """Whether it has happened."""
        return self._event.is_set()

    def wait(self, timeout: float = PATIENCE) -> None:
        """Block this thread until it has happened.

        Raises:
            TimeoutError: It did not happen in time.
        """
        if not self._event.wait(timeout):
            raise TimeoutError(f"nothing happened within {timeout} seconds")

    async def arrived(self) -> None:
        """Wait in this event loop until it has happened."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._event.is_set():
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, future))
        await future


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


# Plans.


class Pause(Struct, frozen=True):
    """Send nothing for some seconds."""

    seconds: float


class Await(Struct, frozen=True):
    """Signal that this point is reached, then wait for the release."""

    reached: Signal
    opened: Signal


class Break(Struct, frozen=True):
    """Close the connection; with ``reset`` as a crashed host does (RST), otherwise as if it were over."""

    reset: bool = False


class Stall(Struct, frozen=True):
    """Send nothing more, and keep the connection open until the client gives up."""


Step: TypeAlias = bytes | Pause | Await | Break | Stall


class Plan(Struct, frozen=True):
    """One reply: its head, and the steps of its body."""

    status: int
    headers: dict[str, str]
    steps: Sequence[Step]
    length: int | None = None

    @property
    def body(self) -> bytes:
        """All the bytes of the body, however they are sent."""
        return b"".join(self.frames)

    @property
    def frames(self) -> list[bytes]:
        """The frames of the body."""
        return [step for step in self.steps if isinstance(step, bytes)]


def at_frame(steps: Sequence[Step], count: int, *inserted: Step) -> list[Step]:
    """Insert steps after ``count`` frames; at the end where there are not so many."""
    position = _position(steps, count)
    return [*steps[:position], *inserted, *steps[position:]]


def until_frame(steps: Sequence[Step], count: int) -> list[Step]:
    """Only the first ``count`` frames, with what happens until the next one would come."""
    position = _position(steps, count + 1)
    ends_with_frame = position > 0 and count < _count(steps)
    return list(steps[: position - ends_with_frame])


def until_byte(steps: Sequence[Step], count: int) -> list[Step]:
    """Only the first ``count`` bytes, the last frame cut where it must be."""
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, bytes):
            if len(step) > count:
                return [*kept, step[:count]] if count > 0 else kept
            count -= len(step)
        kept.append(step)
    return kept


def between_frames(steps: Sequence[Step], make: Callable[[int], Step | None]) -> list[Step]:
    """Put before each frame what ``make`` gives for its number, if anything."""
    changed: list[Step] = []
    number = 0
    for step in steps:
        if isinstance(step, bytes):
            inserted = make(number)
            if inserted is not None:
                changed.append(inserted)
            number += 1
        changed.append(step)
    return changed


def _count(steps: Sequence[Step]) -> int:
    return sum(isinstance(step, bytes) for step in steps)


def _position(steps: Sequence[Step], count: int) -> int:
    if count <= 0:
        return 0
    seen = 0
    for position, step in enumerate(steps):
        seen += isinstance(step, bytes)
        if seen == count:
            return position + 1
    return len(steps)
