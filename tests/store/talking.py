"""Conversation texts for tests of the store."""

from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import (
    Appended,
    Conflict,
    Store,
    Transaction,
    append,
    create,
)


def say(words: str, who: str = "user", identifier: str | None = None) -> Turn:
    return Turn(who, (Text(words),), id=identifier)


def saved(outcome: Appended | Conflict) -> Appended:
    assert isinstance(outcome, Appended)
    return outcome


def words_of(turns: list[Turn]) -> list[str]:
    return [part.content for turn in turns for part in turn.parts if isinstance(part, Text)]


def talk(store: Store, *words: str, title: str = "Talk") -> str:
    """Create a conversation with these texts; its turns have the ids 0, 1, 2, …"""
    conversation = store.run(create, title).id
    turns = [say(text, identifier=str(number)) for number, text in enumerate(words)]
    if turns:
        store.run(append, conversation, turns)
    return conversation


def count_rows(transaction: Transaction, table: str) -> int:
    return transaction.rows(f"SELECT count(*) FROM {table}")[0][0]
