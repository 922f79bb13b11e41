"""Tokens and cost are summed, and what is not known stays visible."""

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
    append,
    create,
    open_store,
    read_spent,
    record_spending,
    run_totals,
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
