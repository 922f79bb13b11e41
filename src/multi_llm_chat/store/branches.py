"""Branches: where they end, and what else was said at the same point.

Rules:
1. A branch is a name for its last turn; ``main`` is the one that is shown.
2. Siblings are the children of one parent, oldest first; roots are siblings too.
"""

from collections.abc import Sequence

from multi_llm_chat.archive.document import MAIN
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.store.conversations import key_of
from multi_llm_chat.store.transaction import Transaction, chunks, reading
from multi_llm_chat.store.turns import set_head, turn_key

#: Twice nearly the same, as roots have no parent by which an index could find them.
_SIBLINGS = """
    SELECT mine.id, other.id, other.key FROM turns AS mine
    JOIN turns AS other ON other.conversation = mine.conversation AND other.parent = mine.parent
    WHERE mine.conversation = ? AND mine.id IN ({marks})
    UNION ALL SELECT mine.id, other.id, other.key FROM turns AS mine
    JOIN turns AS other ON other.conversation = mine.conversation AND other.parent IS NULL
    WHERE mine.conversation = ? AND mine.id IN ({marks}) AND mine.parent IS NULL
    ORDER BY 3"""


@reading
def heads(transaction: Transaction, conversation: str) -> dict[str, str]:
    """Every branch and the id of its last turn."""
    rows = transaction.rows(
        "SELECT name, id FROM heads JOIN turns ON turns.key = heads.turn"
        " WHERE heads.conversation = ? ORDER BY name",
        key_of(transaction, conversation),
    )
    return {name: identifier for name, identifier in rows}  # noqa: C416 rows are tuples of any length


def move_head(
    transaction: Transaction, conversation: str, turn: str, *, branch: str = MAIN
) -> None:
    """Let the branch end at another turn of the conversation; a new name makes a new branch."""
    key = key_of(transaction, conversation, lock=True)
    set_head(transaction, key, branch, turn_key(transaction, key, turn))


def drop_head(transaction: Transaction, conversation: str, branch: str) -> None:
    """Forget where a branch ends; its turns stay. Without ``main`` the conversation begins anew."""
    key = key_of(transaction, conversation, lock=True)
    transaction.rows(
        "DELETE FROM heads WHERE conversation = ? AND name = ?", key, clean_text(branch)
    )


@reading
def children(transaction: Transaction, conversation: str, turn: str | None) -> tuple[str, ...]:
    """The turns that answer a turn, oldest first; None gives the roots."""
    key = key_of(transaction, conversation)
    parent = None if turn is None else turn_key(transaction, key, turn)
    return _children(transaction, key, parent)


@reading
def siblings(
    transaction: Transaction, conversation: str, turns: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """For each of the turns that are there all children of its parent, itself among them."""
    key = key_of(transaction, conversation)
    found: dict[str, tuple[str, ...]] = {}
    for marks, chunk in chunks([clean_text(turn) for turn in turns]):
        for turn, sibling, _ in transaction.rows(
            _SIBLINGS.replace("{marks}", marks), key, *chunk, key, *chunk
        ):
            found[turn] = (*found.get(turn, ()), sibling)
    return found


@reading
def newest_leaf(transaction: Transaction, conversation: str, turn: str) -> str:
    """Where the conversation went on from a turn: always the newest child, to the end."""
    key = key_of(transaction, conversation)
    rows = transaction.rows(
        "WITH RECURSIVE walk(key, depth) AS (SELECT CAST(? AS BIGINT), 0 UNION ALL"
        " SELECT (SELECT max(turns.key) FROM turns WHERE turns.parent = walk.key), depth + 1"
        " FROM walk WHERE walk.key IS NOT NULL)"
        " SELECT id FROM walk JOIN turns ON turns.key = walk.key ORDER BY depth DESC LIMIT 1",
        turn_key(transaction, key, turn),
    )
    return rows[0][0]


def _children(transaction: Transaction, conversation: int, parent: int | None) -> tuple[str, ...]:
    condition = "parent IS NULL" if parent is None else "parent = ?"
    rows = transaction.rows(
        f"SELECT id FROM turns WHERE conversation = ? AND {condition} ORDER BY key",  # noqa: S608 both are ours
        conversation,
        *(() if parent is None else (parent,)),
    )
    return tuple(row[0] for row in rows)
