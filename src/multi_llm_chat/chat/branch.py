"""The shown branch of a conversation, in memory.

Rules:
1. It holds the turns that the store has on the branch, or the last of them (``is_whole``), and the turns that were added since.
2. The turns of one run stand together, also where the store has another speaker's turns between them.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from multi_llm_chat.history.json_values import as_list
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import Placed
from multi_llm_chat.store.transaction import OperationContext

#: Marks the council's run and its turns, in which a speaker evaluates the others' answers.
COUNCIL: Final = "council"


class Branch:
    """The turns of the shown branch."""

    def __init__(self) -> None:
        #: Increases with every change.
        self.version = 0
        #: How many turns the conversation has on all branches, as far as this process knows.
        self.total = 0
        #: Whether it holds all turns of the branch; if not, about how many tokens the missing ones have.
        self.is_whole = True
        self.tokens_before = 0
        self._placed: list[Placed] = []

    @property
    def last(self) -> str | None:
        """The id of the last turn."""
        return self._placed[-1].turn.id if self._placed else None

    @property
    def placed(self) -> list[Placed]:
        """The turns with their runs, as they were added."""
        return list(self._placed)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns, those of each run together."""
        return tuple(placed.turn for placed in by_run(self._placed))

    def copy(self) -> "Branch":
        """Another branch with the same turns."""
        other = Branch()
        other.take(self._placed, self.total)
        return other

    def take(self, placed: Iterable[Placed], total: int) -> None:
        """Replace the turns by those of the store; ``total`` is the number of turns on all branches."""
        self.version += 1
        self._placed = list(placed)
        self.total = total

    def back_to(self, turn: str | None) -> None:
        """Drop the turns after an earlier one; in the store, they stay on another branch."""
        self.version += 1
        kept = 0
        if turn is not None:
            kept = 1 + next(at for at, placed in enumerate(self._placed) if placed.turn.id == turn)
        self._placed = self._placed[:kept]

    def add(self, turn: Turn, run: str | None) -> None:
        """Add a turn, unless the branch has it."""
        if turn.id and any(each.turn.id == turn.id for each in reversed(self._placed)):
            return
        self.version += 1
        self.total += 1
        created_ms = turn.created_at if isinstance(turn.created_at, int) else 0
        self._placed.append(Placed(turn, self.last, run, created_ms))


def by_run(placed: Iterable[Placed]) -> list[Placed]:
    """The turns, those of each run together at the place of its first turn."""
    groups: dict[object, list[Placed]] = {}
    for at, each in enumerate(placed):
        groups.setdefault(each.run_id or at, []).append(each)
    return [each for group in groups.values() for each in group]


def new_id() -> str:
    """An id for a turn, a run or a conversation."""
    return OperationContext().new_id()


def addressed_by(turn: Turn) -> tuple[str, ...]:
    """The speakers that a saved message addresses."""
    return tuple(map(str, as_list(turn.meta.get("addressed")) or ()))


def typed(turn: Turn) -> str:
    """A message as the user typed it."""
    text: Any = turn.meta.get("typed")
    if isinstance(text, str):
        return text
    return "\n".join(part.content for part in turn.parts if isinstance(part, Text))


# Titles.

#: The marks of Markdown, and the text that remains of each. Names such as ``__init__.py`` and terms such as ``2 * 3`` have none.
_MARKS: Final = (
    (re.compile(r"^[ \t]*(?:`{3,}|~{3,}).*$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+]|\d{1,9}[.)])[ \t]+", re.MULTILINE), ""),
    (re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:[ \t]+\"[^\"]*\")?\)"), r"\1"),
    (re.compile(r"(`+)([^`]+)\1"), r"\2"),
    *((re.compile(rf"(?<![\w*~])({mark})(?=[^\s*_~])(.+?)(?<=[^\s*_~])\1(?![*~]|\.?\w)"), r"\2") for mark in (r"\*\*\*", r"\*\*", "__", "~~", r"\*", "_")),
)  # fmt: skip
_OPEN_MARK: Final = re.compile(r"(?<!\S)(?:\*{1,3}|~~|`+)(?=\w)")


def plain_title(text: str) -> str:
    """A title without the Markdown marks that earlier versions saved; a title of marks only stays unchanged."""
    plain = text
    for mark, stays in _MARKS:
        plain = mark.sub(stays, plain)
    if plain.endswith("…"):  # a title that was cut may have lost the mark that closes
        plain = _OPEN_MARK.sub("", plain)
    return " ".join(plain.split()) or " ".join(text.split())
