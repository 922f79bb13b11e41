"""Answers as text: for files, pipes, and terminals that can do no more.

Rules:
1. The words of the answers go to the output, everything else to the notes; there is no escape code in either.
2. Words are written as they come, in the order in which the speakers were asked: the first at once, the
   others when the ones before are over.
3. An answer ends with a line feed, whether the model wrote one or not.
"""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Self, TextIO

from msgspec import Struct

from multi_llm_chat.cli.terminal.safety import harmless, one_line
from multi_llm_chat.cli.terminal.words import (
    RESUMED,
    Summary,
    arguments_text,
    error_lines,
    finish_text,
    result_lines,
    seconds_text,
    stop_text,
    usage_text,
)
from multi_llm_chat.events import (
    Event,
    Finish,
    HistoryCompressed,
    RunWaiting,
    TextDelta,
    ToolFinished,
    Usage,
)


class _Note(Struct, frozen=True):
    """Something told beside an answer; with an ``is_last`` one it goes no further."""

    lines: tuple[str, ...]
    is_last: bool = False


_Told = Event | Summary | _Note


class PlainBoard:
    """Writes answers; has the methods of ``AnswerBoard``."""

    def __init__(self, output: TextIO, notes: TextIO, *, headers: bool = True) -> None:
        """Nothing is written yet.

        Args:
            output: For the words of the answers.
            notes: For everything else.
            headers: Whether the output tells who speaks.
        """
        self._output = output
        self._notes = notes
        self._headers = headers
        self._order: list[_Answer] = []
        self._answers: dict[str, _Answer] = {}
        self._lock = threading.RLock()

    def begin(self, speaker: str, model: str = "") -> None:
        """The speaker was asked."""
        with self._lock:
            answer = self._answers[speaker] = _Answer(speaker, model)
            self._order.append(answer)

    def event(self, speaker: str, event: Event) -> None:
        """The speaker, or a tool it called, tells something."""
        self._take(speaker, event)

    def end(self, speaker: str, summary: Summary | None = None) -> None:
        """The speaker has answered."""
        self._take(speaker, summary or Summary())

    def resume(self, speaker: str) -> None:
        """The speaker's answer was interrupted and begins anew."""
        self._take(speaker, _Note((RESUMED,)))

    def fail(self, speaker: str, error: BaseException, *, once: bool = False) -> None:
        """The speaker cannot answer."""
        self._take(speaker, _Note(tuple(error_lines(error, once=once)), is_last=True))

    def notice(self, text: str) -> None:
        """Tell something that is no speaker's."""
        with self._lock:
            self._note(harmless(text))

    @contextmanager
    def suspended(self) -> Generator[None]:
        """The terminal is the caller's: one at a time, and nothing is written meanwhile."""
        with self._lock:
            yield

    def close(self) -> None:
        """Write all that is left."""
        with self._lock:
            for answer in [*self._order]:
                if not answer.over:
                    self._take(answer.speaker, Summary(stop="cancelled"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, speaker: str, told: _Told) -> None:
        with self._lock:
            answer = self._answers[speaker]
            answer.waiting.append(told)
            ends = isinstance(told, Summary) or (isinstance(told, _Note) and told.is_last)
            answer.over = answer.over or ends
            while self._order:
                first = self._order[0]
                self._write(first)
                if not first.over:
                    break
                del self._order[0]

    def _write(self, answer: "_Answer") -> None:
        if self._headers and not answer.named:
            answer.named = True
            self._say(f"{one_line(answer.speaker)}:\n")
        told, answer.waiting = answer.waiting, []
        for item in told:
            self._tell(answer, item)

    def _tell(self, answer: "_Answer", told: _Told) -> None:
        match told:
            case TextDelta():
                text = harmless(told.text)
                self._say(text)
                answer.open_line = not text.endswith("\n") if text else answer.open_line
            case ToolFinished():
                self._tool(answer, told)
            case Usage():
                answer.usage += told
            case Finish():
                self._note(finish_text(told.reason), answer)
            case HistoryCompressed():
                self._note(told.note.text, answer)
            case RunWaiting():
                self._note(told.text, answer)
            case Summary():
                self._end(answer, told)
            case _Note():
                for line in told.lines:
                    self._note(f"{one_line(answer.speaker)}: {line}", answer)
            case _:
                pass  # nothing to be said about it in text

    def _tool(self, answer: "_Answer", told: ToolFinished) -> None:
        mark = "failed" if told.result.is_error else "ran"
        took = seconds_text(told.seconds)
        name = one_line(told.call.name)
        self._note(f"({mark} {name} {arguments_text(told.call)}, {took})", answer)
        for line in result_lines(told.result):
            self._note(f"    {line}", answer)

    def _end(self, answer: "_Answer", summary: Summary) -> None:
        if summary.stop not in {"length", "refusal"}:
            self._note(stop_text(summary.stop), answer)
        seconds = time.monotonic() - answer.begun
        words = usage_text(summary.usage or answer.usage, summary.cost, seconds)
        self._note(f"{one_line(answer.speaker)}: {words}", answer)

    def _say(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()

    def _note(self, text: str, answer: "_Answer | None" = None) -> None:
        if not text:
            return
        if answer is not None and answer.open_line:
            answer.open_line = False
            self._say("\n")
        self._notes.write(f"{text}\n")
        self._notes.flush()


class _Answer:
    """What is still to be written of one answer."""

    def __init__(self, speaker: str, model: str) -> None:
        self.speaker = speaker
        self.model = model
        self.begun = time.monotonic()
        self.waiting: list[_Told] = []
        self.usage = Usage()
        self.named = False
        self.over = False
        self.open_line = False
