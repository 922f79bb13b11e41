"""The index of terms: one row for each turn that has words.

Rules:
1. It is written in the transaction that writes the turn, so it is never behind.
2. Both databases index the very same terms (terms.py); nothing is left to their own ideas of a word.
"""

from collections.abc import Sequence
from hashlib import sha256

from multi_llm_chat.history.values import Text
from multi_llm_chat.store.search_terms import Query, terms_of
from multi_llm_chat.store.transaction import Row, Transaction, chunks
from multi_llm_chat.store.turn_rows import read_part_row

_CANDIDATES = (
    "SELECT turns.key, conversations.id, title, turns.id, author, turns.created_ms"
    " FROM search JOIN turns ON turns.key = {number} JOIN conversations ON conversations.key = conversation"
    " WHERE {matches} AND {number} < ? AND user_id = ? AND deleted_ms IS NULL{archived}"
    " ORDER BY {number} DESC LIMIT ?"
)


def add_turn(transaction: Transaction, turn: int, text: str) -> None:
    """Index a turn's words."""
    terms = terms_of(text) if text else []
    if not terms:
        return
    if transaction.database == "postgres":
        transaction.rows(
            "INSERT INTO search(turn, terms) VALUES (?, array_to_tsvector(?))",
            turn,
            [*terms, _owner(transaction)],
        )
    else:
        transaction.rows("INSERT INTO search(rowid, terms) VALUES (?, ?)", turn, " ".join(terms))


def remove_conversation(transaction: Transaction, conversation: int) -> None:
    """Forget the words of a conversation that is about to be removed."""
    if transaction.database == "postgres":
        return  # its rows go with the turns
    rows = transaction.rows("SELECT key FROM turns WHERE conversation = ?", conversation)
    for turn, text in texts_of(transaction, [key for (key,) in rows]).items():
        # The index keeps no text: to forget terms it must be told which they were.
        if terms := terms_of(text):
            transaction.rows(
                "INSERT INTO search(search, rowid, terms) VALUES ('delete', ?, ?)",
                turn, " ".join(terms),
            )  # fmt: skip


def texts_of(transaction: Transaction, turns: Sequence[int]) -> dict[int, str]:
    """The words of stored turns, of those that have any."""
    words: dict[int, list[str]] = {}
    for marks, chunk in chunks(turns):
        for turn, body in transaction.rows(
            f"SELECT turn, body FROM parts WHERE turn IN ({marks}) AND kind = 'text'"  # noqa: S608 only question marks
            " ORDER BY turn, position",
            *chunk,
        ):
            part = read_part_row("text", body, None)
            words.setdefault(turn, []).append(part.content if isinstance(part, Text) else "")
    return {turn: "\n".join(told) for turn, told in words.items()}


def candidates(
    transaction: Transaction, query: Query, before: int, *, archived: bool, limit: int
) -> list[Row]:
    """Turns that have all terms of the query, newest first.

    A row is: key, conversation's id, its title, turn's id, author, time.
    """
    postgres = transaction.database == "postgres"
    statement = _CANDIDATES.format(
        number="search.turn" if postgres else "search.rowid",
        matches="search.terms @@ CAST(? AS tsquery)" if postgres else "search MATCH ?",
        archived="" if archived else " AND archived_ms IS NULL",
    )
    wanted = _tsquery(query, _owner(transaction)) if postgres else _fts_query(query)
    return transaction.rows(statement, wanted, before, transaction.user, limit)


def _fts_query(query: Query) -> str:
    # Terms are letters, digits and marks alone: there is nothing to escape within the quotes.
    wanted = [f'"{term}"' for piece in query.pieces for term in piece.terms]
    wanted += [f'"{piece.beginning}"*' for piece in query.pieces if piece.beginning]
    return " AND ".join(dict.fromkeys(wanted))


def _owner(transaction: Transaction) -> str:
    """A term that no text has: on a server the words of one user are not looked for among all."""
    return "\U0010fffd" + sha256(transaction.user.encode()).hexdigest()[:16]


def _tsquery(query: Query, owner: str) -> str:
    wanted = [f"'{owner}'"]
    wanted += [f"'{term}'" for piece in query.pieces for term in piece.terms]
    wanted += [f"'{piece.beginning}':*" for piece in query.pieces if piece.beginning]
    return " & ".join(dict.fromkeys(wanted))
