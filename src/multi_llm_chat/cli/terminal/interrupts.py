"""Ctrl-C while an answer comes.

Rules:
1. The first stops the answer, the second within the same answer leaves.
2. The handler that was there before is there again afterwards, whatever happened.
3. Signals reach the main thread only; elsewhere nothing is changed.
"""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


def _leave() -> None:
    raise KeyboardInterrupt


@contextmanager
def stopped_by_interrupt(
    stop: Callable[[], object], leave: Callable[[], object] = _leave
) -> Generator[None]:
    """Turn Ctrl-C into a call of ``stop``, and the next one into a call of ``leave``.

    Both are called between two instructions of the main thread, so they must be quick. An event loop is told by
    ``loop.call_soon_threadsafe(task.cancel)``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        again, interrupted = interrupted, True
        (leave if again else stop)()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
