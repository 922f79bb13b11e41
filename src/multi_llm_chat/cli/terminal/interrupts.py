"""Ctrl-C while an answer comes.

Rules:
1. The first stops the answer, the second within the same answer leaves.
2. The handlers that were there before are there again afterwards, whatever happened.
3. Signals reach the main thread only; in another thread nothing is changed.
4. None is lost, whatever the main thread waits for: Python only notes a signal that comes just before a wait begins, or
   that the system gives to another thread, and would not act on it until the wait is over. So a thread receives every
   signal the moment it comes. It also may do what a handler must not, such as take a lock that the main thread holds.
"""

import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: Ends any wait of the thread that gets it, means nothing, and is ignored where it has no handler.
_NUDGE: Final = signal.SIGURG
_SECONDS_BETWEEN_NUDGES: Final = 0.05


@contextmanager
def stopped_by_interrupt(stop: Callable[[], object]) -> Generator[None]:
    """Turn Ctrl-C into a call of ``stop``, from another thread, and every further one into ``KeyboardInterrupt``."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    noted, note = socket.socketpair()
    note.setblocking(False)
    listener = _Listener(noted, stop)
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda _number, _frame: None),
        _NUDGE: signal.signal(_NUDGE, listener.leave),
    }
    wakeup_before = signal.set_wakeup_fd(note.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        listener.over.set()
        signal.set_wakeup_fd(wakeup_before)
        note.close()
        listener.thread.join()
        noted.close()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Listener:
    """Reads the numbers of the signals as they come."""

    def __init__(self, noted: socket.socket, stop: Callable[[], object]) -> None:
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._listen, name="interrupts", daemon=True)
        self._main = threading.get_ident()
        self._noted, self._stop, self._leaving = noted, stop, False
        self.thread.start()

    def leave(self, _number: int, _frame: FrameType | None) -> None:
        """Be nudged, as the main thread."""
        if self._leaving:
            self._leaving = False
            raise KeyboardInterrupt

    def _listen(self) -> None:
        act = self._stop
        while numbers := self._noted.recv(64):
            for _ in range(numbers.count(signal.SIGINT)):
                act()
                act = self._nudge

    def _nudge(self) -> None:
        self._leaving = True
        while self._leaving and not self.over.is_set():
            signal.pthread_kill(self._main, _NUDGE)
            self.over.wait(_SECONDS_BETWEEN_NUDGES)
