"""Boards show answers: this module selects the board for an output, and contains ``PlainBoard``, which writes plain text.

``AnswerBoard`` and with it rich are imported when the first answer is drawn.

Rules of ``PlainBoard``, for files, pipes and terminals without further capabilities:
1. The text of the answers goes to the output, everything else to the notes; neither contains escape codes.
2. Answers are written in the order in which the speakers were asked: the first as it arrives, the others when those before have ended.
3. An answer ends with a line feed, also if the model wrote none.
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
from multi_llm_chat.cli.messages import one_line, sanitize, tr
from multi_llm_chat.cli.terminal.screen import capabilities_of
from multi_llm_chat.cli.terminal.words import (
    RESUMED,
    AnswerSummary,
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
        """Begin the speaker's answer."""
        ...

    def event(self, speaker: str, event: Event) -> None:
        """Show an event of the speaker, or of a tool it called."""
        ...

    def end(self, speaker: str, summary: AnswerSummary | None = None) -> None:
        """End the speaker's answer."""
        ...

    def resume(self, speaker: str) -> None:
        """Start the speaker's answer again after an interruption."""
        ...

    def fail(self, speaker: str, error: BaseException, *, once: bool = False) -> None:
        """Show that the speaker failed to answer; with ``once`` the advice names no commands of a conversation."""
        ...

    def notice(self, text: str) -> None:
        """Show a notice that belongs to no speaker."""
        ...

    def suspended(self) -> AbstractContextManager[None]:
        """Give the terminal to the caller while the block runs; one caller at a time, and nothing is shown meanwhile."""
        ...

    def close(self) -> None:
        """Show everything that is left; unfinished answers end as stopped."""
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
    """Open a board on the output, one for each round of answers; close it, or use it as a context manager.

    Args:
        output: Gets the answers; standard output if not given.
        notes: Gets everything else, if the output is plain text; standard error if not given.
        plain: Write plain text, also if the output supports more.
        headers: Whether plain text names the speakers.
        columns: How many answers to show side by side, if the window is wide enough.
        environment: Where ``NO_COLOR``, ``FORCE_COLOR`` and ``TERM`` are looked up.
    """
    shown = output or sys.stdout
    able = capabilities_of(shown, plain=plain, environment=environment)
    if able.plain:
        return PlainBoard(shown, notes or sys.stderr, headers=headers)
    # Rich is imported with the first answer.
    from multi_llm_chat.cli.terminal.board import AnswerBoard  # noqa: PLC0415  # the lazy door
    from multi_llm_chat.cli.terminal.screen import Screen  # noqa: PLC0415  # the lazy door

    return AnswerBoard(Screen(shown, able), columns=columns)


# Events on a board.


def show(board: Board, event: Event, *, once: bool = False) -> None:
    """Show an event; with ``once`` the advice names no commands of a conversation."""
    match event:
        case MessageSaved() | MessageFinished():
            pass
        case RunStarted():
            board.begin(event.speaker, event.model)
        case RunResumed():
            board.resume(event.speaker)
        case RunFinished():
            board.end(event.speaker, AnswerSummary(event.usage, event.cost, event.stop_reason))
        case RunFailed():
            board.fail(event.speaker, as_error(event.error), once=once)
        case _:
            board.event(event.speaker, event)


def as_error(record: ErrorRecord) -> MultiLLMChatError:
    """The exception for a recorded error."""
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


# The plain-text board.


class _Note(Struct, frozen=True):
    """Lines around an answer; ``is_last`` ends the answer."""

    lines: tuple[str, ...]
    is_last: bool = False


_Item = Event | AnswerSummary | _Note


