"""A whole conversation as one value, independent of its store or file; the result of an import, and helpers of importers.

Rules:
1. Turns form a tree: ``parent`` is the id of an earlier turn of the same document, or None at a root.
2. A turn in a document has an id, unique within it, and comes after its parent.
3. A head is the last turn of a branch; ``main`` is the shown branch.
4. Times are milliseconds since 1970.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from msgspec import Struct, field

from multi_llm_chat.history.values import JsonObject, Turn

#: The name of the shown branch.
MAIN = "main"


class TreeTurn(Struct, frozen=True):
    """A turn, the id of the turn before it, and the run that made it: turns of one run belong together."""

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


# The result of an importer, and helpers to read values of unknown type.


class Imported(Struct, frozen=True):
    """The conversations that could be read, and one line for each problem."""

    conversations: tuple[ConversationDocument, ...] = ()
    problems: tuple[str, ...] = ()


class UnreadableError(Exception):
    """A conversation cannot be read; the text says why."""


def member(value: object, *path: str) -> Any:
    """The value at the path in nested objects; None if there is none."""
    for step in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, object]", value).get(step)
    return value


def text(value: object) -> str:
    """The value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def listed(value: object) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def identifier(*candidates: object) -> str:
    """The first candidate that can be an id, else an empty string."""
    return next((each for each in candidates if isinstance(each, str) and each.strip()), "")


def joined(lines: Iterable[str]) -> str:
    """The lines that are not blank, joined to one text."""
    return "\n".join(line for line in lines if line.strip())


# Times in imported files.


def read_ms(value: object) -> int | None:
    """Seconds or milliseconds as a number, or an ISO 8601 text; None for anything else."""
    try:
        match value:
            case bool():
                return None
            case int() | float():
                # Present times have ten digits in seconds, and thirteen in milliseconds.
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
    """A time as readable text in UTC; empty if there is none."""
    moment = read_ms(created_ms)
    if moment is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""
