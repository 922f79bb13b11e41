"""Boards show answers; this module chooses the one for an output, and holds the one that writes text only.

``AnswerBoard`` and with it rich are imported when the first answer is drawn.

Rules of the text board, for files, pipes and terminals that can do no more:
1. The words of the answers go to the output, everything else to the notes; there is no escape code in either.
2. Words are written as they arrive, in the order in which the speakers were asked: the first at once, the
   others when the ones before have ended.
3. An answer ends with a line feed, whether the model wrote one or not.
"""

import os
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, Self, TextIO

from msgspec import Struct

from multi_llm_chat import errors
from multi_llm_chat.cli.messages import harmless, one_line
from multi_llm_chat.cli.terminal.screen import capabilities_of
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
from multi_llm_chat.errors import ConnectionFailed, MultiLLMChatError, ProviderError
from multi_llm_chat.events import (
    ErrorRecord,
    Event,
    Finish,
    HistoryCompressed,
    MessageFinished,
    MessageSaved,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    TextDelta,
    ToolFinished,
    Usage,
)

# The board for an output.


class Board(Protocol):
    """Shows answers. Any thread may call any of these."""

    def begin(self, speaker: str, model: str = "") -> None:
        """The speaker was asked."""
        ...

    def event(self, speaker: str, event: Event) -> None:
        """The speaker, or a tool it called, tells something."""
        ...

    def end(self, speaker: str, summary: Summary | None = None) -> None:
        """The speaker has answered."""
        ...

    def resume(self, speaker: str) -> None:
        """The speaker's answer was interrupted and begins anew."""
        ...

    def fail(self, speaker: str, error: BaseException, *, once: bool = False) -> None:
        """The speaker cannot answer; asked ``once``, no command of a conversation helps."""
        ...

    def notice(self, text: str) -> None:
        """Tell something that is no speaker's."""
        ...

    def suspended(self) -> AbstractContextManager[None]:
        """The terminal is the caller's: one at a time, and nothing is shown meanwhile."""
        ...

    def close(self) -> None:
        """Show all that is left; answers that are not over end as stopped."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def open_board(
    output: TextIO | None = None,
    notes: TextIO | None = None,
    *,
    plain: bool = False,
    headers: bool = True,
    columns: int = 0,
    environment: Mapping[str, str] = os.environ,
) -> Board:
    """A board on the output; close it, or use it as a context manager, for each round of answers.

    Args:
        output: For the answers; standard output if not given.
        notes: For everything else, where the output takes text only; standard error if not given.
        plain: Write text only, whatever the output can do.
        headers: Whether text only tells who speaks.
        columns: How many answers to show side by side, if the window is wide enough.
        environment: Where ``NO_COLOR``, ``FORCE_COLOR`` and ``TERM`` are looked up.
    """
    shown = output or sys.stdout
    able = capabilities_of(shown, plain=plain, environment=environment)
    if able.plain:
        return PlainBoard(shown, notes or sys.stderr, headers=headers)
    # Rich is loaded when the first answer is to be shown, not before.
    from multi_llm_chat.cli.terminal.board import AnswerBoard  # noqa: PLC0415  # the lazy door
    from multi_llm_chat.cli.terminal.screen import Screen  # noqa: PLC0415  # the lazy door

    return AnswerBoard(Screen(shown, able), columns=columns)


# Events on a board.


def show(board: Board, event: Event, *, once: bool = False) -> None:
    """Show what happens. Asked ``once``, nobody can give a command afterwards."""
    match event:
        case MessageSaved() | MessageFinished():
            pass
        case RunStarted():
            board.begin(event.speaker, event.model)
        case RunResumed():
            board.resume(event.speaker)
        case RunFinished():
            board.end(event.speaker, Summary(event.usage, event.cost, event.stop_reason))
        case RunFailed():
            board.fail(event.speaker, as_error(event.error), once=once)
        case _:
            board.event(event.speaker, event)


def as_error(record: ErrorRecord) -> MultiLLMChatError:
    """The error that was recorded."""
    kind = getattr(errors, record.kind, None)
    if kind is ConnectionFailed:
        return ConnectionFailed(
            record.message, before_first_byte=True, provider=record.provider, code=record.code
        )
    if isinstance(kind, type) and issubclass(kind, ProviderError):
        return kind(
            record.message, provider=record.provider, status=record.status, code=record.code
        )
    if isinstance(kind, type) and issubclass(kind, MultiLLMChatError):
        return kind(record.message)
    return MultiLLMChatError(record.message)


# A board of text.


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
