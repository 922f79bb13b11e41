"""The content of a page as values, without HTML and translated text.

Rules:
1. An answer looks the same while it streams and after a reload: both are a ``PageAnswer``.
2. An exchange is a message and all answers to it; the answers of one exchange stand side by side.
3. Element ids in a page are made from the ids of turns and runs, so that changes can address their elements.
4. In a URL every id is one path segment that browsers and proxies do not change, and every segment names one id. Ids of letters, digits,
   ``.``, ``_`` and ``-`` are used unchanged, all others (such as those with a ``/``) are encoded, after a ``~``.
"""

import base64
import binascii
import csv
import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct, field

from multi_llm_chat.events import Usage
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import JsonObject, Media, ToolCall, ToolResult
from multi_llm_chat.store import ErrorRecord
from multi_llm_chat.tools.approval import visible_text
from multi_llm_chat.tools.mcp import Elicitation
from multi_llm_chat.tools.tool import ToolHint

# Ids in URLs.

_PLAIN: Final = re.compile(r"\w[\w.-]*")
_MARK: Final = "~"


def address_of(identifier: str) -> str:
    """The path segment that names the id."""
    if _PLAIN.fullmatch(identifier):
        return quote(identifier)
    return _MARK + base64.urlsafe_b64encode(identifier.encode()).decode().rstrip("=")


def id_of(segment: str) -> str:
    """The id that a percent-decoded segment names."""
    if not segment.startswith(_MARK):
        return segment
    encoded = segment.removeprefix(_MARK)
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return segment


# Views.

#: Longer results and arguments are truncated in the page; the history and approval requests have them in full.
MOST_CHARACTERS: Final = 20_000

#: Longer values are shown as old and new value, not as a diff.
_MOST_DIFF_LINES: Final = 1_000

#: The first characters of a diff.
_DIFF: Final = re.compile(r"diff --git |--- [^\n]*\n\+\+\+ |Index: ")

ToolState: TypeAlias = Literal["writing", "waiting", "running", "done", "failed"]


class TextSegment(Struct, frozen=True):
    """Text as HTML: the final part, and the unfinished tail."""

    id: str
    final: str
    tail: str = ""
    kind: Literal["words"] = "words"


class ThinkingSegment(Struct, frozen=True):
    """The thinking of a model."""

    id: str
    text: str
    kind: Literal["thoughts"] = "thoughts"


class NoteSegment(Struct, frozen=True):
    """A note of the run, such as a compression or a wait.

    ``wait`` is the reason of a wait (a ``WaitReason``), ``until`` the Unix time at which it ends, if known.
    """

    id: str
    text: str
    wait: str = ""
    until: float | None = None
    kind: Literal["note"] = "note"


class Source(Struct, frozen=True):
    """A page that an answer cites; ``passage`` is the cited text."""

    number: int
    title: str
    url: str
    passage: str = ""

    @property
    def host(self) -> str:
        """The name of the site."""
        return (urlsplit(self.url).hostname or "").removeprefix("www.")


class SourcesSegment(Struct, frozen=True):
    """The pages that an answer cites."""

    id: str
    sources: tuple[Source, ...]
    kind: Literal["sources"] = "sources"


class StepSegment(Struct, frozen=True):
    """A step that the provider ran itself, such as a web search: its name, and its description."""

    id: str
    name: str
    text: str
    kind: Literal["step"] = "step"


class CitedParagraph(Struct, frozen=True):
    """A paragraph of a council member's answer: its number, and its text as the page shows it."""

    number: int
    text: str


#: The position of a council member on a claim; ``silent`` if it does not mention it.
Stance: TypeAlias = Literal["agree", "contradict", "silent"]


class ClaimCell(Struct, frozen=True):
    """The position of one member on a claim, and the paragraphs."""

    stance: Stance = "silent"
    passages: tuple[CitedParagraph, ...] = ()


