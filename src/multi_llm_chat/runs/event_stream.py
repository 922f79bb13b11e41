"""A stream of events for ``for`` and ``async for``, with the one bridge between event loops and threads without one.

Rules:
1. With ``async for`` the producer runs as a task of the reader's loop. With ``for`` it runs in the process's background
   loop (``tools.background_loop``), and batches of events cross to the reader's thread through a queue.
2. Both readers get the same events, and then the error that the producer raised, if any.
3. If the reader leaves early, the stream calls ``stop``, or cancels the producer if there is no ``stop``, and waits until the producer has
   ended. A reader leaves at the end of the stream's ``with`` block, with ``close`` or ``aclose``.
"""

import asyncio
import concurrent.futures
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import aclosing
from functools import partial
from queue import SimpleQueue
from typing import Any, Self, TypeAlias

from multi_llm_chat.events import Event
from multi_llm_chat.runs.channel import Channel, EventSink
from multi_llm_chat.tools.background_loop import not_in_portal, submit

#: Produces events; it returns when there are no more.
Producer: TypeAlias = Callable[[EventSink], Coroutine[Any, Any, None]]


class EventStream:
    """The events of an action; the action starts when the first event is read."""

    def __init__(
        self, produce: Producer, stop: Callable[[], object] | None = None, *, in_step: bool = False
    ) -> None:
        """Prepare a stream.

        Args:
            produce: Performs the action and puts its events into a sink.
            stop: Ends the action without waiting; called from any thread. None cancels the producer.
            in_step: Whether the producer waits for the reader after each event.
        """
        self._produce = produce
        self._stop = stop
        self._in_step = in_step
        self._reader: Generator[Event] | None = None
        self._async_reader: AsyncGenerator[Event] | None = None

    def __iter__(self) -> Generator[Event]:
        self._reader = self._read_in_thread()
        return self._reader

    def __aiter__(self) -> AsyncGenerator[Event]:
        self._async_reader = self._read()
        return self._async_reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Stop the action, if it was read with ``for`` and has not ended."""
        if self._reader is not None:
            self._reader.close()

    async def aclose(self) -> None:
        """Stop the action, if it was read with ``async for`` and has not ended."""
        if self._async_reader is not None:
            await self._async_reader.aclose()

    async def _read(self) -> AsyncGenerator[Event]:
        async with aclosing(self.batches()) as batches:
            async for events in batches:
                for event in events:
                    yield event

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """The events in batches, as they arrive; an alternative to iterating over the stream itself."""
        channel = Channel(in_step=self._in_step)
        task = asyncio.ensure_future(self._produce(channel))
        task.add_done_callback(partial(_ended, channel))
        try:
            async for events in channel.read():
                yield events
            await task
        finally:
            if not task.done():
                (self._stop or task.cancel)()
                channel.close()
                await asyncio.wait({task})

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
                (self._stop or bridge.cancel)()
                bridge.leave()
                concurrent.futures.wait([future])


def _ended(channel: Channel, task: "asyncio.Task[None]") -> None:
    channel.close()
    if not task.cancelled():
        task.exception()  # retrieve it, so that asyncio does not log it if the reader has left


class _Bridge:
    """Batches of events from the background loop to the thread that reads them."""

    def __init__(self, *, in_step: bool) -> None:
        self.in_step = in_step
        self.batches: SimpleQueue[Sequence[Event] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._taken = asyncio.Event()
        self._has_left = False

    async def produce(self, produce: Producer) -> None:
        """Run the producer, in the background loop."""
        self._loop = asyncio.get_running_loop()
        if self._has_left:
            return
        self._task = asyncio.current_task()
        await produce(self)

    def put(self, events: Sequence[Event]) -> None:
        """Receive events, in the background loop."""
        self.batches.put(list(events))

    async def ready(self) -> None:
        """Wait for the reader, if the producer keeps step with it."""
        if self.in_step and not self._has_left:
            await self._taken.wait()
            self._taken.clear()

    def taken(self) -> None:
        """Note that the reader has taken a batch."""
        if self.in_step:
            self._wake()

    def leave(self) -> None:
        """Note that the reader has left: the producer no longer waits for it."""
        self._has_left = True
        self._wake()

    def cancel(self) -> None:
        """Cancel the producer, from the reader's thread."""
        self._has_left = True
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so the producer has ended
                self._loop.call_soon_threadsafe(self._task.cancel)

    def finish(self, _future: object) -> None:
        """Tell the reader that no more events follow."""
        self.batches.put(None)

    def _wake(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._taken.set)
