"""The conversation that a service has open: its id, its own settings and its shown branch, as last read.

Rules:
1. Turns are read only if the branch has another last turn than this process knows, or if only its end was read so far.
2. Switching to a branch switches to its newest end.
3. The note of a compressed history stays with its speaker until the conversation moves to another branch.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from multi_llm_chat.chat.branch import Branch, new_id
from multi_llm_chat.events import Cut
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store import (
    Placed,
    end_of_branch,
    get,
    move_head,
    newest_leaf,
    page,
    read_conversation_state,
)
from multi_llm_chat.store.transaction import Transaction, reading

#: Stands for a conversation that is not in the store yet.
NEW: Final = ""

#: More turns than any conversation has.
_ALL: Final = 2**31 - 1


class StoredBranch(Struct, frozen=True):
    """A conversation's own settings, its shown branch or the end of it, and how many turns it has on all branches.

    ``tokens_before`` is about how many tokens the turns before the end have.
    """

    own: JsonObject
    placed: tuple[Placed, ...]
    total: int
    is_whole: bool = True
    tokens_before: int = 0


class OpenConversation:
    """One conversation in memory; a new one if no id is given."""

    def __init__(self, identifier: str | None = None) -> None:
        self.id = identifier or new_id()
        #: Whether the conversation is not in the store yet.
        self.is_new = identifier is None
        #: The conversation's own settings.
        self.own: JsonObject = {}
        #: Where the history of each speaker was cut to fit the model's context window.
        self.cuts: dict[str, Cut] = {}
        self.branch = Branch()

    @property
    def known(self) -> str | None:
        """The last turn, if this process has the whole branch; ``NEW`` for a conversation that is not in the store yet."""
        return NEW if self.is_new else self.branch.last if self.branch.is_whole else None

    def take(self, found: StoredBranch | None, added: Sequence[Placed] = ()) -> None:
        """Replace the branch by that of the store, followed by the turns that the store does not have yet."""
        if found is not None:
            self.is_new = False
            self.own = found.own
            self.branch.take((*found.placed, *added), found.total + len(added))
            self.branch.is_whole, self.branch.tokens_before = found.is_whole, found.tokens_before

    def change(self, changes: JsonObject) -> None:
        """Change settings; None removes one."""
        merged = self.own | changes
        self.own = {name: value for name, value in merged.items() if value is not None}


@reading
def read_shown(
    transaction: Transaction, conversation: str, known: str | None, least: int | None = None
) -> StoredBranch | None:
    """The shown branch, or its last turns, at least so many; None if its end is the one that the caller knows."""
    if known == NEW:
        return None
    own = get(transaction, conversation).settings
    standing = read_conversation_state(transaction, conversation)
    assert standing is not None
    if known is not None and standing.head == known:
        return None
    if least is not None:
        end = end_of_branch(transaction, conversation, least)
        return StoredBranch(own, end.turns, standing.turns, not end.more, end.tokens_before)
    return StoredBranch(own, page(transaction, conversation, limit=_ALL).turns, standing.turns)


def switch_to(transaction: Transaction, conversation: str, turn: str) -> None:
    """Show the branch that the turn is on."""
    move_head(transaction, conversation, newest_leaf(transaction, conversation, turn))
