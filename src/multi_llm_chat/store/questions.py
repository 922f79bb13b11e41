"""What those who give an answer want to know from the user: asked in one process, answered in any.

Rules:
1. A question is open while whoever asked has a run of that conversation: when a run is taken by somebody else, what its former owner
   asked is asked no more.
2. The first answer counts.
"""

from msgspec import Struct

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.conversations import key_of
from multi_llm_chat.store.json_column import read_json, write_json
from multi_llm_chat.store.transaction import Transaction, reading

#: Whoever asked still has a run; its owner is the asker, and a mark of how it was taken.
_AWAITED = """EXISTS (SELECT 1 FROM runs WHERE runs.conversation = questions.conversation
    AND status = 'running' AND substr(owner, 1, length(asker) + 1) = asker || '/')"""


class Question(Struct, frozen=True):
    """An open question; what its body means is for those who ask and those who show it."""

    id: str
    asker: str
    body: JsonObject


def ask(transaction: Transaction, conversation: str, question: Question) -> None:
    """Ask, and forget what nobody waits for any more."""
    key = key_of(transaction, conversation)
    transaction.rows(f"DELETE FROM questions WHERE conversation = ? AND NOT {_AWAITED}", key)  # noqa: S608 a constant
    transaction.rows(
        "INSERT INTO questions(id, conversation, asker, body) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        question.id, key, question.asker, write_json(question.body),
    )  # fmt: skip


@reading
def read_answer(transaction: Transaction, identifier: str) -> JsonObject | None:
    """The answer, if there is one."""
    row = transaction.row("SELECT answer FROM questions WHERE id = ?", identifier)
    return None if row is None or row[0] is None else read_json(row[0])


def answer_question(
    transaction: Transaction, conversation: str, identifier: str, answer: JsonObject
) -> bool:
    """Answer an open question; False if it was answered before, or nobody waits any more."""
    answered = transaction.rows(
        "UPDATE questions SET answer = ?"  # noqa: S608 a constant
        f" WHERE conversation = ? AND id = ? AND answer IS NULL AND {_AWAITED} RETURNING id",
        write_json(answer), key_of(transaction, conversation), identifier,
    )  # fmt: skip
    return bool(answered)


def withdraw(transaction: Transaction, identifier: str) -> None:
    """Wait no more."""
    transaction.rows("DELETE FROM questions WHERE id = ?", identifier)


def open_questions(transaction: Transaction, conversation: int) -> tuple[Question, ...]:
    """What is asked in the conversation of that number."""
    rows = transaction.rows(
        f"SELECT id, asker, body FROM questions WHERE conversation = ? AND answer IS NULL AND {_AWAITED} ORDER BY id",  # noqa: S608 a constant
        conversation,
    )
    return tuple(Question(identifier, asker, read_json(body)) for identifier, asker, body in rows)
