"""Rich as a function: takes a renderable and a width, returns lines with escape codes.

Rules:
1. This module writes no output.
2. The only escape codes in the lines are our own colours.
3. No line is wider than the given width; white space at the end of a line is removed.
"""

import io
from collections.abc import Iterable, Sequence
from typing import Final

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.text import Text
from rich.theme import Theme

from multi_llm_chat.cli.messages import sanitize
from multi_llm_chat.cli.terminal.screen import Capabilities

#: Subdued colours without backgrounds, which would fit either only dark or only light terminals.
_THEME: Final = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold italic",
        "markdown.h4": "italic",
        "markdown.link": "blue",
        "markdown.link_url": "dim",
        "markdown.item.number": "bold",
        "markdown.block_quote": "italic",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)


class Renderer:
    """Makes lines."""

    def __init__(self, capabilities: Capabilities, width: int = 80) -> None:
        # The terminal's own sixteen colours fit its background.
        self._colours = None if capabilities.plain else ColorSystem.STANDARD
        self._console = Console(
            file=io.StringIO(),
            force_terminal=not capabilities.plain,
            force_jupyter=False,
            no_color=not capabilities.colour,
            color_system=None,
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
            theme=_THEME,
        )

    def rows(self, renderable: RenderableType, width: int) -> list[list[Segment]]:
        """Lines as segments, for further layout."""
        options = self._console.options.update(width=width, height=None)
        rows = self._console.render_lines(renderable, options, pad=False)
        return [_trimmed(row) for row in rows]

    def written(self, rows: Iterable[Sequence[Segment]]) -> list[str]:
        """Lines of segments as text with escape codes."""
        return ["".join(map(self._coloured, self._without_colour(row))) for row in rows]

    def _without_colour(self, row: Iterable[Segment]) -> Iterable[Segment]:
        return Segment.remove_color(row) if self._console.no_color else row

    def _coloured(self, segment: Segment) -> str:
        # Sanitize again: ``&#8238;`` has become a character only now.
        text, style = sanitize(segment.text), segment.style
        return style.render(text, color_system=self._colours) if style else text

    def lines(self, renderable: RenderableType, width: int) -> list[str]:
        """The renderable in lines of at most this width."""
        return self.written(self.rows(renderable, width))


def cut(text: Text, width: int) -> Text:
    """The text in one line of this width, with an ellipsis if it is longer."""
    text = text.copy()
    text.truncate(width, overflow="ellipsis")
    text.no_wrap = True
    return text


def _trimmed(row: list[Segment]) -> list[Segment]:
    row = [segment for segment in row if not segment.control]
    while row:
        last = row[-1]
        shown = last.style is not None and last.style.bgcolor is not None
        text = last.text if shown else last.text.rstrip(" ")
        if text == last.text and text:
            break
        row.pop()
        if text:
            row.append(Segment(text, last.style))
    return row