class ClaimRow(Struct, frozen=True):
    """A claim of a verdict, with a cell for each member."""

    text: str
    cells: tuple[ClaimCell, ...]

    @property
    def agreeing(self) -> int:
        """How many members make the claim."""
        return sum(cell.stance == "agree" for cell in self.cells)

    @property
    def reading(self) -> Literal["contradiction", "all", "some", "one"]:
        """The combined position of all cells."""
        if any(cell.stance == "contradict" for cell in self.cells):
            return "contradiction"
        if self.agreeing == len(self.cells):
            return "all"
        return "some" if self.agreeing > 1 else "one"


class VerdictSegment(Struct, frozen=True):
    """The verdict of a council: the answer as HTML, and a table of claims; ``members`` are names with their hues."""

    id: str
    html: str
    members: tuple[tuple[str, int], ...]
    claims: tuple[ClaimRow, ...]
    kind: Literal["verdict"] = "verdict"

    @property
    def contradictions(self) -> tuple[ClaimRow, ...]:
        """The claims that a member contradicts."""
        return tuple(row for row in self.claims if row.reading == "contradiction")

    @property
    def opponents(self) -> tuple[str, ...]:
        """The members that disagree with each other."""
        found = {
            name
            for row in self.contradictions
            for (name, _), cell in zip(self.members, row.cells, strict=True)
            if cell.stance != "silent"
        }
        return tuple(name for name, _ in self.members if name in found)


class ArtifactSegment(Struct, frozen=True):
    """A page or a drawing that an answer made; ``turn`` and ``number`` name it."""

    id: str
    title: str
    language: str
    version: int = 1
    turn: str = ""
    number: int = 0
    kind: Literal["artifact"] = "artifact"


class PageAttachment(Struct, frozen=True):
    """A picture or a file; ``source`` is its URL on this server."""

    id: str
    name: str
    mime: str
    source: str
    is_picture: bool
    kind: Literal["attachment"] = "attachment"


class ServerForm(Struct, frozen=True):
    """A form of a tool server; ``key`` is the id to answer it with."""

    key: str
    question: Elicitation


class ArgumentChange(Struct, frozen=True):
    """An argument that a person changed: the model's value, and the value that ran; None for an absent argument."""

    name: str
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """The diff of a text with several lines; empty for other values, and for very long ones."""
        before, after = (self.before or "").splitlines(), (self.after or "").splitlines()
        if not 2 < len(before) + len(after) <= _MOST_DIFF_LINES:
            return ""
        lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[3:]
        return "\n".join("…" if line.startswith("@@") else line for line in lines)


class ToolSegment(Struct, frozen=True):
    """A tool call and its outcome.

    ``name`` is the tool's own name and ``source`` its server; ``rows`` are the arguments that the model wrote, ``changes`` those that a
    person changed. ``hints`` are the server's annotations of the tool. ``question`` is the id of an open approval request, ``editable`` the
    arguments as JSON to edit; ``interrupted`` says that the call was started before and may have had its effect. ``form`` is the open form
    of the server while the call runs.
    """

    id: str
    name: str
    state: ToolState
    source: str = ""
    description: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    raw: str = ""
    result: str = ""
    attachments: tuple[PageAttachment, ...] = ()
    seconds: float | None = None
    question: str = ""
    interrupted: bool = False
    form: ServerForm | None = None
    changes: tuple[ArgumentChange, ...] = ()
    editable: str = ""
    hints: tuple[ToolHint, ...] = ()
    kind: Literal["tool"] = "tool"

    @property
    def changed(self) -> dict[str, ArgumentChange]:
        """The changes by the names of the arguments."""
        return {each.name: each for each in self.changes}

    @property
    def lines(self) -> list[str]:
        """The lines of the result."""
        return self.result.splitlines()

    @property
    def is_diff(self) -> bool:
        """Whether the result is a diff."""
        return bool(_DIFF.match(self.result))

    @property
    def table(self) -> "ResultTable | None":
        """The result as a table, if it is one."""
        return read_table(self.result)


Segment: TypeAlias = (
    TextSegment
    | ThinkingSegment
    | NoteSegment
    | PageAttachment
    | SourcesSegment
    | StepSegment
    | ArtifactSegment
    | VerdictSegment
    | ToolSegment
)


