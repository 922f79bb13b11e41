"""Events on their way from a run to one reader.

Rules:
1. ``put`` never waits: a slow reader does not slow the run down. With ``in_step`` the run waits in ``ready`` until the reader has taken
   every event, so that the reader can cancel before the next step.
2. Events arrive and are read in batches; no event costs a task switch of its own.
3. Deltas that arrived together may be merged: a reader gets the same text in fewer events.
4. A ``Channel`` belongs to one event loop, that of its run and its reader. ``event_stream`` carries events to threads
   without a loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from itertools import groupby
from typing import Protocol

from msgspec.structs import replace

from multi_llm_chat.events import Event, TextDelta, ThinkingDelta, ToolCallDelta


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

    async def read(self) -> AsyncGenerator[list[Event]]:
        """The events in the batches in which they arrive, until the channel is closed and empty."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._events:
                events, self._events = self._events, []
                yield events
            self._taken.set()
            if self._closed and not self._events:
                return


def merge_deltas(events: Iterable[Event]) -> list[Event]:
    """The events of one run; deltas of one text that follow each other are one event."""
    merged: list[Event] = []
    for kind, group in groupby(events, _kind_of_delta):
        same = list(group)
        if kind is None or len(same) == 1:
            merged += same
        else:
            merged.append(_merged(same))
    return merged


def _merged(same: Sequence[Event]) -> Event:
    """One delta with the text of several."""
    first = same[0]
    if isinstance(first, ToolCallDelta):
        pieces = [each.arguments for each in same if isinstance(each, ToolCallDelta)]
        return replace(first, arguments="".join(pieces))
    pieces = [each.text for each in same if isinstance(each, (TextDelta, ThinkingDelta))]
    return replace(first, text="".join(pieces))


def _kind_of_delta(event: Event) -> type[Event] | int | None:
    """The key that deltas of one text share; None for an event that is not a delta."""
    kind = type(event)
    if kind is TextDelta or kind is ThinkingDelta:
        return kind
    return event.index if isinstance(event, ToolCallDelta) else None
