"""Events on their way from a run to one reader.

Rules:
1. ``put`` never waits: a slow reader does not slow the run down. With ``in_step`` the run waits in ``ready`` until the
   reader has taken every event, so that a reader that cancels does so before the next step.
2. Events arrive in batches and are read one by one; no event costs a task switch of its own.
3. A ``Channel`` belongs to one event loop, that of its run and its reader. ``event_stream`` carries events to threads
   without a loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from multi_llm_chat.events import Event


class EventSink(Protocol):
    """Where a run puts its events."""

    @property
    def in_step(self) -> bool:
        """Whether the run waits for the reader after each event."""
        ...

    def put(self, events: Sequence[Event]) -> None:
        """Receive events."""
        ...

    async def ready(self) -> None:
        """Return when the run may take its next step."""
        ...


class Channel:
    """Events of one or more runs, for one reader."""

    def __init__(self, *, in_step: bool = False) -> None:
        self._events: list[Event] = []
        self._news = asyncio.Event()
        self._taken = asyncio.Event()
        self._taken.set()
        self.in_step = in_step
        self._closed = False

    def put(self, events: Sequence[Event]) -> None:
        """Receive events."""
        self._events.extend(events)
        self._news.set()

    async def ready(self) -> None:
        """Wait for the reader, if the run keeps step with it."""
        if self.in_step and not self._closed:
            self._taken.clear()
            await self._taken.wait()

    def close(self) -> None:
        """No more events follow."""
        self._closed = True
        self._taken.set()
        self._news.set()

    async def read(self) -> AsyncGenerator[Event]:
        """The events, until the channel is closed and empty."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._events:
                events, self._events = self._events, []
                for event in events:
                    yield event
            self._taken.set()
            if self._closed and not self._events:
                return
