"""Whole conversations as documents: reading and writing.

Rules:
1. A document becomes visible as a whole; an invalid one is refused before anything is written. A long one may be written in several
   transactions: until the last one, it is hidden like a deleted conversation.
2. Turns keep their ids. The conversation keeps its id, unless the user already has a conversation with that id; then it gets a new one, and
   nothing is overwritten.
3. Reading returns the document that was written, except for ids, titles and names that no store accepts: with NUL, with lone surrogates, or
   too long.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.archive.document import ConversationDocument, TreeTurn
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.store.conversations import get, is_id, key_of
from multi_llm_chat.store.transaction import Transaction, reading, write_json
from multi_llm_chat.store.turn_rows import within_range
from multi_llm_chat.store.turns import heads, insert_turn, read_placed, set_head


@reading
def read_document(transaction: Transaction, conversation: str) -> ConversationDocument:
    """The conversation with all its branches."""
    summary = get(transaction, conversation)
    rows = transaction.rows(
        "SELECT turns.key, turns.id, above.id, turns.run_id, turns.author, turns.model, turns.created_ms,"
        " turns.fields FROM turns LEFT JOIN turns AS above ON above.key = turns.parent"
        " WHERE turns.conversation = ? ORDER BY turns.key",
        key_of(transaction, conversation),
    )
    return ConversationDocument(
        id=summary.id,
        title=summary.title,
        created_ms=summary.created_ms,
        archived_ms=summary.archived_ms,
        turns=tuple(
            TreeTurn(placed.turn, placed.parent, placed.run_id)
            for placed in read_placed(transaction, rows)
        ),
        heads=heads(transaction, conversation),
        settings=summary.settings,
    )


def write_document(transaction: Transaction, document: ConversationDocument) -> str:
    """Make a conversation from a document; return its id."""
    draft = begin_document(transaction, document)
    continue_document(transaction, draft, draft.turns)
    return finish_document(transaction, draft)


class DocumentDraft(Struct, frozen=True):
    """A conversation that is written in several transactions; its ``turns`` have ids that the store accepts."""

    id: str
    key: int
    turns: tuple[TreeTurn, ...]
    heads: dict[str, str]


def begin_document(transaction: Transaction, document: ConversationDocument) -> DocumentDraft:
    """Begin a conversation; it is hidden like a deleted one until it is complete."""
    made_by = transaction.new_id()
    turns, names = _renamed(transaction, document)
    heads = {name: names[turn] or "" for name, turn in document.heads.items()}
    row = transaction.row(
        "SELECT id, key FROM conversations WHERE user_id = ? AND made_by = ?",
        transaction.user, made_by,
    )  # fmt: skip
    if row is not None:
        # An earlier attempt was committed.
        return DocumentDraft(row[0], row[1], tuple(turns), heads)
    taken = transaction.row(
        "SELECT 1 FROM conversations WHERE user_id = ? AND id = ?",
        transaction.user, clean_text(document.id),
    )  # fmt: skip
    identifier = document.id if is_id(document.id) and taken is None else made_by
    inserted = transaction.rows(
        "INSERT INTO conversations(user_id, id, made_by, title, settings, created_ms, changed_ms, archived_ms, deleted_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key",
        transaction.user, identifier, made_by, clean_text(document.title), write_json(document.settings),
        within_range(document.created_ms), transaction.now_ms, document.archived_ms, transaction.now_ms,
    )  # fmt: skip
    return DocumentDraft(identifier, inserted[0][0], tuple(turns), heads)


def continue_document(
    transaction: Transaction, draft: DocumentDraft, turns: Sequence[TreeTurn]
) -> None:
    """Write the next turns of a draft, in their order."""
    if not turns or _number_of(transaction, draft, turns[-1].turn.id) is not None:
        return  # an earlier attempt was committed
    numbers: dict[str | None, int | None] = {None: None}
    for item in turns:
        if item.parent not in numbers:
            numbers[item.parent] = _number_of(transaction, draft, item.parent)
        above = numbers[item.parent]
        numbers[item.turn.id] = insert_turn(
            transaction, draft.key, item.turn, above, run_id=item.run
        )


def finish_document(transaction: Transaction, draft: DocumentDraft) -> str:
    """Set the branches of a draft whose turns are written, and make it visible; return its id."""
    for name, turn in draft.heads.items():
        set_head(transaction, draft.key, name, _number_of(transaction, draft, turn) or 0)
    transaction.rows("UPDATE conversations SET deleted_ms = NULL WHERE key = ?", draft.key)
    return draft.id


def _number_of(transaction: Transaction, draft: DocumentDraft, turn: str | None) -> int | None:
    row = transaction.row(
        "SELECT key FROM turns WHERE conversation = ? AND id = ?", draft.key, turn
    )
    return None if row is None else row[0]


def _renamed(
    transaction: Transaction, document: ConversationDocument
) -> tuple[list[TreeTurn], dict[str | None, str | None]]:
    """The turns with ids that the store accepts, and the new id of each old one."""
    names: dict[str | None, str | None] = {None: None}
    turns: list[TreeTurn] = []
    for number, item in enumerate(document.turns):
        old = item.turn.id
        if item.parent not in names:
            raise UsageError("A turn stands before its parent, or has none.", turn=number)
        if old is not None and old in names:
            raise UsageError("Two turns have the same id.", turn=number)
        new = old if is_id(old) else transaction.new_id()
        if old is not None:
            names[old] = new
        turns.append(replace(item, turn=replace(item.turn, id=new), parent=names[item.parent]))
    if unknown := [name for name, turn in document.heads.items() if turn not in names]:
        raise UsageError(f"The branch {unknown[0]!r} ends at a turn that is not there.")
    return turns, names
