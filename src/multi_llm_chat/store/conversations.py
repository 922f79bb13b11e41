"""Conversations: create, list, find, rename, archive and delete them.

Rules:
1. The id identifies a conversation; titles are text in any script, and need not be unique.
2. ``undelete`` restores a deleted conversation until ``purge`` removes it for good. Until then, only the list of deleted conversations
   contains it.
3. The list starts with the conversation that was changed last.
"""

from typing import Literal, TypeAlias

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.records import Listing, Summary
from multi_llm_chat.store.search import remove_conversation
from multi_llm_chat.store.transaction import Row, Transaction, read_json, reading, write_json

#: Longer ids are refused.
MAX_ID = 200

Which: TypeAlias = Literal["open", "archived", "both", "deleted"]

_WHICH: dict[Which, str] = {
    "open": "deleted_ms IS NULL AND archived_ms IS NULL",
    "archived": "deleted_ms IS NULL AND archived_ms IS NOT NULL",
    "both": "deleted_ms IS NULL",
    "deleted": "deleted_ms IS NOT NULL",
}

_SUMMARY = "SELECT id, title, created_ms, changed_ms, archived_ms, deleted_ms, settings, key FROM conversations"


def create(
    transaction: Transaction,
    title: str = "",
    *,
    settings: JsonObject | None = None,
    identifier: str | None = None,
) -> Summary:
    """Make an empty conversation; if one with this id exists, return it unchanged."""
    made_by = transaction.new_id()
    identifier = made_by if identifier is None else checked_id(identifier)
    now = transaction.now_ms
    transaction.rows(
        "INSERT INTO conversations(user_id, id, made_by, title, settings, created_ms, changed_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        transaction.user, identifier, made_by, clean_text(title), write_json(settings or {}), now, now,
    )  # fmt: skip
    return get(transaction, identifier)


@reading
def get(transaction: Transaction, conversation: str) -> Summary:
    """One conversation."""
    row = transaction.row(
        f"{_SUMMARY} WHERE user_id = ? AND id = ? AND deleted_ms IS NULL",
        transaction.user,
        clean_text(conversation),
    )
    if row is None:
        raise missing(conversation)
    return _summary(row)


@reading
def list_conversations(
    transaction: Transaction,
    *,
    which: Which = "open",
    limit: int = 50,
    after: tuple[int, int] | None = None,
) -> Listing:
    """Conversations, the last changed first; ``after`` is that of the previous page."""
    changed_ms, key = after or (2**62, 0)
    rows = transaction.rows(
        f"{_SUMMARY} WHERE user_id = ? AND {_WHICH[which]} AND (changed_ms, key) < (?, ?)"
        " ORDER BY changed_ms DESC, key DESC LIMIT ?",
        transaction.user, changed_ms, key, limit + 1,
    )  # fmt: skip
    shown = rows[:limit]
    next_page = (shown[-1][3], shown[-1][7]) if len(rows) > limit and shown else None
    return Listing(tuple(map(_summary, shown)), next_page)


@reading
def find(transaction: Transaction, words: str, *, limit: int = 20) -> tuple[Summary, ...]:
    """Find conversations by a person's input: the whole id, the exact title, or the beginning of an id.

    The first of these that finds any decides; archived conversations count.
    """
    words = clean_text(words)
    ways: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("id = ?", (words,)),
        ("title = ?", (words,)),
        # Not LIKE, in which some characters are wildcards.
        ("substr(id, 1, ?) = ?", (len(words), words)),
    )
    for condition, parameters in ways if words else ():
        rows = transaction.rows(
            f"{_SUMMARY} WHERE user_id = ? AND deleted_ms IS NULL AND {condition}"
            " ORDER BY changed_ms DESC, key DESC LIMIT ?",
            transaction.user, *parameters, limit,
        )  # fmt: skip
        if rows:
            return tuple(map(_summary, rows))
    return ()


def rename(transaction: Transaction, conversation: str, title: str) -> None:
    """Give a conversation another title."""
    _change(transaction, conversation, "title = ?", clean_text(title))


