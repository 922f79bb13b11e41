"""Ctrl-C while an answer arrives."""

import signal
import threading

import pytest

from multi_llm_chat.cli.terminal import stopped_by_interrupt

PATIENCE = 15


def _found() -> tuple[object, object, int]:
    """Return the state of the signal handling; reading the wakeup descriptor changes nothing."""
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGURG), descriptor


def _interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def _wait_for_ever() -> None:
    threading.Event().wait(PATIENCE)
    raise AssertionError("the wait is not ended")


def test_the_first_stops_the_second_leaves_and_the_handlers_come_back():
    before = _found()
    stopped = threading.Event()
    with stopped_by_interrupt(stopped.set):
        _interrupt()
        assert stopped.wait(PATIENCE)
        with pytest.raises(KeyboardInterrupt):
            _interrupted_and_waiting(1)
    assert _found() == before


def test_two_at_once_stop_and_leave_and_a_third_leaves_again():
    stops: list[str] = []
    with stopped_by_interrupt(lambda: stops.append("stop")):
        for count in (2, 1):
            with pytest.raises(KeyboardInterrupt):
                _interrupted_and_waiting(count)
    assert stops == ["stop"]


def _interrupted_and_waiting(count: int) -> None:
    for _ in range(count):
        _interrupt()
    _wait_for_ever()


def test_each_answer_counts_anew():
    stopped = [threading.Event(), threading.Event()]
    for each in stopped:
        with stopped_by_interrupt(each.set):
            _interrupt()
            assert each.wait(PATIENCE)


def test_a_signal_that_another_thread_gets_ends_the_wait_of_the_main_thread():
    """So does a signal that arrives just before the wait begins: Python records it, but does not act on it."""
    for _ in range(200):
        waiting, stopped = threading.Event(), threading.Event()

        def interrupt(waiting: threading.Event = waiting) -> None:
            waiting.wait()
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        with stopped_by_interrupt(stopped.set):
            thread = threading.Thread(target=interrupt)
            thread.start()
            waiting.set()
            assert stopped.wait(PATIENCE)
            thread.join()


def test_leaving_ends_a_wait_of_the_main_thread_too():
    def interrupt() -> None:
        for _ in range(2):
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def wait() -> None:
        threading.Thread(target=interrupt).start()
        _wait_for_ever()

    for _ in range(50):
        with stopped_by_interrupt(lambda: None), pytest.raises(KeyboardInterrupt):
            wait()


def test_outside_the_main_thread_nothing_is_changed():
    before = _found()
    inside: list[object] = []

    def run() -> None:
        with stopped_by_interrupt(lambda: None):
            inside.append((signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGURG)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert inside == [before[:2]]
