"""Markdown that is still being written.

Rules:
1. ``feed`` only keeps text; it costs the same however long the answer is.
2. A block is finished when a later one has begun in a whole line: nothing that follows can change it.
   It is given out once, by ``finished``, and forgotten.
3. Only what is not finished is parsed again; inside a long paragraph, table or piece of code not even that.
4. The lines given out, one after the other, are the lines of the whole text, rendered at once.
"""

from typing import Final

from multi_llm_chat.cli.terminal.markdown import Block, blocks_of, lines_of
from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.safety import harmless

#: Of an open block with more lines than this only the last are laid out while it is drawn.
_LONGEST_OPEN: Final = 100


class MarkdownStream:
    """Text in, lines out."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        #: What is not finished: whole lines, and the pieces of the last one.
        self._lines: list[str] = []
        self._pieces: list[str] = []
        #: How many of the lines were parsed, and the block they begin with.
        self._parsed = 0
        self._open: Block | None = None
        self._begun = False

    def feed(self, text: str) -> None:
        """Take more text."""
        head, newline, tail = harmless(text).rpartition("\n")
        if newline:
            self._lines += "".join([*self._pieces, head]).split("\n")
            self._pieces = []
        if tail:
            self._pieces.append(tail)

    def finished(self, width: int) -> list[str]:
        """The lines of the blocks that were finished since the last time."""
        if not self._may_have_finished():
            return []
        blocks = blocks_of("".join(f"{line}\n" for line in self._lines), self._open)
        if not blocks:
            return []
        self._open = blocks[-1]
        del self._lines[: self._open.begin]
        self._parsed = len(self._lines)
        return self._rendered(blocks[:-1], width)

    def rest(self, width: int) -> list[str]:
        """The lines of all that is left: nothing more will come."""
        blocks = blocks_of("\n".join([*self._lines, "".join(self._pieces)]), self._open)
        self._lines, self._pieces, self._parsed, self._open = [], [], 0, None
        return self._rendered(blocks, width)

    def tail(self, width: int, height: int) -> list[str]:
        """The last lines of what is not finished, to be drawn for now."""
        if height <= 0:
            return []
        blocks = blocks_of("\n".join([*self._recent(height), "".join(self._pieces)]), self._open)
        if not blocks:
            return []
        shown = lines_of(self._renderer, blocks, width)
        return (self._gap(blocks[0]) + shown)[-height:]

    def _recent(self, height: int) -> list[str]:
        """The lines that are enough to draw so many."""
        lines, block = self._lines, self._open
        if block is None or block.end is None or len(lines) <= max(height, _LONGEST_OPEN):
            return lines
        return lines[: block.head] + lines[-height:]

    def _may_have_finished(self) -> bool:
        new = self._lines[self._parsed :]
        self._parsed = len(self._lines)
        end = self._open.end if self._open else None
        return bool(new) if end is None else any(map(end.match, new))

    def _rendered(self, blocks: list[Block], width: int) -> list[str]:
        if not blocks:
            return []
        lines = self._gap(blocks[0]) + lines_of(self._renderer, blocks, width)
        self._begun = True
        return lines

    def _gap(self, block: Block) -> list[str]:
        return [""] if self._begun and not block.joined else []


def whole(renderer: Renderer, text: str, width: int) -> list[str]:
    """The lines of a text that is complete."""
    return lines_of(renderer, blocks_of(harmless(text)), width)