class Footer(Struct, frozen=True):
    """The cost of an answer; None if unknown.

    ``is_about`` if the output tokens are estimated from the text, because the answer ended before its provider reported them;
    ``about_tokens`` is that estimate if the provider reported nothing at all.
    """

    usage: Usage | None = None
    cost: str | None = None
    seconds: float | None = None
    stop_reason: str = ""
    error: ErrorRecord | None = None
    is_about: bool = False
    about_tokens: int = 0


class Switch(Struct, frozen=True):
    """Branches at one point: this is the ``number``-th of ``count``."""

    number: int
    count: int
    before: str | None
    after: str | None


class PageAnswer(Struct, frozen=True):
    """One speaker's answer; ``turn`` is its last turn, ``switch`` its place among the speaker's answers to the message."""

    run: str
    speaker: str
    hue: int
    model: str = ""
    segments: tuple[Segment, ...] = ()
    footer: Footer = Footer()
    turn: str | None = None
    switch: Switch | None = None
    is_live: bool = False
    is_council: bool = False
    is_partial: bool = False

    @property
    def has_words(self) -> bool:
        """Whether there is text to copy."""
        return any(isinstance(segment, TextSegment) for segment in self.segments)


class PageMessage(Struct, frozen=True):
    """A message of the user; ``typed`` is the text to edit."""

    id: str
    html: str
    typed: str
    addressed: tuple[str, ...]
    is_memo: bool
    attachments: tuple[PageAttachment, ...] = ()
    switch: Switch | None = None


class PageExchange(Struct, frozen=True):
    """A message and the answers to it."""

    id: str
    message: PageMessage | None = None
    answers: tuple[PageAnswer, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)


class WaitingMessage(Struct, frozen=True):
    """A message of the outbox; ``addressed`` are the speakers that will answer, none for a memo."""

    id: str
    text: str
    addressed: tuple[str, ...] = ()


class PageOutbox(Struct, frozen=True):
    """The messages that wait until the answers are complete."""

    messages: tuple[WaitingMessage, ...] = ()


class PageSnapshot(Struct, frozen=True):
    """The content of a page, and the position of the log at that moment; there may be earlier and later exchanges.

    ``is_found`` is false if the branch does not have the requested turn.
    """

    exchanges: tuple[PageExchange, ...]
    has_more: bool
    has_later: bool
    position: str
    is_busy: bool
    forms: tuple[ServerForm, ...]
    outbox: PageOutbox
    is_found: bool = True


class Phrase(Struct, frozen=True):
    """A translated text, by its key in the catalogues; ``names`` are appended."""

    key: str
    names: str = ""


#: The values that a change of a page may hold; they are rendered in each reader's language.
Renderable: TypeAlias = Segment | PageAnswer | PageExchange | ServerForm | PageOutbox | Phrase


def attachment(media: Media, identifier: str, source: str) -> PageAttachment:
    """The view of a picture or file."""
    is_picture = media.data is not None and media.mime in PICTURE_TYPES
    where = source if media.data is not None else (media.url or "")
    return PageAttachment(identifier, media.name or media.mime, media.mime, where, is_picture)


#: Types that a browser shows without executing anything.
PICTURE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def format_arguments(call: ToolCall, *, whole: bool = False) -> tuple[tuple[str, str], ...]:
    """The arguments, each with its value: text unchanged, everything else as JSON; invisible characters are made visible.

    Args:
        call: The call.
        whole: Whether long values are not truncated: a user who approves a call must see everything that runs.
    """
    written = (
        (name, value if isinstance(value, str) else compact_json(value))
        for name, value in call.arguments.items()
    )
    return tuple(
        (visible_text(name), visible_text(value if whole else truncate(value)))
        for name, value in written
    )


def changed_arguments(
    written: JsonObject, ran: JsonObject, *, whole: bool = False
) -> tuple[ArgumentChange, ...]:
    """The arguments that ran with another value than the model wrote."""

    def shown(arguments: JsonObject, name: str) -> str | None:
        if name not in arguments:
            return None
        value = arguments[name]
        text = value if isinstance(value, str) else compact_json(value)
        return visible_text(text if whole else truncate(text))

    return tuple(
        ArgumentChange(visible_text(name), shown(written, name), shown(ran, name))
        for name in dict.fromkeys((*written, *ran))
        # As JSON: in Python, 1 and True are equal.
        if (name in written) != (name in ran) or _json(written[name]) != _json(ran[name])
    )


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def result_text(result: ToolResult) -> tuple[str, tuple[Media, ...]]:
    """The text of a result, and its pictures and files."""
    text, media = split_result(result.content)
    return truncate(text), media


