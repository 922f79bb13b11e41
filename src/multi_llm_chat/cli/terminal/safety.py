"""Text of models, tools and servers, made harmless for a terminal.

Rules:
1. No character that is left moves the cursor, rings, colours or titles anything: of the control characters
   only the line feed and the tab remain, the others are shown as pictures.
2. Characters that turn the direction of others around are taken out: they can make words look like others.
3. Each character is judged alone, so that it does not matter how a text was cut into pieces.
"""

from typing import Final

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


def harmless(text: str) -> str:
    """The text without anything a terminal would obey."""
    return text.translate(_PICTURES)


def one_line(text: str) -> str:
    """The text, harmless, in one line: every run of white space is one space."""
    return " ".join(harmless(text).split())
