"""The tokens and the cost of answers.

Rules:
1. An unknown cost is counted as unknown, never as zero.
2. Money is stored in whole billionths of its currency, so that sums are exact on every database.
3. All branches count, because discarded turns were paid for, too.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.events import TOKEN_COUNTS, Usage
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.store.conversations import checked_id, key_of
from multi_llm_chat.store.records import Spending, Total
from multi_llm_chat.store.transaction import Row, Transaction, chunks, reading
from multi_llm_chat.store.turns import keys_of, turn_key

_NANO = 9
_TOKENS = TOKEN_COUNTS
_COLUMNS = ", ".join(_TOKENS)

Grouping: TypeAlias = Literal["turn", "speaker", "model"]
_GROUPS: dict[Grouping, str] = {
    "turn": "COALESCE(turns.id, '')",
    "speaker": "speaker",
    "model": "usage.model",
}


class Spent(Struct, frozen=True):
    """Money in US dollars, and tokens of input and output."""

    cost: Decimal = Decimal(0)
    tokens: int = 0


class SpentRow(Struct, frozen=True):
    """The usage of a speaker's model on one day (days since 1970): tokens, US dollars, and the number of answers without a known cost."""

    day: int
    speaker: str
    model: str
    tokens: Usage
    cost: Decimal
    unknown: int

    def __add__(self, other: "SpentRow") -> "SpentRow":
        return SpentRow(
            self.day, self.speaker, self.model, self.tokens + other.tokens,
            self.cost + other.cost, self.unknown + other.unknown,
        )  # fmt: skip


def record_spending(transaction: Transaction, conversation: str, spending: Spending) -> None:
    """Save the cost of an answer; a second call with the same id replaces it."""
    key = key_of(transaction, conversation, lock=True)
    tokens = [
        None if spending.tokens is None else getattr(spending.tokens, name) for name in _TOKENS
    ]
    values = (
        key, checked_id(spending.id),
        None if spending.turn is None else turn_key(transaction, key, spending.turn),
        spending.run_id, clean_text(spending.speaker), clean_text(spending.model), *tokens,
        None if spending.cost is None else int(spending.cost.scaleb(_NANO).to_integral_value()),
        clean_text(spending.currency), int(spending.estimate), transaction.now_ms,
    )  # fmt: skip
    transaction.rows("DELETE FROM usage WHERE conversation = ? AND id = ?", key, spending.id)
    transaction.rows(
        f"INSERT INTO usage(conversation, id, turn, run_id, speaker, model, {_COLUMNS}, cost_nano,"  # noqa: S608 names of our own columns
        f" currency, estimate, created_ms) VALUES ({', '.join('?' * len(values))})",
        *values,
    )


@reading
def total(transaction: Transaction, conversation: str) -> Total:
    """The cost of the whole conversation."""
    # Grouping by currency sorts all rows; nearly every conversation has one currency, and needs only one pass.
    rows = _sums(transaction, conversation, "min(currency)", is_grouped=False)
    if rows[0][0] != rows[0][1]:
        rows = _sums(transaction, conversation, "''")
    return _totals([("", *row[1:]) for row in rows if row[2]]).get("", Total())


@reading
def run_totals(transaction: Transaction, conversation: str, run: str) -> dict[str, Total]:
    """The cost of one run, by model."""
    test = "usage.run_id = ? AND usage.conversation"
    return _totals(_sums(transaction, conversation, "usage.model", test, [run]))


@reading
def read_spent(transaction: Transaction, conversation: str, since_ms: int) -> dict[str, Spent]:
    """The user's spending: in the conversation, since a time (``day``), and in all (``user``)."""
    names = {
        "conversation": "conversations.id = ?",
        "day": "usage.created_ms >= ?",
        "user": "1 = 1",
    }
    sums = ", ".join(
        f"CAST(COALESCE(sum(CASE WHEN {test} AND currency = 'USD' THEN cost_nano END), 0) AS BIGINT),"
        f" CAST(COALESCE(sum(CASE WHEN {test} THEN COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0) END), 0) AS BIGINT)"
        for test in names.values()
    )
    identifier = clean_text(conversation)
    (row,) = transaction.rows(
        f"SELECT {sums} FROM usage JOIN conversations ON conversations.key = usage.conversation"  # noqa: S608 our own words
        " WHERE conversations.user_id = ?",
        identifier, identifier, since_ms, since_ms, transaction.user,
    )  # fmt: skip
    pairs = zip(row[::2], row[1::2], strict=True)
    return {
        name: Spent(Decimal(nano).scaleb(-_NANO), tokens)
        for name, (nano, tokens) in zip(names, pairs, strict=True)
    }


