"""What every importer gives back, and how it looks at a foreign value."""

from collections.abc import Iterable
from typing import Any, cast

from msgspec import Struct

from multi_llm_chat.archive.document import Conversation


class Imported(Struct, frozen=True):
    """The conversations that could be read, and a line about each thing that could not."""

    conversations: tuple[Conversation, ...] = ()
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
    return next((told for told in candidates if isinstance(told, str) and told.strip()), "")


def joined(lines: Iterable[str]) -> str:
    """The lines that say something."""
    return "\n".join(line for line in lines if line.strip())
