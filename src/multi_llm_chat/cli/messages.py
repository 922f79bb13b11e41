"""Messages on standard error, piped input, and text that is safe to print.

Rules for text of models, tools and servers:
1. No character that is left moves the cursor, rings, colours or titles anything: of the control characters
   only the line feed and the tab remain, the others are shown as pictures.
2. Characters that reverse the direction of others are removed: they can make words look like others.
3. Each character is judged alone, so it does not matter how a text was cut into pieces.
"""

import sys
from collections.abc import Iterable
from typing import Final

import click


def print_message(text: str) -> None:
    """Print a message on standard error: it is no part of the answer."""
    click.echo(text, err=True)


def read_input() -> str:
    """The piped input, if there is any."""
    return "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read()


# Text that is safe for a terminal.

_UNKNOWN: Final = "\ufffd"

_PICTURES: Final[dict[int, str | None]] = {
    **{code: chr(0x2400 + code) for code in range(0x20)},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), _UNKNOWN),
    **dict.fromkeys(range(0xD800, 0xE000), _UNKNOWN),
    **dict.fromkeys(range(0xFDD0, 0xFDF0), _UNKNOWN),
    **dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)]),
    0x2028: "\n",
    0x2029: "\n",
    0x09: "\t",
    0x0A: "\n",
    0x0D: None,
}


def sanitize(text: str) -> str:
    """The text without anything a terminal would interpret."""
    return text.translate(_PICTURES)


def one_line(text: str) -> str:
    """The sanitized text in one line: every run of white space is one space."""
    return " ".join(sanitize(text).split())


def nearest(word: str, names: Iterable[str], edits: int = 2) -> str | None:
    """The name that is at most this many edits from the word, and fewer than the word has letters; None if none is."""
    found = min(((_distance(word.lower(), name.lower()), name) for name in names), default=(99, ""))
    return found[1] if found[0] <= min(edits, len(word) - 1) else None


def _distance(one: str, other: str) -> int:
    """How many letters to insert, to leave out, to change or to swap with the next one make one word the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]
