"""Turns, which are appended to a tree and read along a branch; and branches: their heads, and siblings of turns.

Rules:
1. Turns are never changed and never removed; an edit is another child of the same parent.
2. An existing turn is not written again: appending is idempotent.
3. A branch ends at its head. Turns are appended there; a caller that names the head it expects gets a ``Conflict`` if the branch has
   another one.
4. A turn without an id or a time gets both; nothing else about it is changed.
5. A branch is a name for its last turn; ``main`` is the shown branch.
6. Siblings are the children of one parent, oldest first; roots are siblings too.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from multi_llm_chat.archive.document import MAIN
from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import Part, Turn
from multi_llm_chat.store.conversations import checked_id, key_of, touch
from multi_llm_chat.store.records import Appended, BranchEnd, Conflict, Page, Placed
from multi_llm_chat.store.search import add_turn
from multi_llm_chat.store.transaction import Row, Transaction, chunks, reading
from multi_llm_chat.store.turn_rows import (
    TurnRow,
    moment_ms,
    read_part_row,
    read_turn_row,
    text_of,
    write_part_row,
    write_turn_row,
)

# Turns.


class _End:
    """The type of ``END``."""


#: The end of the branch.
END: Final = _End()


def append(
    transaction: Transaction,
    conversation: str,
    turns: Sequence[Turn],
    *,
    branch: str = MAIN,
    parent: str | _End | None = END,
    expected: str | _End | None = END,
    run_id: str | None = None,
) -> Appended | Conflict:
    """Append turns, each answering the one before, and move the branch's head to the last.

    Args:
        transaction: the transaction.
        conversation: its id.
        turns: at least one. A turn whose id the conversation has already is taken as saved.
        branch: the name of the branch.
        parent: the turn before the first one: the branch's end, a turn's id, or None for a new root.
        expected: the turn at which the caller expects the branch to end (None: it is empty), if that matters.
        run_id: the run that made the turns.

    Returns:
        The turns with ids and times; or a ``Conflict``, and nothing was saved.
    """
    key = key_of(transaction, conversation, lock=True)
    complete = tuple(_complete(transaction, turn) for turn in turns)
    if not complete:
        raise UsageError("There is no turn to append.")
    there = keys_of(transaction, key, [turn.id or "" for turn in complete])
    head = _head(transaction, key, branch)
    if all(turn.id in there for turn in complete):
        # An earlier attempt was committed; later changes stay.
        return Appended(complete, head[1] if head else complete[-1].id or "")
    if not isinstance(expected, _End) and expected != (head[1] if head else None):
        return Conflict(head[1] if head else None)
    if isinstance(parent, _End):
        above = head[0] if head else None
    else:
        above = None if parent is None else turn_key(transaction, key, parent)
    for turn in complete:
        identifier = turn.id or ""
        if identifier not in there:
            there[identifier] = insert_turn(transaction, key, turn, above, run_id=run_id)
        above = there[identifier]
    set_head(transaction, key, branch, there[complete[-1].id or ""])
    touch(transaction, key)
    return Appended(complete, complete[-1].id or "")


@reading
def path(transaction: Transaction, conversation: str, *, head: str = MAIN) -> list[Turn]:
    """All turns of a branch, oldest first."""
    key = key_of(transaction, conversation)
    end = _head(transaction, key, head)
    return [placed.turn for placed in _walk(transaction, end[0], None)] if end else []


@reading
def path_to(transaction: Transaction, conversation: str, turn: str) -> list[Turn]:
    """The turns from the beginning to one turn, oldest first."""
    key = key_of(transaction, conversation)
    start = turn_key(transaction, key, turn)
    return [placed.turn for placed in _walk(transaction, start, None)]


@reading
def placed_to(transaction: Transaction, conversation: str, turn: str) -> list[Placed]:
    """The turns from the beginning to one turn with their positions, oldest first."""
    key = key_of(transaction, conversation)
    return _walk(transaction, turn_key(transaction, key, turn), None)


@reading
def turns_of_run(transaction: Transaction, conversation: str, run_id: str) -> list[Turn]:
    """The turns of a run, in the order in which they were saved."""
    rows = transaction.rows(
        "SELECT turns.key, turns.id, above.id, turns.run_id, turns.author, turns.model, turns.created_ms, turns.fields"
        " FROM turns LEFT JOIN turns AS above ON above.key = turns.parent"
        " WHERE turns.conversation = ? AND turns.run_id = ? ORDER BY turns.key",
        key_of(transaction, conversation), run_id,
    )  # fmt: skip
    return [placed.turn for placed in read_placed(transaction, rows)]


def follows(transaction: Transaction, conversation: str, branch: str, turn: str | None) -> bool:
    """Whether the turn is on the branch; None counts as on every branch."""
    if turn is None:
        return True
    key = key_of(transaction, conversation)
    head, wanted = _head(transaction, key, branch), turn_key(transaction, key, turn)
    if head is None:
        return False
    # Walk up from the end, at most to the turn.
    found = transaction.rows(
        "WITH RECURSIVE walk(key, parent) AS (SELECT key, parent FROM turns WHERE key = ?"
        " UNION ALL SELECT turns.key, turns.parent FROM walk JOIN turns ON turns.key = walk.parent"
        " WHERE walk.key <> ?) SELECT 1 FROM walk WHERE key = ?",
        head[0], wanted, wanted,
    )  # fmt: skip
    return bool(found)


@reading
def page(
    transaction: Transaction,
    conversation: str,
    *,
    head: str = MAIN,
    before: str | None = None,
    limit: int = 50,
) -> Page:
    """The last turns of a branch, or the last ones before the turn ``before``."""
    key = key_of(transaction, conversation)
    if before is None:
        end = _head(transaction, key, head)
        start: int | None = end[0] if end else None
    else:
        row = transaction.row(
            "SELECT parent FROM turns WHERE key = ?", turn_key(transaction, key, before)
        )
        start = row[0] if row else None
    if start is None:
        return Page((), more=False)
    placed = _walk(transaction, start, limit)
    return Page(tuple(placed), more=bool(placed) and placed[0].parent is not None)


@reading
def end_of_branch(
    transaction: Transaction, conversation: str, least: int, *, head: str = MAIN
) -> BranchEnd:
    """The last turns of a branch: at least ``least``, starting with a message of the user; and the tokens of the turns before them."""
    key = key_of(transaction, conversation)
    end = _head(transaction, key, head)
    placed = [] if end is None else _walk(transaction, end[0], None, least)
    if not placed or placed[0].parent is None:
        return BranchEnd(tuple(placed), more=False)
    keys = keys_of(transaction, key, [each.turn.id or "" for each in placed])
    tokens = _tokens_before(transaction, list(keys.values()), keys[placed[0].turn.id or ""])
    return BranchEnd(tuple(placed), more=True, tokens_before=tokens)


@reading
def turns_around(
    transaction: Transaction, conversation: str, turn: str, reach: int, *, head: str = MAIN
) -> list[Placed] | None:
    """The turns around a turn of a branch: at least so many before it, starting with a message of the user, and so many after it.

    None if the branch does not have the turn. The query follows the keys from the end, because a turn may have children on several
    branches.
    """
    key = key_of(transaction, conversation)
    wanted = keys_of(transaction, key, [turn]).get(turn)
    end = _head(transaction, key, head)
    if wanted is None or end is None:
        return None
    # A parent has a smaller key than its children, so a walk that reaches a smaller key than the turn's has missed it.
    rows = transaction.rows(
        "WITH RECURSIVE walk(key, parent, depth) AS (SELECT key, parent, 1 FROM turns WHERE key = ?"
        " UNION ALL SELECT turns.key, turns.parent, depth + 1 FROM walk"
        " JOIN turns ON turns.key = walk.parent WHERE walk.key > ?)"
        " SELECT key FROM walk ORDER BY depth DESC LIMIT ?",
        end[0], wanted, reach + 1,
    )  # fmt: skip
    keys = [found for (found,) in rows]
    if keys[0] != wanted:
        return None
    return _walk(transaction, keys[-1], None, len(keys) + reach)


@reading
def turns_with_text(
    transaction: Transaction, conversation: str, before: str, words: Sequence[str]
) -> list[Turn]:
    """The turns before a turn whose texts contain one of these words, in any case; oldest first."""
    above = transaction.row(
        "SELECT parent FROM turns WHERE key = ?",
        turn_key(transaction, key_of(transaction, conversation), before),
    )
    tests = " OR ".join(["lower(body) LIKE ?"] * len(words))
    rows = transaction.rows(
        "WITH RECURSIVE walk(key, parent, depth) AS (SELECT key, parent, 1 FROM turns WHERE key = ?"  # noqa: S608 only question marks
        " UNION ALL SELECT turns.key, turns.parent, depth + 1 FROM walk"
        " JOIN turns ON turns.key = walk.parent)"
        " SELECT turns.key, turns.id, NULL, turns.run_id, turns.author, turns.model,"
        " turns.created_ms, turns.fields FROM walk JOIN turns ON turns.key = walk.key"
        " WHERE EXISTS (SELECT 1 FROM parts WHERE parts.turn = walk.key AND kind = 'text'"
        f" AND ({tests})) ORDER BY depth DESC",
        above[0] if above else None, *(f"%{word.lower()}%" for word in words),
    )  # fmt: skip
    return [placed.turn for placed in read_placed(transaction, rows)]


#: An English token has about four bytes; a Japanese one a little more than one character, which has three bytes.
_BYTES_OF_A_TOKEN: Final = 4


def _tokens_before(transaction: Transaction, keys: Sequence[int], first: int) -> int:
    """About how many tokens the turns before these have: as the provider reported for the last answer, else estimated from their bytes."""
    size = "octet_length(body)" if transaction.database == "postgres" else "length(CAST(body AS BLOB))"  # fmt: skip
    counted, own = 0, 0
    for marks, chunk in chunks(keys):
        row = transaction.row(
            f"SELECT input_tokens FROM usage WHERE turn IN ({marks}) AND input_tokens > 0 ORDER BY turn DESC LIMIT 1",  # noqa: S608 only question marks
            *chunk,
        )
        counted = row[0] if row else counted
        ((found,),) = transaction.rows(
            f"SELECT CAST(COALESCE(sum({size}), 0) AS BIGINT) FROM parts WHERE turn IN ({marks})",  # noqa: S608 only question marks
            *chunk,
        )
        own += found
    if counted:
        return max(0, counted - own // _BYTES_OF_A_TOKEN)
    ((before,),) = transaction.rows(
        "WITH RECURSIVE walk(key, parent) AS (SELECT key, parent FROM turns"  # noqa: S608 our own words
        " WHERE key = (SELECT parent FROM turns WHERE key = ?)"
        " UNION ALL SELECT turns.key, turns.parent FROM walk JOIN turns ON turns.key = walk.parent)"
        f" SELECT CAST(COALESCE(sum({size}), 0) AS BIGINT) FROM walk JOIN parts ON parts.turn = walk.key",
        first,
    )  # fmt: skip
    return before // _BYTES_OF_A_TOKEN


@reading
def get_turn(transaction: Transaction, conversation: str, turn: str) -> Placed:
    """One turn."""
    key = key_of(transaction, conversation)
    return _walk(transaction, turn_key(transaction, key, turn), 1)[0]


def insert_turn(
    transaction: Transaction,
    conversation: int,
    turn: Turn,
    parent: int | None,
    *,
    run_id: str | None = None,
) -> int:
    """Write a turn with its parts and its search terms; return its key."""
    row = write_turn_row(turn)
    created_ms = moment_ms(turn.created_at, transaction.now_ms)
    inserted = transaction.rows(
        "INSERT INTO turns(conversation, id, parent, run_id, author, model, created_ms, fields)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING key",
        conversation, turn.id, parent, run_id, row.author, row.model, created_ms, row.fields,
    )  # fmt: skip
    key: int = inserted[0][0]
    parts = [write_part_row(part) for part in turn.parts]
    transaction.many(
        "INSERT INTO blobs(sha256, size, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(part.blob, len(part.data), part.data) for part in parts if part.blob],
    )
    transaction.many(
        "INSERT INTO parts(turn, position, kind, body, blob) VALUES (?, ?, ?, ?, ?)",
        [(key, place, part.kind, part.body, part.blob) for place, part in enumerate(parts)],
    )
    add_turn(transaction, key, text_of(turn))
    return key


def set_head(transaction: Transaction, conversation: int, name: str, turn: int) -> None:
    """Set the head of the branch."""
    transaction.rows(
        "INSERT INTO heads(conversation, name, turn) VALUES (?, ?, ?)"
        " ON CONFLICT (conversation, name) DO UPDATE SET turn = excluded.turn",
        conversation, clean_text(name), turn,
    )  # fmt: skip


def keys_of(
    transaction: Transaction, conversation: int, identifiers: Sequence[str]
) -> dict[str, int]:
    """The keys of the turns that exist."""
    found: dict[str, int] = {}
    for marks, chunk in chunks(identifiers):
        found.update(
            (identifier, key)
            for identifier, key in transaction.rows(
                f"SELECT id, key FROM turns WHERE conversation = ? AND id IN ({marks})",  # noqa: S608 only question marks
                conversation,
                *chunk,
            )
        )
    return found


def turn_key(transaction: Transaction, conversation: int, identifier: str) -> int:
    """The key of a turn; raises if it does not exist."""
    identifier = clean_text(identifier)
    found = keys_of(transaction, conversation, [identifier])
    if not found:
        raise StoreError(f"The conversation has no turn {identifier[:60]!r}.", reason="missing")
    return found[identifier]


def read_placed(transaction: Transaction, rows: Sequence[Row]) -> list[Placed]:
    """Read the parts of turns; return the turns in the order of the rows.

    A row is: key, id, parent's id, run, author, model, time, fields.
    """
    parts: dict[int, list[Part]] = {}
    for marks, chunk in chunks([row[0] for row in rows]):
        for key, kind, body, data in transaction.rows(
            "SELECT turn, kind, body, data FROM parts LEFT JOIN blobs ON sha256 = blob"  # noqa: S608 only question marks
            f" WHERE turn IN ({marks}) ORDER BY turn, position",
            *chunk,
        ):
            parts.setdefault(key, []).append(read_part_row(kind, body, data))
    return [
        Placed(
            read_turn_row(row[1], TurnRow(row[4], row[5], row[7]), tuple(parts.get(row[0], ()))),
            row[2],
            row[3],
            row[6],
        )
        for row in rows
    ]


def _walk(
    transaction: Transaction, start: int, limit: int | None, least: int | None = None
) -> list[Placed]:
    """Walk from a turn towards its root: at most ``limit`` turns, or up to the first message after ``least`` turns; oldest first."""
    rows = transaction.rows(
        "WITH RECURSIVE walk(key, parent, depth, author) AS ("
        " SELECT key, parent, 1, author FROM turns WHERE key = ?"
        " UNION ALL SELECT turns.key, turns.parent, depth + 1, turns.author FROM walk"
        " JOIN turns ON turns.key = walk.parent"
        " WHERE depth < ? AND NOT (depth >= ? AND walk.author = 'user'))"
        " SELECT turns.key, turns.id, above.id, turns.run_id, turns.author, turns.model,"
        " turns.created_ms, turns.fields FROM walk JOIN turns ON turns.key = walk.key"
        " LEFT JOIN turns AS above ON above.key = walk.parent ORDER BY depth DESC",
        start, 2**31 if limit is None else limit, 2**31 if least is None else least,
    )  # fmt: skip
    return read_placed(transaction, rows)


def _head(transaction: Transaction, conversation: int, name: str) -> tuple[int, str] | None:
    row = transaction.row(
        "SELECT turn, id FROM heads JOIN turns ON turns.key = heads.turn"
        " WHERE heads.conversation = ? AND name = ?",
        conversation, clean_text(name),
    )  # fmt: skip
    return (row[0], row[1]) if row else None


def _complete(transaction: Transaction, turn: Turn) -> Turn:
    identifier = transaction.new_id() if turn.id is None else checked_id(turn.id)
    created_at = transaction.now_ms if turn.created_at is None else turn.created_at
    return replace(turn, id=identifier, created_at=created_at)


# Branches.

#: Two nearly equal queries, because roots have no parent by which an index could find them.
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
    """The names of all branches, with the ids of their last turns."""
    rows = transaction.rows(
        "SELECT name, id FROM heads JOIN turns ON turns.key = heads.turn"
        " WHERE heads.conversation = ? ORDER BY name",
        key_of(transaction, conversation),
    )
    return {name: identifier for name, identifier in rows}  # noqa: C416 rows are tuples of any length


def move_head(
    transaction: Transaction, conversation: str, turn: str, *, branch: str = MAIN
) -> None:
    """Set the head of a branch to another turn of the conversation; a new name creates a new branch."""
    key = key_of(transaction, conversation, lock=True)
    set_head(transaction, key, branch, turn_key(transaction, key, turn))


def drop_head(transaction: Transaction, conversation: str, branch: str) -> None:
    """Remove a branch; its turns stay. Without ``main`` the conversation starts anew."""
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
    """For each existing turn, all children of its parent, including itself."""
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
    """The leaf that is reached from a turn by following always the newest child."""
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