def truncate(text: str) -> str:
    """Limit the length of a text."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


# Tables.

#: A result with more columns is shown as text; of one with more rows the first ones are shown.
_MOST_COLUMNS: Final = 8
_MOST_ROWS: Final = 200
_LONGEST_CELL: Final = 200


class ResultTable(Struct, frozen=True):
    """A result in rows; ``count`` is how many it has in all."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    count: int

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold only numbers."""
        return tuple(
            all(_is_number(row[at]) for row in self.rows) for at in range(len(self.columns))
        )


def read_table(text: str) -> ResultTable | None:
    """The table that a JSON list of flat objects with the same names, or a CSV text, describes; None for any other text."""
    if not text.lstrip().startswith("["):
        return _read_csv(text)
    try:
        found: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    if not isinstance(found, list) or not found:
        return None
    rows = cast("list[Any]", found)
    columns = _columns(rows)
    if columns is None:
        return None
    cells = tuple(tuple(_cell(row[name]) for name in columns) for row in rows[:_MOST_ROWS])
    return ResultTable(columns, cells, len(rows))


def _read_csv(text: str) -> ResultTable | None:
    """The table of a CSV text: a line of names, and at least two rows with as many cells."""
    lines = text.strip("\r\n").splitlines()
    if len(lines) < 3:
        return None
    delimiter = next((each for each in ("\t", ";", ",") if each in lines[0]), None)
    if delimiter is None:
        return None
    rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    columns = tuple(rows[0]) if rows else ()
    is_table = (
        2 <= len(columns) <= _MOST_COLUMNS
        and len(set(columns)) == len(columns)
        and all(name.strip() and not _is_number(name) and len(name) <= 60 for name in columns)
        # Prose has a space after its commas.
        and not any(name.startswith(" ") for name in columns)
        and all(len(row) == len(columns) for row in rows)
    )
    if not is_table:
        return None
    cells = tuple(tuple(map(_cell, row)) for row in rows[1 : _MOST_ROWS + 1])
    return ResultTable(columns, cells, len(rows) - 1)


def _columns(rows: Sequence[Any]) -> tuple[str, ...] | None:
    first: Any = rows[0]
    if not isinstance(first, dict) or not 0 < len(cast("dict[str, Any]", first)) <= _MOST_COLUMNS:
        return None
    columns = tuple(cast("dict[str, Any]", first))
    for row in rows:
        if not isinstance(row, dict) or set(cast("dict[str, Any]", row)) != set(columns):
            return None
        if any(isinstance(value, dict | list) for value in cast("dict[str, Any]", row).values()):
            return None
    return columns


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_CELL else f"{value[:_LONGEST_CELL]}…"
    return "" if value is None else compact_json(value)


def _is_number(text: str) -> bool:
    return bool(text) and text.lstrip("-").replace(".", "", 1).isdecimal()


# Speakers.

#: Hues are given in this order; the last one is for models on this machine.
_HUES: Final = {"gemini": 0, "chatgpt": 1, "claude": 2}
_THIS_MACHINE: Final = 7
_LOCAL_NAMES: Final = frozenset({"local", "ollama", "llamacpp", "lmstudio"})


def hue_of(speaker: str, names: Any) -> int:
    """The hue of a speaker: fixed for the well-known ones, in order for the others."""
    if speaker in _HUES:
        return _HUES[speaker]
    if speaker in _LOCAL_NAMES:
        return _THIS_MACHINE
    others = [name for name in names if name not in _HUES and name not in _LOCAL_NAMES]
    place = others.index(speaker) if speaker in others else sum(map(ord, speaker))
    return len(_HUES) + place % (_THIS_MACHINE - len(_HUES))
