"""Questions of a run to the user: asked by the process that drives it, answered in any process.

Rules:
1. A question is open while the asking process owns a run of that conversation. When another process takes the run, the questions of the
   former owner are closed.
2. The first answer counts.
"""

from msgspec import Struct

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.conversations import key_of
from multi_llm_chat.store.transaction import Transaction, read_json, reading, write_json

#: Whether the asking process still owns a run. An owner in ``runs`` is the process's name, a slash and the mark of one lease.
_AWAITED = """EXISTS (SELECT 1 FROM runs WHERE runs.conversation = questions.conversation
    AND status = 'running' AND substr(owner, 1, length(asker) + 1) = asker || '/')"""


class Question(Struct, frozen=True):
    """An open question; only the asking process and the page that shows it interpret ``body``."""

    id: str
    asker: str
    body: JsonObject


def ask(transaction: Transaction, conversation: str, question: Question) -> None:
    """Ask a question, and delete those questions of the conversation whose process owns no run any more."""
    key = key_of(transaction, conversation)
    transaction.rows(f"DELETE FROM questions WHERE conversation = ? AND NOT {_AWAITED}", key)  # noqa: S608 a constant
    transaction.rows(
        "INSERT INTO questions(id, conversation, asker, body) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        question.id, key, question.asker, write_json(question.body),
    )  # fmt: skip


@reading
def read_answer(transaction: Transaction, identifier: str) -> JsonObject | None:
    """The answer to a question; None if there is none yet."""
    row = transaction.row("SELECT answer FROM questions WHERE id = ?", identifier)
    return None if row is None or row[0] is None else read_json(row[0])


def answer_question(
    transaction: Transaction, conversation: str, identifier: str, answer: JsonObject
) -> bool:
    """Answer an open question; return False if it was answered before, or its process owns no run any more."""
    answered = transaction.rows(
        "UPDATE questions SET answer = ?"  # noqa: S608 a constant
        f" WHERE conversation = ? AND id = ? AND answer IS NULL AND {_AWAITED} RETURNING id",
        write_json(answer), key_of(transaction, conversation), identifier,
    )  # fmt: skip
    return bool(answered)


def withdraw(transaction: Transaction, identifier: str) -> None:
    """Delete a question whose process has read the answer or stopped waiting."""
    transaction.rows("DELETE FROM questions WHERE id = ?", identifier)


def open_questions(transaction: Transaction, conversation: int) -> tuple[Question, ...]:
    """The open questions of the conversation with this key."""
    rows = transaction.rows(
        f"SELECT id, asker, body FROM questions WHERE conversation = ? AND answer IS NULL AND {_AWAITED} ORDER BY id",  # noqa: S608 a constant
        conversation,
    )
    return tuple(Question(identifier, asker, read_json(body)) for identifier, asker, body in rows)
