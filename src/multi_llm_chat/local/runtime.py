"""One model file, one engine, one worker: generations come one after the other.

Rules:
1. The model is loaded when it is first needed, and once.
2. Everything the engine does happens in the one thread of its runtime. What a generation says is
   handed over through a queue, so a slow listener holds up nobody.
3. A listener who leaves stops the generation: at the next token, or at the next piece of the prompt.
4. What goes wrong in the worker is raised to the listener, behind what was said before.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeAlias

from multi_llm_chat.events import Event
from multi_llm_chat.local.engine import Engine


class Stopped(Exception):
    """Ends a generation to which nobody listens."""


#: What comes out of the worker: events, at most one exception, and ``None`` at the end.
_Said: TypeAlias = Event | BaseException | None


class Voice:
    """How a generation speaks to its listener."""

    def __init__(self, put: Callable[[_Said], None]) -> None:
        self._put = put
        self._stopped = threading.Event()

    def say(self, event: Event) -> None:
        """Tell the listener; raises ``Stopped`` if there is none any more."""
        self.check()
        self._put(event)

    def check(self) -> None:
        """Raise ``Stopped`` if nobody listens any more."""
        if self._stopped.is_set():
            raise Stopped

    def stop(self) -> None:
        """Nobody listens from now on."""
        self._stopped.set()


#: A whole generation: it runs in the worker, uses the engine and speaks.
Work: TypeAlias = Callable[[Engine, Voice], None]


class Runtime:
    """A model file's engine and the one thread it is used in."""

    def __init__(self, load: Callable[[], Engine]) -> None:
        self._load = load
        self._engine: Engine | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-model")

    def listen(self, work: Work) -> Generator[Event]:
        """Run a generation and yield what it says."""
        said: SimpleQueue[_Said] = SimpleQueue()
        voice = Voice(said.put)
        running = self._start(work, voice, said.put)
        try:
            while (item := said.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            voice.stop()
            running.cancel()

    async def listen_async(self, work: Work) -> AsyncGenerator[Event]:
        """Run a generation and yield what it says, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        said: asyncio.Queue[_Said] = asyncio.Queue()

        def put(item: _Said) -> None:
            try:
                loop.call_soon_threadsafe(said.put_nowait, item)
            except RuntimeError:  # the loop is closed, and so is every listener in it
                raise Stopped from None

        voice = Voice(put)
        running = self._start(work, voice, put)
        try:
            while (item := await said.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            voice.stop()
            running.cancel()

    def _start(self, work: Work, voice: Voice, put: Callable[[_Said], None]) -> Future[None]:
        def run() -> None:
            with suppress(Stopped):
                try:
                    voice.check()
                    if self._engine is None:
                        self._engine = self._load()
                    work(self._engine, voice)
                except Stopped:
                    raise
                except BaseException as error:  # noqa: BLE001 - raised to the listener
                    put(error)
                put(None)

        return self._worker.submit(run)
