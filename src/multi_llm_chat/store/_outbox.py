"""The outbox: messages that wait to be sent.

Rules:
1. Messages wait in the order in which they were queued; they can be listed, edited and withdrawn until they are sent.
2. The transaction that saves a message as a turn also removes it from the outbox: it is sent once, by one process.
"""

from msgspec import Struct

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.conversations import key_of
from multi_llm_chat.store.transaction import Transaction, read_json, reading, write_json


class QueuedMessage(Struct, frozen=True):
    """A waiting message; ``request`` holds its media and its addressees (``media``, ``to``)."""

    id: str
    text: str
    request: JsonObject
    created_ms: int = 0


class WaitingConversation(Struct, frozen=True):
    """A conversation in which messages wait."""

    user: str
    conversation: str


def queue_message(transaction: Transaction, conversation: str, message: QueuedMessage) -> None:
    """Add a message to the outbox; does nothing if a message with this id is already waiting."""
    transaction.rows(
        "INSERT INTO outbox(conversation, id, message, created_ms) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        key_of(transaction, conversation, lock=True), message.id,
        write_json({"text": message.text, "request": message.request}), transaction.now_ms,
    )  # fmt: skip


@reading
def list_outbox(transaction: Transaction, conversation: str) -> tuple[QueuedMessage, ...]:
    """The waiting messages of a conversation, the next one first."""
    rows = transaction.rows(
        "SELECT id, message, created_ms FROM outbox WHERE conversation = ? ORDER BY key",
        key_of(transaction, conversation),
    )
    return tuple(_read(*row) for row in rows)


@reading
def waiting_conversations(transaction: Transaction) -> tuple[WaitingConversation, ...]:
    """All conversations in which messages wait, of every user."""
    rows = transaction.rows(
        "SELECT DISTINCT user_id, conversations.id FROM outbox"
        " JOIN conversations ON conversations.key = outbox.conversation WHERE deleted_ms IS NULL"
        " ORDER BY user_id, conversations.id"
    )
    return tuple(WaitingConversation(user, conversation) for user, conversation in rows)


def edit_queued(transaction: Transaction, conversation: str, identifier: str, text: str) -> None:
    """Change the text of a waiting message."""
    row = transaction.row(
        "SELECT id, message, created_ms FROM outbox WHERE conversation = ? AND id = ?",
        key_of(transaction, conversation, lock=True), clean_text(identifier),
    )  # fmt: skip
    if row is None:
        raise _gone(identifier)
    before = _read(*row)
    transaction.rows(
        "UPDATE outbox SET message = ? WHERE conversation = ? AND id = ?",
        write_json({"text": text, "request": before.request}),
        key_of(transaction, conversation), before.id,
    )  # fmt: skip


def take_queued(
    transaction: Transaction, conversation: str, identifier: str, sent_as: str | None = None
) -> None:
    """Remove a message from the outbox: this transaction saves it as the turn ``sent_as``, or withdraws it.

    If that turn exists, an earlier attempt of this transaction was committed, although its result was lost.
    """
    key = key_of(transaction, conversation, lock=True)
    taken = transaction.rows(
        "DELETE FROM outbox WHERE conversation = ? AND id = ? RETURNING id",
        key, clean_text(identifier),
    )  # fmt: skip
    if taken or _is_turn(transaction, key, sent_as):
        return
    raise _gone(identifier)


def _is_turn(transaction: Transaction, key: int, turn: str | None) -> bool:
    found = turn is not None and transaction.row(
        "SELECT 1 FROM turns WHERE conversation = ? AND id = ?", key, turn
    )
    return bool(found)


def _gone(identifier: str) -> UsageError:
    return UsageError(
        f"The message {clean_text(identifier)[:60]!r} is not in the outbox: it was sent or withdrawn."
    )


def _read(identifier: str, message: str, created_ms: int) -> QueuedMessage:
    fields: JsonObject = read_json(message)
    return QueuedMessage(identifier, fields["text"], fields["request"], created_ms)
