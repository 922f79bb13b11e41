"""Ctrl-C while an answer comes."""

import signal
import threading

import pytest

from multi_llm_chat.cli.terminal import stopped_by_interrupt


def test_the_first_stops_the_second_leaves_and_the_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    calls: list[str] = []
    with stopped_by_interrupt(lambda: calls.append("stop")):
        signal.raise_signal(signal.SIGINT)
        assert calls == ["stop"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert calls == ["stop"]
    assert signal.getsignal(signal.SIGINT) is before


def test_each_answer_counts_anew():
    calls: list[str] = []
    for _ in range(2):
        with stopped_by_interrupt(lambda: calls.append("stop"), lambda: calls.append("leave")):
            signal.raise_signal(signal.SIGINT)
    assert calls == ["stop", "stop"]


def test_outside_the_main_thread_nothing_is_changed():
    before = signal.getsignal(signal.SIGINT)
    inside: list[object] = []

    def run() -> None:
        with stopped_by_interrupt(lambda: None):
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert inside == [before]
