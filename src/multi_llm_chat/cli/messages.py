"""Messages on standard error, JSON on standard output, piped input, and text that is safe to print.

Rules for outputs:
1. A character that the terminal cannot show (cp1252, ASCII) is replaced by a plain one; it never causes an error.
2. JSON is complete on every output: characters outside of its encoding are escaped.

Rules of the language:
1. ``MLC_LANGUAGE`` decides, else the first of ``LC_ALL``, ``LC_MESSAGES`` and ``LANG`` that is set; English otherwise.
2. The English text is the key: ``tr("A new conversation begins.")``. A text without a translation stays English.
3. ``{names}`` in a text are filled in after the translation.
4. Answers for programs (``--json``, exit codes, names of commands) have no language.

Rules for text of models, tools and servers:
1. Sanitized text cannot move the cursor, ring the bell, or change colours or the title: of the control characters only line feed and tab
   remain, the others are replaced by their control pictures.
2. Characters that reverse the direction of text are removed: they can make text look like other text.
3. Each character is checked separately, so it does not matter how a text was split into pieces.
"""

import codecs
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, cast

import click

#: Replacements for our own signs on outputs that cannot show them; each is as wide as the sign.
_PLAIN_SIGNS: Final = {
    **dict.fromkeys("…", "."), **dict.fromkeys("·–—─━", "-"), **dict.fromkeys("✗×", "x"), **dict.fromkeys("✓", "v"),
    **dict.fromkeys("✻◆●⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"), **dict.fromkeys("❯→›", ">"), **dict.fromkeys("○", "o"), **dict.fromkeys("│┃", "|"),
    **dict.fromkeys("‘’", "'"), **dict.fromkeys("“”", '"'), **dict.fromkeys("╭╮╰╯┌┐└┘├┤", "+"),
}  # fmt: skip
_PLAIN: Final = "multi_llm_chat.plain"
_ASCII: Final = "plain_ascii"


def prepare_streams() -> None:
    """Set the error handlers of the standard streams: outputs replace characters that they cannot show, and the input accepts any bytes."""
    codecs.register_error(_PLAIN, _plain_signs)
    codecs.register(_plain_ascii)
    for stream in (sys.stdout, sys.stderr):
        if not _is_unicode(stream):
            _reconfigure(stream, _PLAIN)
    _reconfigure(sys.stdin, "replace")


def _reconfigure(stream: object, errors: str) -> None:
    if isinstance(stream, TextIOWrapper):
        known = cast("TextIOWrapper[Any]", stream)
        is_ascii = codecs.lookup(known.encoding).name == "ascii"
        known.reconfigure(encoding=_ASCII if is_ascii else known.encoding, errors=errors)


def _plain_ascii(name: str) -> codecs.CodecInfo | None:
    """ASCII under another name, because click writes UTF-8 to an output named ASCII."""
    if name != _ASCII:
        return None
    found = codecs.lookup("ascii")
    return codecs.CodecInfo(
        found.encode,
        found.decode,
        found.streamreader,
        found.streamwriter,
        found.incrementalencoder,
        found.incrementaldecoder,
        name=_ASCII,
    )


def _plain_signs(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join(_PLAIN_SIGNS.get(each, "?") for each in characters), error.end


def _is_unicode(stream: object) -> bool:
    return str(getattr(stream, "encoding", "")).lower().startswith(("utf", "u8"))


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print JSON on standard output."""
    click.echo(printable_json(json.dumps(value, ensure_ascii=False, indent=indent)))


def printable_json(text: str) -> str:
    """The JSON text, with escapes for characters that standard output cannot show."""
    if _is_unicode(sys.stdout):
        return text
    return re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found[0])[1:-1], text)


def print_message(text: str) -> None:
    """Print a message on standard error, since it is not part of the answer."""
    click.echo(text, err=True)


def read_input() -> str:
    """The piped input, if there is any."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    data = getattr(sys.stdin, "buffer", None)
    if data is None:
        return sys.stdin.read()
    given: bytes = data.read()
    try:
        return given.decode("utf-8-sig")
    except UnicodeDecodeError:
        return given.decode(sys.stdin.encoding or "utf-8", errors="replace")


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
    """The text without characters that a terminal would interpret."""
    return text.translate(_PICTURES)


def one_line(text: str) -> str:
    """The sanitized text in one line, with every sequence of white space as one space."""
    return " ".join(sanitize(text).split())


def nearest(word: str, names: Iterable[str], edits: int = 2) -> str | None:
    """The name that is at most this many edits from the word, and fewer than the word has letters; None if there is none."""
    found = min(((_distance(word.lower(), name.lower()), name) for name in names), default=(99, ""))
    return found[1] if found[0] <= min(edits, len(word) - 1) else None


def _distance(one: str, other: str) -> int:
    """The edit distance of two words: insertions, deletions, substitutions and swaps of neighbouring letters."""
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


# The language of the terminal.

LANGUAGES: Final = ("en", "ja", "ko", "it")
_VARIABLES: Final = ("MLC_LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
_CATALOGUES: Final = Path(__file__).parent / "catalogues"


def terminal_language(environment: Mapping[str, str] = os.environ) -> str:
    """The language that the environment sets."""
    chosen = next((environment[name] for name in _VARIABLES if environment.get(name)), "")
    code = re.match(r"[A-Za-z]+", chosen)
    language = code[0].lower() if code else ""
    return language if language in LANGUAGES else "en"


def tr(text: str, /, **values: object) -> str:
    """The text in the language of the terminal."""
    translated = catalogue(terminal_language()).get(text, text)
    return translated.format(**values) if values else translated


@cache
def catalogue(language: str) -> dict[str, str]:
    """All texts of a language, by the English ones."""
    if language == "en":
        return {}
    return json.loads((_CATALOGUES / f"{language}.json").read_bytes())
