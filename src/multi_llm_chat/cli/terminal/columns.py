"""Answers side by side.

Rules:
1. A column is as wide as it was when the answers began; its lines are made once.
2. While answers come, the newest lines of each column are shown; when all are over, the columns stay, whole.
3. A window that has become too narrow gets the answers one below the other: nothing is cut off.
"""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.view import AnswerView

#: A window narrower than this has no columns, nor has one with less than that for each.
WIDE: Final = 120
_NARROWEST: Final = 38
_GAP: Final = 3


class Columns:
    """The columns of several answers."""

    def __init__(self, renderer: Renderer, width: int, count: int) -> None:
        self._renderer = renderer
        self._width = column_width(width, count)
        self._lines: dict[AnswerView, list[str]] = {}

    def passing(self, views: Sequence[AnswerView], width: int, height: int) -> list[str]:
        """The newest lines of each."""
        shown: list[list[str]] = []
        for view in views:
            lines = self._settle(view)
            below = [] if view.over else view.status(self._width)
            tail = view.tail(self._width, height - len(below))
            shown.append((lines[-height:] + tail)[-(height - len(below)) :] + below)
        return self._beside(shown)[-height:] if self._room(views) <= width else shown[0][-height:]

    def whole(self, views: Sequence[AnswerView], width: int) -> list[str]:
        """All lines: the answers are over."""
        columns = [self._settle(view) for view in views]
        if self._room(views) <= width:
            return self._beside(columns)
        return [line for lines in columns for line in lines]

    def _settle(self, view: AnswerView) -> list[str]:
        lines = self._lines.setdefault(view, [])
        lines += view.settled(self._width)
        return lines

    def _room(self, views: Sequence[AnswerView]) -> int:
        return len(views) * (self._width + _GAP) - _GAP

    def _beside(self, columns: list[list[str]]) -> list[str]:
        table = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
        for _ in columns:
            table.add_column(width=self._width, no_wrap=True)
        table.add_row(*(Text("\n").join(map(Text.from_ansi, lines)) for lines in columns))
        return self._renderer.lines(table, len(columns) * (self._width + _GAP))


def column_width(width: int, count: int) -> int:
    """The width of one of so many columns; 0 where there is no room for them."""
    if count < 2 or width < WIDE:
        return 0
    each = (width + _GAP) // count - _GAP
    return each if each >= _NARROWEST else 0