def set_settings(transaction: Transaction, conversation: str, settings: JsonObject) -> None:
    """Replace the settings of a conversation: system prompt, speakers, policy."""
    _change(transaction, conversation, "settings = ?", write_json(settings))


def archive(transaction: Transaction, conversation: str, *, archived: bool = True) -> None:
    """Archive a conversation, or bring it back to the list of open ones."""
    moment = transaction.now_ms if archived else None
    _change(transaction, conversation, "archived_ms = ?", moment)


def delete(transaction: Transaction, conversation: str) -> None:
    """Delete a conversation; ``undelete`` restores it."""
    _change(transaction, conversation, "deleted_ms = ?", transaction.now_ms)


def undelete(transaction: Transaction, conversation: str) -> Summary:
    """Restore a deleted conversation."""
    transaction.rows(
        "UPDATE conversations SET deleted_ms = NULL WHERE user_id = ? AND id = ?",
        transaction.user, clean_text(conversation),
    )  # fmt: skip
    return get(transaction, conversation)


def purge(transaction: Transaction, *, deleted_before_ms: int) -> int:
    """Remove the conversations deleted before a time for good; return how many."""
    keys = transaction.rows(
        f"SELECT key FROM conversations WHERE user_id = ? AND deleted_ms < ?{transaction.lock}",  # noqa: S608 ours
        transaction.user, deleted_before_ms,
    )  # fmt: skip
    for (key,) in keys:
        blobs = transaction.rows(
            "SELECT DISTINCT blob FROM parts JOIN turns ON turns.key = parts.turn"
            " WHERE conversation = ? AND blob IS NOT NULL",
            key,
        )
        remove_conversation(transaction, key)
        transaction.rows("DELETE FROM conversations WHERE key = ?", key)
        transaction.many(
            "DELETE FROM blobs WHERE sha256 = ? AND NOT EXISTS"
            " (SELECT 1 FROM parts WHERE parts.blob = blobs.sha256)",
            blobs,
        )
    return len(keys)


def key_of(transaction: Transaction, conversation: str, *, lock: bool = False) -> int:
    """The key of a conversation of this user; with ``lock``, no other transaction changes it until this one ends."""
    row = transaction.row(
        "SELECT key FROM conversations WHERE user_id = ? AND id = ? AND deleted_ms IS NULL"  # noqa: S608 ours
        + (transaction.lock if lock else ""),
        transaction.user,
        clean_text(conversation),
    )
    if row is None:
        raise missing(conversation)
    return row[0]


def touch(transaction: Transaction, key: int) -> None:
    """Update the time of the last change."""
    transaction.rows(
        "UPDATE conversations SET changed_ms = ? WHERE key = ? AND changed_ms < ?",
        transaction.now_ms, key, transaction.now_ms,
    )  # fmt: skip


def missing(conversation: str) -> StoreError:
    """The error for a conversation that does not exist."""
    return StoreError(
        f"There is no conversation {clean_text(conversation)[:60]!r}. It may have been deleted; list the "
        "conversations to see which there are.",
        reason="missing",
    )


def is_id(identifier: object) -> bool:
    """Whether the text is valid as the id of a conversation, a turn or a run."""
    return (
        isinstance(identifier, str)
        and 0 < len(identifier) <= MAX_ID
        and clean_text(identifier) == identifier
    )


def checked_id(identifier: str) -> str:
    """Return the id if it is valid, else raise an error."""
    if not is_id(identifier):
        raise UsageError(f"An id is a text of 1 to {MAX_ID} whole characters.")
    return identifier


def _change(transaction: Transaction, conversation: str, change: str, value: object) -> None:
    key = key_of(transaction, conversation, lock=True)
    transaction.rows(f"UPDATE conversations SET {change} WHERE key = ?", value, key)  # noqa: S608 ours


def _summary(row: Row) -> Summary:
    identifier, title, created, changed, archived, deleted, settings, _ = row
    return Summary(identifier, title, created, changed, archived, deleted, read_json(settings))