@reading
def spent_by_day(transaction: Transaction, since_ms: int, offset_ms: int = 0) -> list[SpentRow]:
    """The user's spending since a time, by day, speaker and model; ``offset_ms`` is the user's offset from UTC."""
    sums = ", ".join(f"CAST(COALESCE(sum({name}), 0) AS BIGINT)" for name in _TOKENS)
    rows = transaction.rows(
        f"SELECT (usage.created_ms + ?) / 86400000, speaker, usage.model, CAST(COALESCE(sum(CASE WHEN currency = 'USD' THEN cost_nano END), 0) AS BIGINT),"  # noqa: S608 names of our own columns
        f" count(*) - count(CASE WHEN currency = 'USD' THEN cost_nano END), {sums}"
        " FROM usage JOIN conversations ON conversations.key = usage.conversation"
        " WHERE conversations.user_id = ? AND usage.created_ms >= ? GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        offset_ms, transaction.user, since_ms,
    )  # fmt: skip
    return [
        SpentRow(day, speaker, model, Usage(*tokens), Decimal(nano).scaleb(-_NANO), unknown)
        for day, speaker, model, nano, unknown, *tokens in rows
    ]


@reading
def turn_totals(
    transaction: Transaction, conversation: str, turns: Sequence[str]
) -> dict[str, Total]:
    """The cost of each of these turns."""
    found: dict[str, Total] = {}
    keys = keys_of(transaction, key_of(transaction, conversation), turns)
    for marks, chunk in chunks(list(keys.values())):
        # The unary plus keeps SQLite from using the conversation's index, which would read all its rows.
        test = f"usage.turn IN ({marks}) AND +usage.conversation"
        found |= _totals(_sums(transaction, conversation, _GROUPS["turn"], test, chunk))
    return found


@reading
def totals(transaction: Transaction, conversation: str, by: Grouping) -> dict[str, Total]:
    """The cost by turn, speaker or model; the key ``""`` holds costs without a turn."""
    return _totals(_sums(transaction, conversation, _GROUPS[by]))


def _sums(
    transaction: Transaction,
    conversation: str,
    group: str,
    test: str = "usage.conversation",
    values: Sequence[object] = (),
    *,
    is_grouped: bool = True,
) -> list[Row]:
    sums = ", ".join(f"CAST(COALESCE(sum({name}), 0) AS BIGINT)" for name in _TOKENS)
    joined = " LEFT JOIN turns ON turns.key = turn" if group == _GROUPS["turn"] else ""
    return transaction.rows(
        f"SELECT {group}, {'currency' if is_grouped else 'max(currency)'}, count(*), count(*) - count(input_tokens), count(*) - count(cost_nano),"  # noqa: S608 names of our own columns
        f" CAST(sum(estimate) AS BIGINT), CAST(sum(cost_nano) AS BIGINT), {sums}"
        f" FROM usage{joined} WHERE {test} = ?{' GROUP BY 1, 2 ORDER BY 1, 2' if is_grouped else ''}",
        *values, key_of(transaction, conversation),
    )  # fmt: skip


def _totals(rows: Iterable[Row]) -> dict[str, Total]:
    totals: dict[str, Total] = {}
    for name, currency, count, no_tokens, no_costs, estimates, nano, *tokens in rows:
        before = totals.get(name, Total())
        costs = (
            before.costs
            if nano is None
            else before.costs | {currency: Decimal(nano).scaleb(-_NANO)}
        )
        totals[name] = Total(
            before.count + count,
            before.tokens + Usage(*tokens),
            costs,
            before.unknown_tokens + no_tokens,
            before.unknown_costs + no_costs,
            before.estimates + estimates,
        )
    return totals
