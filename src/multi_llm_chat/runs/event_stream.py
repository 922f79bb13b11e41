"""A stream of events, to be read with ``for`` or ``async for``; and the one bridge for code without ``async``.

Rules:
1. What produces the events runs in a task of the reader's loop. For a reader without a loop it runs in the process's
   background loop (``tools.background_loop``), and batches of events cross the threads.
2. Both readers get the same events, and then whatever error the producer raised.
3. Leaving the stream early calls ``stop`` and waits for the producer's end.
"""

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from queue import SimpleQueue
from typing import Any, TypeAlias

from multi_llm_chat.events import Event
from multi_llm_chat.runs.channel import Channel, EventSink
from multi_llm_chat.tools.background_loop import not_in_portal, submit

#: Produces events; it returns when there are no more.
Producer: TypeAlias = Callable[[EventSink], Coroutine[Any, Any, None]]


class EventStream:
    """Events while they happen; they begin to happen when they are first read."""

    def __init__(
        self, produce: Producer, stop: Callable[[], object], *, in_step: bool = False
    ) -> None:
        """Prepare a stream.

        Args:
            produce: Makes the events.
            stop: Ends what makes them; called in any thread, and it does not wait.
            in_step: Whether the producer waits for the reader after each event.
        """
        self._produce = produce
        self._stop = stop
        self._in_step = in_step

    def __iter__(self) -> Generator[Event]:
        return self._read_in_thread()

    def __aiter__(self) -> AsyncGenerator[Event]:
        return self._read()

    async def _read(self) -> AsyncGenerator[Event]:
        channel = Channel(in_step=self._in_step)
        task = asyncio.ensure_future(self._produce(channel))
        task.add_done_callback(lambda _: channel.close())
        try:
            async for event in channel.read():
                yield event
            await task
        finally:
            if not task.done():
                self._stop()
                channel.close()
                await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # seen: a reader who leaves early is not interested

    def _read_in_thread(self) -> Generator[Event]:
        not_in_portal()
        bridge = _Bridge(in_step=self._in_step)
        future = submit(bridge.produce(self._produce))
        future.add_done_callback(bridge.finish)
        try:
            while (events := bridge.batches.get()) is not None:
                yield from events
                bridge.taken()
            future.result()
        finally:
            if not future.done():
                self._stop()
                bridge.leave()
                concurrent.futures.wait([future])


class _Bridge:
    """Batches of events from the background loop to the thread that reads them."""

    def __init__(self, *, in_step: bool) -> None:
        self.in_step = in_step
        self.batches: SimpleQueue[Sequence[Event] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._taken = asyncio.Event()
        self._has_left = False

    async def produce(self, produce: Producer) -> None:
        """Run the producer, in the background loop."""
        self._loop = asyncio.get_running_loop()
        await produce(self)

    def put(self, events: Sequence[Event]) -> None:
        """Take events, in the background loop."""
        self.batches.put(list(events))

    async def ready(self) -> None:
        """Wait for the reader, if the producer goes in step with it."""
        if self.in_step and not self._has_left:
            await self._taken.wait()
            self._taken.clear()

    def taken(self) -> None:
        """The reader has taken a batch."""
        if self.in_step:
            self._wake()

    def leave(self) -> None:
        """The reader is gone: the producer waits for nobody."""
        self._has_left = True
        self._wake()

    def finish(self, _future: object) -> None:
        """No more events follow."""
        self.batches.put(None)

    def _wake(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._taken.set)
