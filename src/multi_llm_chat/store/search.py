"""Search in all messages of a user.

Rules:
1. A message is found if its words hold every piece of the query (terms.py); the message saved last comes first.
2. Deleted conversations are not searched; archived ones only where asked.
3. The snippet is a piece of the message itself, and the marks are places in it.
"""

from multi_llm_chat.store.records import Hit
from multi_llm_chat.store.search_index import candidates, texts_of
from multi_llm_chat.store.search_terms import read_query
from multi_llm_chat.store.transaction import Transaction, reading

#: How much of a message is shown around the first place found, in characters.
BEFORE = 40
SNIPPET = 160

_NEWEST = 2**62

#: How many candidates are looked at together, once the first ones were not enough.
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
    """Messages that hold all the words; ``before`` is the number of the last hit of the page before."""
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
