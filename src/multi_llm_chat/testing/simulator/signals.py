"""Waiting for what happens in another thread, without asking again and again.

Rules:
1. A signal is given once and stays given; giving it again changes nothing.
2. Threads and event loops may wait for it side by side; each is woken where it lives.
3. A blocking wait that takes too long raises ``TimeoutError``: a test fails instead of hanging.
"""

import asyncio
import threading

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
