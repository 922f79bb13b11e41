"""Markdown that grows: blocks that are final, and an open tail.

Rules:
1. A block is final when a later block has begun on a line that is complete. Nothing that comes later can change it.
2. All final blocks and the last tail, one after the other, are what ``render_markdown`` makes of the whole text; only the
   colours of code in the tail wait for ``finish``.
3. The cost of a piece depends on the tail, not on what is final.
"""

from msgspec import Struct

from multi_llm_chat.web.markup.markdown import blocks, first_lines


class Grown(Struct, frozen=True):
    """HTML that is final from now on, and the HTML of the open end, which replaces the one before."""

    final: str
    tail: str


class Growing:
    """A text while it comes."""

    def __init__(self) -> None:
        self._tail = ""
        self._held = ""
        self._looked_at = 0
        self._final: list[str] = []
        self._tail_html = ""

    @property
    def html(self) -> Grown:
        """Everything so far."""
        return Grown("".join(self._final), self._tail_html)

    def add(self, piece: str) -> Grown:
        """Take more of the text."""
        piece = self._held + piece
        # The second half of a line's end may be on its way.
        self._held = "\r" if piece.endswith("\r") else ""
        piece = piece.removesuffix("\r")
        self._tail += piece.replace("\r\n", "\n").replace("\r", "\n")
        final = self._settle()
        if final:
            self._final.append(final)
        self._tail_html = "".join(block.html for block in blocks(self._tail, is_open=True))
        return Grown(final, self._tail_html)

    def finish(self) -> str:
        """The text is complete: all of its HTML."""
        tail = self._tail + self._held
        return "".join(self._final) + "".join(block.html for block in blocks(tail))

    def _settle(self) -> str:
        """Take what is final from the tail."""
        complete = self._tail.rfind("\n") + 1
        if complete <= self._looked_at:
            return ""
        self._looked_at = complete
        starts = first_lines(self._tail[:complete])
        if len(starts) < 2:
            return ""
        cut = _offset(self._tail, starts[-1])
        settled, self._tail = self._tail[:cut], self._tail[cut:]
        self._looked_at = complete - cut
        return "".join(block.html for block in blocks(settled))


def _offset(text: str, line: int) -> int:
    at = 0
    for _ in range(line):
        at = text.index("\n", at) + 1
    return at