class PlainBoard:
    """Writes answers as plain text; has the methods of ``AnswerBoard``."""

    def __init__(self, output: TextIO, notes: TextIO, *, headers: bool = True) -> None:
        """Make a board; it writes nothing yet.

        Args:
            output: Gets the text of the answers.
            notes: Gets everything else.
            headers: Whether the output names the speakers.
        """
        self._output = output
        self._notes = notes
        self._headers = headers
        self._order: list[_Answer] = []
        self._answers: dict[str, _Answer] = {}
        self._lock = threading.RLock()

    def begin(self, speaker: str, model: str = "") -> None:
        """Begin the speaker's answer."""
        with self._lock:
            answer = self._answers[speaker] = _Answer(speaker, model)
            self._order.append(answer)

    def event(self, speaker: str, event: Event) -> None:
        """Show an event of the speaker, or of a tool it called."""
        self._take(speaker, event)

    def end(self, speaker: str, summary: AnswerSummary | None = None) -> None:
        """End the speaker's answer."""
        self._take(speaker, summary or AnswerSummary())

    def resume(self, speaker: str) -> None:
        """Start the speaker's answer again after an interruption."""
        self._take(speaker, _Note((tr(RESUMED),)))

    def fail(self, speaker: str, error: BaseException, *, once: bool = False) -> None:
        """Show that the speaker failed to answer."""
        self._take(speaker, _Note(tuple(error_lines(error, once=once)), is_last=True))

    def notice(self, text: str) -> None:
        """Show a notice that belongs to no speaker."""
        with self._lock:
            self._note(sanitize(text))

    @contextmanager
    def suspended(self) -> Generator[None]:
        """Give the terminal to the caller while the block runs; one caller at a time, and nothing is written meanwhile."""
        with self._lock:
            yield

    def close(self) -> None:
        """Write all that is left."""
        with self._lock:
            for answer in [*self._order]:
                if not answer.over:
                    self._take(answer.speaker, AnswerSummary(stop="cancelled"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, speaker: str, item: _Item) -> None:
        with self._lock:
            answer = self._answers[speaker]
            answer.waiting.append(item)
            ends = isinstance(item, AnswerSummary) or (isinstance(item, _Note) and item.is_last)
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
            self._write_text(f"{one_line(answer.speaker)}:\n")
        items, answer.waiting = answer.waiting, []
        for item in items:
            self._write_item(answer, item)

    def _write_item(self, answer: "_Answer", item: _Item) -> None:
        match item:
            case TextDelta():
                text = sanitize(item.text)
                self._write_text(text)
                answer.open_line = not text.endswith("\n") if text else answer.open_line
                answer.has_words = answer.has_words or not text.isspace()
            case ToolFinished():
                answer.has_words = False  # the answer follows its tools
                self._tool(answer, item)
            case Usage():
                answer.usage += item
            case Finish():
                self._note(finish_text(item.reason), answer)
            case HistoryCompressed():
                self._note(item.note.text, answer)
            case RunWaiting():
                self._note(item.text, answer)
            case AnswerSummary():
                self._end(answer, item)
            case _Note():
                for line in item.lines:
                    self._note(f"{one_line(answer.speaker)}: {line}", answer)
            case _:
                pass  # not shown as text

    def _tool(self, answer: "_Answer", item: ToolFinished) -> None:
        mark = "failed" if item.result.is_error else "ran"
        took = seconds_text(item.seconds)
        name = one_line(item.call.name)
        self._note(f"({mark} {name} {arguments_text(item.call)}, {took})", answer)
        for line in result_lines(item.result):
            self._note(f"    {line}", answer)

    def _end(self, answer: "_Answer", summary: AnswerSummary) -> None:
        if summary.stop not in {"length", "refusal"}:
            self._note(stop_text(summary.stop, is_empty=not answer.has_words), answer)
        seconds = time.monotonic() - answer.begun
        words = usage_text(summary.usage or answer.usage, summary.cost, seconds)
        self._note(f"{one_line(answer.speaker)}: {words}", answer)

    def _write_text(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()

    def _note(self, text: str, answer: "_Answer | None" = None) -> None:
        if not text:
            return
        if answer is not None and answer.open_line:
            answer.open_line = False
            self._write_text("\n")
        self._notes.write(f"{text}\n")
        self._notes.flush()


class _Answer:
    """The part of one answer that is not written yet."""

    def __init__(self, speaker: str, model: str) -> None:
        self.speaker = speaker
        self.model = model
        self.begun = time.monotonic()
        self.waiting: list[_Item] = []
        self.usage = Usage()
        self.named = False
        self.over = False
        self.open_line = False
        self.has_words = False
