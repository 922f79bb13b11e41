"""Tokens and costs are summed, and unknown costs stay visible."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import (
    Spending,
    Spent,
    Store,
    Total,
    Transaction,
    append,
    create,
    open_store,
    read_spent,
    record_spending,
    run_totals,
    spent_by_day,
    total,
    totals,
    turn_totals,
)


def test_sums_are_exact_and_unknown_costs_are_counted(store: Store):
    conversation = store.run(create, "t").id
    store.run(append, conversation, [Turn("claude", (Text(n),), id=n) for n in ("t1", "t2")])
    spendings = [
        Spending("a", "claude", "c-5", Usage(100, 20, 10, 5, 3), Decimal("0.1"), turn="t1"),
        Spending(
            "b", "claude", "c-5", Usage(1, 2), Decimal("0.000000001"), estimate=True, turn="t1"
        ),
        Spending("c", "gemini", "g-3", Usage(7, 7), None, turn="t2"),
        Spending("d", "gemini", "g-3", None, Decimal("0.2"), currency="EUR"),
    ]
    for spending in spendings:
        store.run(record_spending, conversation, spending)
    by_turn = store.run(totals, conversation, "turn")
    assert store.run(turn_totals, conversation, ["t1", "missing"]) == {"t1": by_turn["t1"]}
    assert store.run(turn_totals, conversation, ["t2", "t1"]) == {
        name: by_turn[name] for name in ("t1", "t2")
    }
    claude = Total(2, Usage(101, 22, 10, 5, 3), {"USD": Decimal("0.100000001")}, estimates=1)
    gemini = Total(2, Usage(7, 7), {"EUR": Decimal("0.2")}, unknown_tokens=1, unknown_costs=1)
    assert store.run(totals, conversation, "speaker") == {"claude": claude, "gemini": gemini}
    assert set(store.run(totals, conversation, "model")) == {"c-5", "g-3"}
    by_turn = store.run(totals, conversation, "turn")
    assert by_turn["t1"] == claude
    assert by_turn["t2"] == Total(1, Usage(7, 7), unknown_costs=1)
    assert by_turn[""].costs == {"EUR": Decimal("0.2")}
    whole = store.run(total, conversation)
    assert (whole.count, whole.unknown_costs, whole.unknown_tokens, whole.estimates) == (4, 1, 1, 1)
    assert whole.costs == {"USD": Decimal("0.100000001"), "EUR": Decimal("0.2")}


def test_the_providers_count_replaces_our_estimate(store: Store):
    conversation = store.run(create, "t").id
    store.run(
        record_spending, conversation, Spending("a", "claude", tokens=Usage(90), estimate=True)
    )
    store.run(record_spending, conversation, Spending("a", "claude", tokens=Usage(100)))
    assert store.run(total, conversation) == Total(1, Usage(100), unknown_costs=1)


def test_nothing_spent_is_nothing(store: Store):
    conversation = store.run(create, "t").id
    assert store.run(total, conversation) == Total()
    assert store.run(totals, conversation, "speaker") == {}


@given(costs=st.lists(st.none() | st.decimals(0, 1000, places=9), max_size=20))
def test_no_cent_is_lost(costs: list[Decimal | None]):
    with open_store(":memory:") as store:
        conversation = store.run(create, "t").id
        for number, cost in enumerate(costs):
            store.run(record_spending, conversation, Spending(str(number), "claude", cost=cost))
        summed = store.run(total, conversation)
        known = [cost for cost in costs if cost is not None]
        assert summed.costs.get("USD", Decimal(0)) == sum(known)
        assert summed.unknown_costs == len(costs) - len(known)


def test_budgets_count_a_conversation_a_day_and_a_user(store: Store):
    first, second = (store.run(create, name).id for name in ("a", "b"))
    for conversation, number in ((first, 1), (first, 2), (second, 3)):
        spending = Spending(f"s{number}", "claude", "c-5", Usage(100 * number, 1), Decimal(number))
        store.run(record_spending, conversation, spending)
    store.run(record_spending, second, Spending("s4", "gemini", "g", None, None))
    store.run(record_spending, second, Spending("s5", "gemini", "g", Usage(5), Decimal(9), "EUR"))
    everything = Spent(Decimal(6), 608)
    assert store.run(read_spent, first, 0) == {
        "conversation": Spent(Decimal(3), 302),
        "day": everything,
        "user": everything,
    }
    later = store.run(read_spent, second, 2**50)
    assert later["day"] == Spent()
    assert later["user"] == everything
    assert store.as_user("berta").run(read_spent, first, 0)["user"] == Spent()


def test_a_run_is_summed_by_model(store: Store):
    conversation = store.run(create, "t").id
    for number, model in enumerate(("c-5", "c-5", "g-3")):
        spending = Spending(f"s{number}", "claude", model, Usage(10, 1), Decimal(1))
        store.run(record_spending, conversation, spending)
    assert store.run(run_totals, conversation, "another run") == {}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),  # the day
            st.sampled_from(["claude", "gemini"]),
            st.sampled_from(["m-1", "m-2"]),
            st.none() | st.integers(0, 10**12).map(lambda nano: Decimal(nano).scaleb(-9)),
        ),
        max_size=12,
    ),
    st.integers(0, 5),
)
def test_what_was_spent_since_a_day_is_summed_by_day_speaker_and_model(
    answers: list[tuple[int, str, str, Decimal | None]], since: int
):
    hour, day_ms = 3_600_000, 86_400_000
    expected: dict[tuple[int, str, str], tuple[Decimal, int, int]] = {}
    with open_store(":memory:") as store:
        store.run(create, "t", identifier="mine")
        store.as_user("other").run(create, "t", identifier="theirs")
        other = Spending("x", "claude", "m-1", Usage(1), Decimal(1))
        store.as_user("other").run(record_spending, "theirs", other)
        for number, (day, speaker, model, cost) in enumerate(answers):
            spent = Spending(str(number), speaker, model, Usage(10, 1), cost)
            store.run(record_spending, "mine", spent)
            # An hour before midnight in UTC, so an hour after it two hours further east.
            store.run(_move, str(number), day * day_ms + 23 * hour)
            if day + 1 >= since:
                key = (day + 1, speaker, model)
                paid, unknown, count = expected.get(key, (Decimal(0), 0, 0))
                expected[key] = (paid + (cost or 0), unknown + (cost is None), count + 1)
        found = store.run(spent_by_day, since * day_ms - 2 * hour, 2 * hour)
    assert {
        (row.day, row.speaker, row.model): (row.cost, row.unknown, row.tokens.output_tokens)
        for row in found
    } == expected


def _move(transaction: Transaction, identifier: str, created_ms: int) -> None:
    transaction.rows("UPDATE usage SET created_ms = ? WHERE id = ?", created_ms, identifier)
