"""Artifacts: the pages and drawings that answers made, found in the code of their texts.

Rules:
1. A closed code block at the top level of a text, in the language HTML or SVG, is an artifact, unless it is only a snippet.
2. Artifacts of one title are versions of one another, in the order of the branch. The title is that of the document.
3. A document is shown in a frame without network, without cookies and without access to the page (``DOCUMENT_POLICY``). Its scripts run in
   an opaque origin, so they cannot reach this server.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from html import unescape
from typing import Final

from msgspec import Struct

from multi_llm_chat.history.values import Text, Turn

#: The fewest and the most characters of an artifact: shorter code is a snippet, longer code stays code.
SHORTEST: Final = 120
LONGEST: Final = 1_000_000
#: The most lines of a version that are compared with the previous one.
MOST_LINES: Final = 5_000

#: The permissions of a document. ``sandbox`` without ``allow-same-origin`` gives it an opaque origin.
DOCUMENT_POLICY: Final = "; ".join(
    (
        "sandbox allow-scripts",
        "default-src 'none'",
        "script-src 'unsafe-inline'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "font-src data:",
        "media-src data:",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'self'",
    )
)

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+-]*)[^`]*")
_TITLES: Final = (
    re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL),
    re.compile(r"<h1[^>]*>(.*?)</h1>", re.IGNORECASE | re.DOTALL),
)
_TAG: Final = re.compile(r"<[^>]*>")
_LONGEST_TITLE: Final = 80


class CodeBlock(Struct, frozen=True):
    """A block of code that is an artifact: its language, and its code."""

    language: str
    code: str

    @property
    def title(self) -> str:
        """The title of the document, else its language."""
        for pattern in _TITLES:
            found = pattern.search(self.code[:50_000])
            words = " ".join(unescape(_TAG.sub("", found[1])).split()) if found else ""
            if words:
                return words[:_LONGEST_TITLE]
        return self.language.upper()

    @property
    def document(self) -> str:
        """The page that the frame shows."""
        head = "<!doctype html>" if "<!doctype" not in self.code[:200].lower() else ""
        if self.language == "svg":
            head += '<meta charset="utf-8"><style>body{margin:0;min-height:100vh;display:grid;place-items:center}svg{max-width:100%;height:auto}</style>'
        return head + self.code


class Artifact(Struct, frozen=True):
    """An artifact with its turn, its number in the turn, its speaker, and its version among those of the same title."""

    turn: str
    number: int
    speaker: str
    block: CodeBlock
    version: int = 1


def split_artifacts(text: str) -> list[str | CodeBlock]:
    """The text in pieces: artifacts, and the text between them."""
    if "```" not in text and "~~~" not in text:
        return [text]
    pieces: list[str | CodeBlock] = []
    lines = text.splitlines(keepends=True)
    begun = at = 0
    while at < len(lines):
        opening = _FENCE.fullmatch(lines[at].rstrip("\r\n"))
        if opening is None:
            at += 1
            continue
        end = _closing(lines, at, opening[1])
        if end is None:
            break
        block = _block(opening[2].lower(), "".join(lines[at + 1 : end]))
        if block is not None:
            pieces += [before] if (before := "".join(lines[begun:at])).strip() else []
            pieces.append(block)
            begun = end + 1
        at = end + 1
    rest = "".join(lines[begun:])
    return [*pieces, rest] if rest.strip() or not pieces else pieces


#: The languages of the blocks that may be artifacts.
LANGUAGES_SHOWN: Final = ("html", "svg", "xml")
_SHOWN: Final = re.compile(rf"^ {{0,3}}(?:`{{3,}}|~{{3,}})[ \t]*(?:{'|'.join(LANGUAGES_SHOWN)})\b", re.IGNORECASE | re.MULTILINE)  # fmt: skip


def may_have_artifacts(text: str) -> bool:
    """Whether a text has a block that may be an artifact; fast for texts without one."""
    return ("```" in text or "~~~" in text) and _SHOWN.search(text) is not None


def _closing(lines: list[str], at: int, fence: str) -> int | None:
    """The line that closes the block that this line opens."""
    closing = re.compile(rf" {{0,3}}{re.escape(fence[0])}{{{len(fence)},}}[ \t]*")
    return next(
        (i for i in range(at + 1, len(lines)) if closing.fullmatch(lines[i].rstrip("\r\n"))), None
    )


def _block(language: str, code: str) -> CodeBlock | None:
    if language == "xml" and code.lstrip().startswith("<svg"):
        language = "svg"
    is_one = language in {"html", "svg"} and SHORTEST <= len(code) <= LONGEST and "<" in code
    return CodeBlock(language, code) if is_one else None


def artifacts_of(turn: Turn) -> list[CodeBlock]:
    """The artifacts of a turn."""
    return [
        piece
        for part in turn.parts
        if isinstance(part, Text) and may_have_artifacts(part.content)
        for piece in split_artifacts(part.content)
        if isinstance(piece, CodeBlock)
    ]


class ArtifactIndex:
    """The artifacts of a branch; each turn is parsed once."""

    def __init__(self) -> None:
        self._by_turn: dict[str, list[CodeBlock]] = {}
        self._mark: object = None
        self._found: dict[tuple[str, int], Artifact] = {}

    def of(self, turns: Iterable[Turn], mark: object) -> Mapping[tuple[str, int], Artifact]:
        """The artifacts by turn and number, in the order of the branch; ``mark`` changes with the branch."""
        if mark != self._mark:
            self._mark = mark
            self._found = {}
            counts: dict[str, int] = {}
            for turn in turns:
                if turn.role == "user" or not turn.id:
                    continue
                if turn.id not in self._by_turn:
                    self._by_turn[turn.id] = artifacts_of(turn)
                for number, block in enumerate(self._by_turn[turn.id]):
                    counts[block.title] = counts.get(block.title, 0) + 1
                    place = turn.id, number
                    self._found[place] = Artifact(*place, turn.role, block, counts[block.title])
        return self._found


def compare(old: str, new: str) -> str:
    """The diff between two versions; empty if they are equal or too long."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MOST_LINES:
        return ""
    return "\n".join(list(difflib.unified_diff(before, after, lineterm="", n=3))[2:])


def as_code(code: str, language: str) -> str:
    """Code as a Markdown block, also if it contains backticks."""
    longest = max((len(found) for found in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code.rstrip()}\n{fence}\n"
