"""A whole conversation as one value, whatever store or file it comes from, and what reading a file gives.

Rules:
1. Turns form a tree: ``parent`` names an earlier turn of the same document, or is None at a root.
2. A turn in a document has an id, unique within it, and stands behind its parent.
3. A head is the last turn of a branch; ``main`` is the one that is shown.
4. Times are milliseconds since 1970.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject, Turn

#: The branch that is shown.
MAIN = "main"


class TreeTurn(Struct, frozen=True):
    """A turn, the turn it answers, and the run that made it: turns of one run belong together."""

    turn: Turn
    parent: str | None = None
    run: str | None = None


class ConversationDocument(Struct, frozen=True):
    """A conversation with all its branches; times are milliseconds since 1970."""

    id: str
    title: str = ""
    created_ms: int = 0
    archived_ms: int | None = None
    turns: tuple[TreeTurn, ...] = ()
    heads: dict[str, str] = field(default_factory=dict)
    settings: JsonObject = field(default_factory=dict)


# What every importer gives back, and how it reads a foreign value.


class Imported(Struct, frozen=True):
    """The conversations that could be read, and a line about each thing that could not."""

    conversations: tuple[ConversationDocument, ...] = ()
    problems: tuple[str, ...] = ()


class UnreadableError(Exception):
    """This conversation cannot be read; says why."""


def member(value: object, *path: str) -> Any:
    """What stands at the end of the path in nested objects; None where it ends before."""
    for step in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, object]", value).get(step)
    return value


def text(value: object) -> str:
    """The value, if it is a text."""
    return value if isinstance(value, str) else ""


def listed(value: object) -> list[Any]:
    """The value, if it is a list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def identifier(*candidates: object) -> str:
    """The first candidate that can be an id; nothing if there is none."""
    return next((each for each in candidates if isinstance(each, str) and each.strip()), "")


def joined(lines: Iterable[str]) -> str:
    """The lines that are not empty."""
    return "\n".join(line for line in lines if line.strip())


# Times of foreign files.


def read_ms(value: object) -> int | None:
    """Seconds or milliseconds as a number, or an ISO 8601 text; None for anything else."""
    try:
        match value:
            case bool():
                return None
            case int() | float():
                # Seconds of this era have ten digits, milliseconds thirteen.
                return round(value if abs(value) >= 1e11 else value * 1000)
            case str():
                moment = datetime.fromisoformat(value)
                return round(
                    (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
                )
            case _:
                return None
    except (ValueError, OverflowError):
        return None


def write_time(created_ms: object) -> str:
    """A time as people read it, in UTC; nothing where there is none."""
    moment = read_ms(created_ms)
    if moment is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""
