"""Tokens and cost, as they were spent.

Rules:
1. What is not known is counted as unknown, and never taken for nothing.
2. Money is stored in whole billionths of its currency: sums are exact, and the same everywhere.
3. All branches count: discarded turns were paid for.
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
    """What a speaker's model was paid on a day (days since 1970): tokens, US dollars, and how many answers have no known cost."""

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
    """Save what an answer has cost; the same id again replaces it."""
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
    """What the whole conversation has cost."""
    # Sums by currency sort all rows; nearly every conversation has one currency, and needs one pass.
    rows = _sums(transaction, conversation, "min(currency)", is_grouped=False)
    if rows[0][0] != rows[0][1]:
        rows = _sums(transaction, conversation, "''")
    return _totals([("", *row[1:]) for row in rows if row[2]]).get("", Total())


@reading
def run_totals(transaction: Transaction, conversation: str, run: str) -> dict[str, Total]:
    """What one run has cost, by model."""
    test = "usage.run_id = ? AND usage.conversation"
    return _totals(_sums(transaction, conversation, "usage.model", test, [run]))


@reading
def read_spent(transaction: Transaction, conversation: str, since_ms: int) -> dict[str, Spent]:
    """What the user spent: in the conversation, since a moment (``day``), and in all (``user``)."""
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
    """What the user spent since a moment, by day, speaker and model; ``offset_ms`` is what the user's clock is ahead of UTC."""
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
    """What each of these turns has cost."""
    found: dict[str, Total] = {}
    keys = keys_of(transaction, key_of(transaction, conversation), turns)
    for marks, chunk in chunks(list(keys.values())):
        # The plus keeps SQLite from reading all rows of the conversation by its index.
        test = f"usage.turn IN ({marks}) AND +usage.conversation"
        found |= _totals(_sums(transaction, conversation, _GROUPS["turn"], test, chunk))
    return found


@reading
def totals(transaction: Transaction, conversation: str, by: Grouping) -> dict[str, Total]:
    """What each turn, speaker or model has cost; under ``""`` what belongs to no turn."""
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
