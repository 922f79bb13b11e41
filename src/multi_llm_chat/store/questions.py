"""What those who give an answer want to know from the user: asked in one process, answered in any.

Rules:
1. A question is open while somebody waits for its answer, which whoever asks says again and again; nobody is shown one
   whose asker is gone.
2. The first answer counts.
"""

from typing import Any

from msgspec import Struct

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.conversations import key_of
from multi_llm_chat.store.json_text import read_json, write_json
from multi_llm_chat.store.transaction import Transaction


class Question(Struct, frozen=True):
    """An open question; what its body means is for those who ask and those who show it."""

    id: str
    body: JsonObject


def ask(
    transaction: Transaction, conversation: str, question: Question, patience_ms: int
) -> JsonObject | None:
    """Ask, or go on waiting for so many milliseconds; the answer, if there is one."""
    key = key_of(transaction, conversation)
    clock = transaction.clock
    transaction.rows(f"DELETE FROM questions WHERE until_ms < {clock} AND id <> ?", question.id)  # noqa: S608 the database's clock
    ((answer,),) = transaction.rows(
        "INSERT INTO questions(id, conversation, body, until_ms)"  # noqa: S608 the database's clock
        f" VALUES (?, ?, ?, {clock} + ?)"
        " ON CONFLICT (id) DO UPDATE SET until_ms = excluded.until_ms RETURNING answer",
        question.id, key, write_json(question.body), patience_ms,
    )  # fmt: skip
    return None if answer is None else read_json(answer)


def answer_question(
    transaction: Transaction, conversation: str, identifier: str, answer: JsonObject
) -> bool:
    """Answer an open question; False if it was answered before, or nobody waits any more."""
    return bool(
        transaction.rows(
            "UPDATE questions SET answer = ?"  # noqa: S608 the database's clock
            f" WHERE conversation = ? AND id = ? AND answer IS NULL AND until_ms >= {transaction.clock}"
            " RETURNING id",
            write_json(answer), key_of(transaction, conversation), identifier,
        )
    )  # fmt: skip


def withdraw(transaction: Transaction, identifier: str) -> None:
    """Wait no more."""
    transaction.rows("DELETE FROM questions WHERE id = ?", identifier)


def open_questions(transaction: Transaction, conversation: int) -> tuple[Question, ...]:
    """What is asked in the conversation of that number."""
    rows: list[tuple[str, Any]] = transaction.rows(
        "SELECT id, body FROM questions"  # noqa: S608 the database's clock
        f" WHERE conversation = ? AND answer IS NULL AND until_ms >= {transaction.clock} ORDER BY id",
        conversation,
    )
    return tuple(Question(identifier, read_json(body)) for identifier, body in rows)
