"""What a page shows, as values: no HTML, no translated text.

Rules:
1. An answer looks the same while it streams and after a reload: both are a ``PageAnswer``.
2. An exchange is a message and all answers to it; the answers of one exchange stand side by side.
3. Ids in a page are made of the ids of turns and runs, so that changes find their place.
4. In a URL every id is one path segment that browsers and proxies leave alone, and every segment names one id: ids of letters,
   digits, ``.``, ``_`` and ``-`` as they are, all others (such as those with a ``/``) encoded, after a ``~``.
"""

import base64
import binascii
import re
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from msgspec import Struct, field

from multi_llm_chat.events import Usage
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import Media, ToolCall, ToolResult
from multi_llm_chat.store import ErrorRecord
from multi_llm_chat.tools.mcp import Elicitation

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

#: Longer results and arguments are truncated in the page; the history has them whole.
MOST_CHARACTERS: Final = 20_000

ToolState: TypeAlias = Literal["writing", "waiting", "running", "done", "failed"]


class TextSegment(Struct, frozen=True):
    """Text as HTML: the final part, and the open end."""

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
    """A note of the run, such as a compression or a wait."""

    id: str
    text: str
    kind: Literal["note"] = "note"


class PageAttachment(Struct, frozen=True):
    """A picture or a file; ``source`` is its URL on this server."""

    id: str
    name: str
    mime: str
    source: str
    is_picture: bool
    kind: Literal["attachment"] = "attachment"


class ToolSegment(Struct, frozen=True):
    """A tool call and its outcome.

    ``question`` is the id of an open approval request; ``interrupted`` says that the call was started before
    and may have done its work.
    """

    id: str
    name: str
    state: ToolState
    source: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    raw: str = ""
    result: str = ""
    attachments: tuple[PageAttachment, ...] = ()
    seconds: float | None = None
    question: str = ""
    interrupted: bool = False
    kind: Literal["tool"] = "tool"


Segment: TypeAlias = TextSegment | ThinkingSegment | NoteSegment | PageAttachment | ToolSegment


class Footer(Struct, frozen=True):
    """What an answer cost; None if unknown."""

    usage: Usage | None = None
    cost: str | None = None
    seconds: float | None = None
    stop_reason: str = ""
    error: ErrorRecord | None = None


class Switch(Struct, frozen=True):
    """Branches at one point: this is the ``number``-th of ``count``."""

    number: int
    count: int
    before: str | None
    after: str | None


class PageAnswer(Struct, frozen=True):
    """One speaker's answer; ``turn`` is its last turn."""

    run: str
    speaker: str
    hue: int
    model: str = ""
    segments: tuple[Segment, ...] = ()
    footer: Footer = Footer()
    turn: str | None = None
    is_live: bool = False
    is_council: bool = False
    is_partial: bool = False


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
    switch: Switch | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)


class ServerForm(Struct, frozen=True):
    """A form of a tool server; ``key`` is the id to answer it with."""

    key: str
    question: Elicitation


class Phrase(Struct, frozen=True):
    """A translated text, by its key in the catalogues; ``names`` are appended."""

    key: str
    names: str = ""


#: What a change of a page may hold; it is rendered in each reader's language.
Renderable: TypeAlias = Segment | PageAnswer | PageExchange | ServerForm | Phrase


def attachment(media: Media, identifier: str, source: str) -> PageAttachment:
    """The view of a picture or file."""
    is_picture = media.data is not None and media.mime in PICTURE_TYPES
    where = source if media.data is not None else (media.url or "")
    return PageAttachment(identifier, media.name or media.mime, media.mime, where, is_picture)


#: Types that a browser shows without running anything.
PICTURE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def format_arguments(call: ToolCall) -> tuple[tuple[str, str], ...]:
    """The arguments, each with its value as JSON."""
    return tuple((name, truncate(compact_json(value))) for name, value in call.arguments.items())


def result_text(result: ToolResult) -> tuple[str, tuple[Media, ...]]:
    """The text of a result, and its pictures and files."""
    text, media = split_result(result.content)
    return truncate(text), media


def truncate(text: str) -> str:
    """Limit the length of a text."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def hue_of(speaker: str, names: Any) -> int:
    """The colour of a speaker: fixed for the well-known ones, by position for the others."""
    known = _HUES.get(speaker)
    if known is not None:
        return known
    others = [name for name in names if name not in _HUES]
    place = others.index(speaker) if speaker in others else sum(map(ord, speaker))
    return len(_HUES) + place % 5


_HUES: Final = {"gemini": 0, "chatgpt": 1, "claude": 2}
