"""Answers on the screen while they arrive, of one speaker or of several at once.

Rules:
1. The first answer is written as it arrives. The others have a status line each, and are written in order when those before them have
   ended; with ``columns``, on a wide window, all are written side by side.
2. Any thread may call any method. A call never waits for the terminal, even if that is slow or stopped: it appends to a queue, and the
   painter thread draws ten times a second, or less often if drawing would take more than a tenth of the time.
3. While a question is asked (``suspended``) nothing is drawn; events that arrive meanwhile are drawn afterwards.
4. After ``close`` everything is on the screen, and the terminal's modes are restored.
5. An error in drawing is raised by the next call, or by ``close``.

Rules of columns:
6. A column keeps the width that it had when the answers began; its lines are laid out once.
7. While answers arrive, the newest lines of each column are shown; when all have ended, the complete columns stay on the screen.
8. If the window has become too narrow, the answers are written one below the other, and nothing is cut off.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, Self

from rich.table import Table
from rich.text import Text

from multi_llm_chat.cli.terminal.cards import notice
from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.screen import Screen
from multi_llm_chat.cli.terminal.view import Clock, TerminalAnswer
from multi_llm_chat.cli.terminal.words import AnswerSummary
from multi_llm_chat.events import Event

# Answers side by side.

#: The narrowest window with columns, and the narrowest column.
WIDE: Final = 120
_NARROWEST: Final = 38
_GAP: Final = 3


class Columns:
    """The columns of several answers."""

    def __init__(self, renderer: Renderer, width: int, count: int) -> None:
        self._renderer = renderer
        self._width = column_width(width, count)
        self._lines: dict[TerminalAnswer, list[str]] = {}

    def passing(self, views: Sequence[TerminalAnswer], width: int, height: int) -> list[str]:
        """The newest lines of each column."""
        shown: list[list[str]] = []
        for view in views:
            lines = self._settle(view)
            below = [] if view.over else view.status(self._width)
            tail = view.tail(self._width, height - len(below))
            shown.append((lines[-height:] + tail)[-(height - len(below)) :] + below)
        return (
            self._side_by_side(shown)[-height:]
            if self._room(views) <= width
            else shown[0][-height:]
        )

    def whole(self, views: Sequence[TerminalAnswer], width: int) -> list[str]:
        """All lines, after the answers have ended."""
        columns = [self._settle(view) for view in views]
        if self._room(views) <= width:
            return self._side_by_side(columns)
        return [line for lines in columns for line in lines]

    def _settle(self, view: TerminalAnswer) -> list[str]:
        lines = self._lines.setdefault(view, [])
        lines += view.settled(self._width)
        return lines

    def _room(self, views: Sequence[TerminalAnswer]) -> int:
        return len(views) * (self._width + _GAP) - _GAP

    def _side_by_side(self, columns: list[list[str]]) -> list[str]:
        table = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
        for _ in columns:
            table.add_column(width=self._width, no_wrap=True)
        table.add_row(*(Text("\n").join(map(Text.from_ansi, lines)) for lines in columns))
        return self._renderer.lines(table, len(columns) * (self._width + _GAP))


def column_width(width: int, count: int) -> int:
    """The width of each of this many columns; 0 if there is no room for them."""
    if count < 2 or width < WIDE:
        return 0
    each = (width + _GAP) // count - _GAP
    return each if each >= _NARROWEST else 0


# The board.

_FRAME: Final = 0.1
#: Drawing may take at most one part in this many of the time.
_SHARE: Final = 10


class AnswerBoard:
    """Shows answers; see ``PlainBoard`` for outputs that take text only."""

    def __init__(self, screen: Screen, *, columns: int = 0, clock: Clock = time.monotonic) -> None:
        """Make a board; it shows nothing yet.

        Args:
            screen: The screen to draw on.
            columns: How many answers to show side by side, if the window is wide enough.
            clock: Returns the time in seconds.
        """
        self._screen = screen
        self._clock = clock
        width = screen.size[0]
        self._renderer = Renderer(screen.capabilities, width)
        is_wide = screen.capabilities.live and column_width(width, columns)
        self._columns = Columns(self._renderer, width, columns) if is_wide else None
        self._views: dict[str, TerminalAnswer] = {}
        self._queue: deque[Callable[[], object]] = deque()
        self._order: list[TerminalAnswer] = []
        self._notices: list[str] = []
        self._lock = threading.RLock()
        self._asking = threading.RLock()
        self._asked = 0
        self._closing = False
        self._wake = threading.Event()
        self._broken: BaseException | None = None
        self._painter = threading.Thread(target=self._paint_repeatedly, name="board", daemon=True)

    def begin(self, speaker: str, model: str = "") -> None:
        """Begin the speaker's answer."""
        view = TerminalAnswer(self._renderer, speaker, model, self._clock)
        self._views[speaker] = view
        self._enqueue(lambda: self._order.append(view), at_once=True)
        if self._painter.ident is None:
            self._painter.start()

    def event(self, speaker: str, event: Event) -> None:
        """Show an event of the speaker, or of a tool it called."""
        view = self._views[speaker]
        self._enqueue(lambda: view.take(event))

    def end(self, speaker: str, summary: AnswerSummary | None = None) -> None:
        """End the speaker's answer."""
        view = self._views[speaker]
        self._enqueue(lambda: view.end(summary), at_once=True)

    def resume(self, speaker: str) -> None:
        """Start the speaker's answer again after an interruption."""
        view = self._views[speaker]
        self._enqueue(view.resume, at_once=True)

    def fail(self, speaker: str, error: BaseException, *, once: bool = False) -> None:
        """Show that the speaker failed to answer."""
        view = self._views[speaker]
        self._enqueue(lambda: view.fail(error, once=once), at_once=True)

    def notice(self, text: str) -> None:
        """Show a notice that belongs to no speaker."""
        self._enqueue(lambda: self._notices.append(text), at_once=True)

    @contextmanager
    def suspended(self) -> Generator[None]:
        """Give the terminal to the caller while the block runs; one caller at a time, and nothing is drawn meanwhile."""
        with self._asking:
            with self._lock:
                self._paint()
                self._asked += 1
                self._screen.clear()
            try:
                yield
            finally:
                with self._lock:
                    self._asked -= 1

    def close(self) -> None:
        """Show everything that is left; unfinished answers end as stopped."""
        self._closing = True
        self._wake.set()
        if self._painter.ident is not None:
            self._painter.join()
        self._check()
        with self._asking, self._lock:
            self._apply_queue()
            for view in self._order:
                if not view.over:
                    view.end(AnswerSummary(stop="cancelled"))
            try:
                self._paint()
            finally:
                self._screen.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enqueue(self, change: Callable[[], object], *, at_once: bool = False) -> None:
        self._check()
        self._queue.append(change)
        if at_once:
            self._wake.set()

    def _paint_repeatedly(self) -> None:
        pause = _FRAME
        while not self._closing:
            begun = time.thread_time()
            try:
                with self._lock:
                    self._paint()
            except BaseException as error:  # noqa: BLE001  # raised to the next caller
                self._broken = error
                return
            pause = max(_FRAME, _SHARE * (time.thread_time() - begun))
            self._wake.wait(pause)
            self._wake.clear()

    def _apply_queue(self) -> None:
        while self._queue:
            self._queue.popleft()()

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _paint(self) -> None:
        self._apply_queue()
        if self._asked:
            return
        width = self._screen.size[0]
        lines = [
            line for text in self._notices for line in self._renderer.lines(notice(text), width)
        ]
        self._notices.clear()
        if self._columns is None:
            lines += self._in_order(width)
            self._screen.add(lines, self._passing(width))
            return
        if all(view.over for view in self._order):
            lines += self._columns.whole(self._order, width)
            self._order.clear()
        passing = self._columns.passing(self._order, width, self._screen.room)
        self._screen.add(lines, passing)

    def _in_order(self, width: int) -> list[str]:
        lines: list[str] = []
        while self._order:
            lines += self._order[0].settled(width)
            if not self._order[0].over:
                break
            del self._order[0]
        return lines

    def _passing(self, width: int) -> list[str]:
        if not (self._order and self._screen.capabilities.live):
            return []
        first, *others = self._order
        below = first.status(width)
        for view in others:
            below += view.waiting(width)
        room = self._screen.room
        return first.tail(width, room - len(below)) + below[:room]
