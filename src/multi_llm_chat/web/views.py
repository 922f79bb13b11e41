"""What a page shows, as values: no HTML, no words of ours.

Rules:
1. An answer looks the same while it streams and after a reload: both are an ``AnswerView``.
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
from multi_llm_chat.history.result_parts import split_result
from multi_llm_chat.history.values import Media, ToolCall, ToolResult
from multi_llm_chat.store import ErrorRecord
from multi_llm_chat.tools.mcp import Elicitation

# Ids in addresses.

_PLAIN: Final = re.compile(r"\w[\w.-]*")
_MARK: Final = "~"


def address_of(identifier: str) -> str:
    """The segment of an address that names the id."""
    if _PLAIN.fullmatch(identifier):
        return quote(identifier)
    return _MARK + base64.urlsafe_b64encode(identifier.encode()).decode().rstrip("=")


def id_of(segment: str) -> str:
    """The id that a segment names, the segment's percent signs being read already."""
    if not segment.startswith(_MARK):
        return segment
    encoded = segment.removeprefix(_MARK)
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return segment


# Views.

#: Longer results and arguments are cut in the page; the history has them whole.
LONGEST: Final = 20_000

ToolState: TypeAlias = Literal["writing", "waiting", "running", "done", "failed"]


class Words(Struct, frozen=True):
    """Markdown as HTML: what is final, and the open end."""

    id: str
    final: str
    tail: str = ""
    kind: Literal["words"] = "words"


class Thoughts(Struct, frozen=True):
    """What a model thought."""

    id: str
    text: str
    kind: Literal["thoughts"] = "thoughts"


class Note(Struct, frozen=True):
    """Something told beside the answer."""

    id: str
    text: str
    kind: Literal["note"] = "note"


class Attachment(Struct, frozen=True):
    """A picture or a file; ``source`` is where this server has it."""

    id: str
    name: str
    mime: str
    source: str
    is_picture: bool
    kind: Literal["attachment"] = "attachment"


class Tool(Struct, frozen=True):
    """A call of a tool, and what became of it.

    ``question`` is the id under which the user's decision is awaited; ``interrupted`` tells that the call was begun before,
    and may have done its work.
    """

    id: str
    name: str
    state: ToolState
    source: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    raw: str = ""
    result: str = ""
    attachments: tuple[Attachment, ...] = ()
    seconds: float | None = None
    question: str = ""
    interrupted: bool = False
    kind: Literal["tool"] = "tool"


Segment: TypeAlias = Words | Thoughts | Note | Attachment | Tool


class Footer(Struct, frozen=True):
    """What an answer took; None where it is not known."""

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


class AnswerView(Struct, frozen=True):
    """One speaker's answer; ``turn`` is its last turn, ``text`` its words as they were written."""

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


class MessageView(Struct, frozen=True):
    """The user's words; ``typed`` is what to edit."""

    id: str
    html: str
    typed: str
    addressed: tuple[str, ...]
    is_memo: bool
    attachments: tuple[Attachment, ...] = ()
    switch: Switch | None = None


class Exchange(Struct, frozen=True):
    """A message and the answers to it."""

    id: str
    message: MessageView | None = None
    answers: tuple[AnswerView, ...] = ()
    switch: Switch | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)


class Asked(Struct, frozen=True):
    """What a server of tools wants to know; ``key`` is the id under which the answer is awaited."""

    key: str
    question: Elicitation


class Phrase(Struct, frozen=True):
    """Words of ours, by their key in the catalogues; ``names`` are put at the end."""

    key: str
    names: str = ""


#: What a change of a page may hold: each reader has it drawn in their own language.
Drawable: TypeAlias = Segment | AnswerView | Exchange | Asked | Phrase


def attachment(media: Media, identifier: str, source: str) -> Attachment:
    """A picture or file as it is shown."""
    is_picture = media.data is not None and media.mime in PICTURES
    where = source if media.data is not None else (media.url or "")
    return Attachment(identifier, media.name or media.mime, media.mime, where, is_picture)


#: What a browser shows without running anything.
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def argument_rows(call: ToolCall) -> tuple[tuple[str, str], ...]:
    """The arguments, each with its value as JSON."""
    return tuple((name, cut(compact_json(value))) for name, value in call.arguments.items())


def result_text(result: ToolResult) -> tuple[str, tuple[Media, ...]]:
    """A result's words, and its pictures and files."""
    words, media = split_result(result.content)
    return cut(words), media


def cut(text: str) -> str:
    """The text, if it is not too long to look at."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def hue_of(speaker: str, names: Any) -> int:
    """Which colour a speaker has: the well-known ones their own, the others by their place."""
    known = _HUES.get(speaker)
    if known is not None:
        return known
    others = [name for name in names if name not in _HUES]
    place = others.index(speaker) if speaker in others else sum(map(ord, speaker))
    return len(_HUES) + place % 5


_HUES: Final = {"gemini": 0, "chatgpt": 1, "claude": 2}
