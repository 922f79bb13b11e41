"""Reads and moves of the shown branch, one transaction each.

Rules:
1. Turns are read only if the branch has another end than the caller knows.
2. Switching to a branch switches to its newest end.
"""

from typing import Final

from msgspec import Struct

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store import Placed, get, move_head, newest_leaf, page, read_standing
from multi_llm_chat.store.transaction import Transaction, reading

#: Stands for a conversation that is not in the store yet.
NEW: Final = ""

#: More turns than any conversation has.
_ALL: Final = 2**31 - 1


class Found(Struct, frozen=True):
    """A conversation's own settings, its shown branch, and how many turns it has on all branches."""

    own: JsonObject
    placed: tuple[Placed, ...]
    total: int


@reading
def read_shown(transaction: Transaction, conversation: str, known: str | None) -> Found | None:
    """The shown branch; None if its end is the one that the caller knows."""
    if known == NEW:
        return None
    own = get(transaction, conversation).settings
    standing = read_standing(transaction, conversation)
    assert standing is not None
    if known is not None and standing.head == known:
        return None
    return Found(own, page(transaction, conversation, limit=_ALL).turns, standing.turns)


def switch_to(transaction: Transaction, conversation: str, turn: str) -> None:
    """Show the branch that the turn is on."""
    move_head(transaction, conversation, newest_leaf(transaction, conversation, turn))
