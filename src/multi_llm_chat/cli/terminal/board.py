"""Answers on the screen while they come, of one speaker or of several at once.

Rules:
1. The first answer is written as it comes. Those behind it have a status line each, and are written in
   order when the ones before them are over; with ``columns``, on a wide window, all are written side by side.
2. Any thread may call anything. To tell the board something never waits for the terminal, be it slow or
   halted: it is put down, and a painter draws it, ten times a second, and less often where drawing is so much
   work that it would take a tenth of the time.
3. While a question is asked (``suspended``) nothing is drawn; what comes meanwhile is drawn afterwards.
4. After ``close`` everything that was told is on the screen, and the terminal is as it was.
5. What goes wrong in drawing is raised to whoever tells the next thing, or closes.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Self

from multi_llm_chat.cli.terminal.cards import notice
from multi_llm_chat.cli.terminal.columns import Columns, column_width
from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.screen import Screen
from multi_llm_chat.cli.terminal.sections import Clock
from multi_llm_chat.cli.terminal.view import AnswerView
from multi_llm_chat.cli.terminal.words import Summary
from multi_llm_chat.events import Event

_FRAME: Final = 0.1
#: Drawing may take one part in so many of the time.
_SHARE: Final = 10


class AnswerBoard:
    """Shows answers; see ``PlainBoard`` for outputs that take text only."""

    def __init__(self, screen: Screen, *, columns: int = 0, clock: Clock = time.monotonic) -> None:
        """Nothing is shown yet.

        Args:
            screen: Where to.
            columns: How many answers to show side by side, if the window is wide enough.
            clock: Seconds.
        """
        self._screen = screen
        self._clock = clock
        width = screen.size[0]
        self._renderer = Renderer(screen.capabilities, width)
        beside = screen.capabilities.live and column_width(width, columns)
        self._columns = Columns(self._renderer, width, columns) if beside else None
        self._views: dict[str, AnswerView] = {}
        self._told: deque[Callable[[], object]] = deque()
        self._order: list[AnswerView] = []
        self._notices: list[str] = []
        self._lock = threading.RLock()
        self._asking = threading.RLock()
        self._asked = 0
        self._closing = False
        self._wake = threading.Event()
        self._broken: BaseException | None = None
        self._painter = threading.Thread(target=self._go_on, name="board", daemon=True)

    def begin(self, speaker: str, model: str = "") -> None:
        """The speaker was asked."""
        view = AnswerView(self._renderer, speaker, model, self._clock)
        self._views[speaker] = view
        self._tell(lambda: self._order.append(view), at_once=True)
        if self._painter.ident is None:
            self._painter.start()

    def event(self, speaker: str, event: Event) -> None:
        """The speaker, or a tool it called, tells something."""
        view = self._views[speaker]
        self._tell(lambda: view.take(event))

    def end(self, speaker: str, summary: Summary | None = None) -> None:
        """The speaker has answered."""
        view = self._views[speaker]
        self._tell(lambda: view.end(summary), at_once=True)

    def resume(self, speaker: str) -> None:
        """The speaker's answer was interrupted and begins anew."""
        view = self._views[speaker]
        self._tell(view.resume, at_once=True)

    def fail(self, speaker: str, error: BaseException, *, once: bool = False) -> None:
        """The speaker cannot answer."""
        view = self._views[speaker]
        self._tell(lambda: view.fail(error, once=once), at_once=True)

    def notice(self, text: str) -> None:
        """Tell something that is no speaker's."""
        self._tell(lambda: self._notices.append(text), at_once=True)

    @contextmanager
    def suspended(self) -> Generator[None]:
        """The terminal is the caller's: one at a time, and nothing is drawn meanwhile."""
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
        """Show all that is left; answers that are not over end as stopped."""
        self._closing = True
        self._wake.set()
        if self._painter.ident is not None:
            self._painter.join()
        self._check()
        with self._asking, self._lock:
            self._listen()
            for view in self._order:
                if not view.over:
                    view.end(Summary(stop="cancelled"))
            try:
                self._paint()
            finally:
                self._screen.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, thing: Callable[[], object], *, at_once: bool = False) -> None:
        self._check()
        self._told.append(thing)
        if at_once:
            self._wake.set()

    def _go_on(self) -> None:
        pause = _FRAME
        while not self._closing:
            begun = time.thread_time()
            try:
                with self._lock:
                    self._paint()
            except BaseException as error:  # noqa: BLE001  # told to the next caller
                self._broken = error
                return
            pause = max(_FRAME, _SHARE * (time.thread_time() - begun))
            self._wake.wait(pause)
            self._wake.clear()

    def _listen(self) -> None:
        while self._told:
            self._told.popleft()()

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _paint(self) -> None:
        self._listen()
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
