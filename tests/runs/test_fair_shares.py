"""Which run a worker drives next: users get equal shares."""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.talking import talk

from multi_llm_chat.runs.orphans import FairShares
from multi_llm_chat.store import (
    Store,
    Transaction,
    begin_run,
    delete,
    end_run,
    open_store,
    take_run,
)
from multi_llm_chat.store.runs import WaitingRun, waiting_runs


def _begin(store: Store, number: int, *, user: str = "me", speaker: str = "robot") -> str:
    own = store.as_user(user)
    conversation = talk(own, "question")
    run_id = own.run(begin_run, conversation, speaker, base="0", identifier=f"{user}-{number:03}")

    def date(transaction: Transaction) -> None:
        """Give each run its own time, so that their order is known."""
        transaction.rows("UPDATE runs SET began_ms = ? WHERE id = ?", number, run_id)

    own.run(date)
    return run_id


@pytest.fixture
def store(new_place: Callable[[], str]) -> Iterator[Store]:
    with open_store(new_place()) as opened:
        yield opened


def _take_in_turn(store: Store, count: int) -> list[str]:
    """Return the runs that one worker takes; each ends before it takes the next."""
    shares, order = FairShares(), list[str]()
    for _ in range(count):
        chosen = shares.choose(store.run(waiting_runs))
        assert chosen is not None
        assert store.run(take_run, chosen.id, "worker", 60_000) is not None
        store.as_user(chosen.user).run(end_run, chosen.id, "done")
        order.append(chosen.id)
    return order


def test_three_runs_of_one_user_do_not_wait_for_forty_of_another(store: Store):
    for number in range(40):
        _begin(store, number, user="anna")
    for number in range(3):
        _begin(store, 100 + number, user="bert")
    assert _take_in_turn(store, 7) == [
        "anna-000",
        "bert-100",
        "anna-001",
        "bert-101",
        "anna-002",
        "bert-102",
        "anna-003",
    ]


def test_the_user_with_the_fewest_driven_runs_is_next(store: Store):
    for number in range(6):
        _begin(store, number, user="anna")
    for number in range(3):
        _begin(store, 100 + number, user="bert")
    shares, order = FairShares(), list[str]()
    for _ in range(8):  # eight at the same time
        chosen = shares.choose(store.run(waiting_runs))
        assert chosen is not None
        assert store.run(take_run, chosen.id, "worker", 60_000) is not None
        order.append(chosen.user)
    assert Counter(order[:6]) == {"anna": 3, "bert": 3}
    assert order[6:] == ["anna", "anna"]


def test_runs_of_one_speaker_in_one_conversation_follow_each_other(store: Store):
    conversation = talk(store, "question")
    for number in range(2):
        store.run(begin_run, conversation, "robot", base="0", identifier=f"robot-{number}")
    store.run(begin_run, conversation, "other", base="0", identifier="zeta")
    shares = FairShares()
    taken: list[str] = []
    while chosen := shares.choose(store.run(waiting_runs)):
        assert store.run(take_run, chosen.id, "worker", 60_000) is not None
        taken.append(chosen.id)
    assert sorted(taken) == ["robot-0", "zeta"]
    store.run(end_run, "robot-0", "done")
    assert [each.id for each in store.run(waiting_runs)] == ["robot-1"]


def test_a_run_whose_lease_has_ended_waits_and_one_of_a_deleted_conversation_does_not(store: Store):
    left = _begin(store, 1)
    conversation = talk(store, "question")
    store.run(begin_run, conversation, "robot", base="0", identifier="deleted")
    store.run(delete, conversation)
    assert store.run(take_run, left, "worker", -1_000) is not None
    assert [(each.id, each.driven) for each in store.run(waiting_runs)] == [(left, 0)]


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=12), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_no_user_is_passed_over(seconds: list[list[int]], slots: int):
    """The n-th run of a user starts after at most n runs of each other user, not counting those already running."""
    queues = {
        f"user {user}": deque(enumerate(lengths, start=1)) for user, lengths in enumerate(seconds)
    }
    driven: Counter[str] = Counter()
    ending: list[tuple[int, int, str]] = []
    started: Counter[str] = Counter()
    shares, now, count = FairShares(), 0, 0
    while any(queues.values()):
        if len(ending) == slots:
            now, _, ended = heapq.heappop(ending)
            driven[ended] -= 1
        waiting = [
            WaitingRun(f"{user}/{queue[0][0]}", user, driven[user], queue[0][0])
            for user, queue in queues.items()
            if queue
        ]
        chosen = shares.choose(waiting)
        assert chosen is not None
        # No waiting user has a smaller share than the chosen user.
        assert chosen.driven == min(each.driven for each in waiting)
        if slots == 1:
            assert all(started[chosen.user] <= started[each.user] for each in waiting), (
                "a user was served twice while another waited"
            )
        number, length = queues[chosen.user].popleft()
        assert chosen.id == f"{chosen.user}/{number}"
        started[chosen.user] += 1
        driven[chosen.user] += 1
        count += 1
        heapq.heappush(ending, (now + length, count, chosen.user))
