"""Ctrl-C while an answer arrives.

Rules:
1. The first Ctrl-C stops the answer, the second one within the same answer leaves.
2. The previous signal handlers are always restored afterwards.
3. Only the main thread can handle signals; in another thread nothing is changed.
4. No Ctrl-C is lost while the main thread waits. Python only records a signal that arrives just before a wait begins, or that the system
   delivers to another thread, and would not handle it until the wait ends. So a thread receives every signal immediately. Unlike a handler,
   that thread may also take a lock that the main thread holds.
"""

import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: A signal that only interrupts the wait of the thread that gets it; it is ignored without a handler.
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
    """Reads the numbers of the signals as they arrive."""

    def __init__(self, noted: socket.socket, stop: Callable[[], object]) -> None:
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._listen, name="interrupts", daemon=True)
        self._main = threading.get_ident()
        self._noted, self._stop, self._leaving = noted, stop, False
        self.thread.start()

    def leave(self, _number: int, _frame: FrameType | None) -> None:
        """Handle ``_NUDGE`` in the main thread: raise ``KeyboardInterrupt`` if the user leaves."""
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
