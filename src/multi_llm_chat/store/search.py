"""Search in all messages of a user, and the index of terms: one row for each turn that has words.

Rules:
1. A message is found if its text contains every piece of the query (``_search_terms``); the message saved last comes first.
2. Deleted conversations are not searched; archived ones only on request.
3. The snippet is a part of the message itself, and the marks are positions in it.
4. The transaction that writes a turn also writes its index, so the index is never outdated.
5. Both databases index exactly the same terms; their own tokenizers do not matter.
"""

from collections.abc import Sequence
from hashlib import sha256

from multi_llm_chat.history.values import Text
from multi_llm_chat.store._search_terms import Query, read_query, terms_of
from multi_llm_chat.store.records import Hit
from multi_llm_chat.store.transaction import Row, Transaction, chunks, reading
from multi_llm_chat.store.turn_rows import read_part_row

# The index.

_CANDIDATES = (
    "SELECT turns.key, conversations.id, title, turns.id, author, turns.created_ms"
    " FROM search JOIN turns ON turns.key = {number} JOIN conversations ON conversations.key = conversation"
    " WHERE {matches} AND {number} < ? AND user_id = ? AND deleted_ms IS NULL{archived}"
    " ORDER BY {number} DESC LIMIT ?"
)


def add_turn(transaction: Transaction, turn: int, text: str) -> None:
    """Index the text of a turn."""
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
    """Remove a conversation from the index, before the conversation itself is removed."""
    if transaction.database == "postgres":
        return  # its rows are removed together with the turns
    rows = transaction.rows("SELECT key FROM turns WHERE conversation = ?", conversation)
    for turn, text in texts_of(transaction, [key for (key,) in rows]).items():
        # The index stores no text: to remove terms, it must be given them again.
        if terms := terms_of(text):
            transaction.rows(
                "INSERT INTO search(search, rowid, terms) VALUES ('delete', ?, ?)",
                turn, " ".join(terms),
            )  # fmt: skip


def texts_of(transaction: Transaction, turns: Sequence[int]) -> dict[int, str]:
    """The texts of stored turns, without those that have none."""
    words: dict[int, list[str]] = {}
    for marks, chunk in chunks(turns):
        for turn, body in transaction.rows(
            f"SELECT turn, body FROM parts WHERE turn IN ({marks}) AND kind = 'text'"  # noqa: S608 only question marks
            " ORDER BY turn, position",
            *chunk,
        ):
            part = read_part_row("text", body, None)
            words.setdefault(turn, []).append(part.content if isinstance(part, Text) else "")
    return {turn: "\n".join(texts) for turn, texts in words.items()}


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
    # Terms consist of letters, digits and marks, so nothing has to be escaped within the quotes.
    wanted = [f'"{term}"' for piece in query.pieces for term in piece.terms]
    wanted += [f'"{piece.beginning}"*' for piece in query.pieces if piece.beginning]
    return " AND ".join(dict.fromkeys(wanted))


def _owner(transaction: Transaction) -> str:
    """A term for the owner, which occurs in no text, so that a server searches only this user's messages."""
    return "\U0010fffd" + sha256(transaction.user.encode()).hexdigest()[:16]


def _tsquery(query: Query, owner: str) -> str:
    wanted = [f"'{owner}'"]
    wanted += [f"'{term}'" for piece in query.pieces for term in piece.terms]
    wanted += [f"'{piece.beginning}':*" for piece in query.pieces if piece.beginning]
    return " & ".join(dict.fromkeys(wanted))


# The search.

#: Characters of a message that are shown around the first match.
BEFORE = 40
SNIPPET = 160

_NEWEST = 2**62

#: How many candidates are read at a time, if the first ones were not enough.
_BATCH = 2000


@reading
def search(
    transaction: Transaction,
    words: str,
    *,
    archived: bool = False,
    limit: int = 20,
    before: int | None = None,
) -> tuple[Hit, ...]:
    """Messages that contain all words; ``before`` is the number of the last hit of the previous page."""
    query = read_query(words)
    hits: list[Hit] = []
    number = _NEWEST if before is None else before
    batch = limit
    while query.pieces and len(hits) < limit:
        rows = candidates(transaction, query, number, archived=archived, limit=batch)
        texts = texts_of(transaction, [row[0] for row in rows])
        for number, conversation, title, turn, author, created_ms in rows:
            text = texts.get(number, "")
            if len(hits) < limit and (places := query.places(text)):
                snippet, marks = _snippet(text, places)
                hits.append(
                    Hit(conversation, title, turn, author, created_ms, snippet, marks, number)
                )
        if len(rows) < batch:
            break
        batch = min(batch * 4, _BATCH)
    return tuple(hits)


def _snippet(text: str, places: list[tuple[int, int]]) -> tuple[str, tuple[tuple[int, int], ...]]:
    start = max(0, places[0][0] - BEFORE)
    snippet = text[start : start + SNIPPET]
    marks = [
        (begin - start, min(end - start, len(snippet)))
        for begin, end in places
        if begin - start < len(snippet)
    ]
    return snippet, tuple(marks)
