"""Whether a JSON object that arrives in pieces has ended.

Rules:
1. Each piece is scanned once, and only when somebody asks: the cost is linear.
2. Only brackets and strings count. Text that is balanced but no JSON has ended as well: nothing
   that follows could mend it.
"""

import re

_MARKS = re.compile(r'["\\{}\[\]]')


class ObjectEnd:
    """Follows the brackets of one text."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._opened = False
        self._last = ""  # the last character that is not space

    def add(self, piece: str) -> None:
        """Take more of the text."""
        self._pieces.append(piece)

    def reached(self) -> bool:
        """Tell whether the text so far is a whole object, to which nothing can be added."""
        if self._pieces:
            text = "".join(self._pieces)
            self._pieces = []
            self._scan(text)
        return self._opened and self._last == "}" and self._depth == 0 and not self._in_string

    def _scan(self, text: str) -> None:
        stripped = text.strip()
        if stripped:
            self._opened = self._opened or (not self._last and stripped[0] == "{")
            self._last = stripped[-1]
        position = 1 if self._escaped else 0
        self._escaped = False
        while mark := _MARKS.search(text, position):
            position = mark.end()
            if self._in_string:
                position = self._scan_string(mark[0], position, len(text))
            elif mark[0] == '"':
                self._in_string = True
            elif mark[0] != "\\":
                self._depth += 1 if mark[0] in "{[" else -1

    def _scan_string(self, mark: str, position: int, length: int) -> int:
        if mark == '"':
            self._in_string = False
        elif mark == "\\":
            self._escaped = position == length
            return position + 1
        return position
