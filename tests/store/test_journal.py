"""The owner of a run, its calls and its events, in every store."""

import pytest
from tests.store.talking import saved, say, talk

from multi_llm_chat.errors import RunLost, StoreError
from multi_llm_chat.store import (
    CallStart,
    ErrorRecord,
    Events,
    Fence,
    Store,
    Taken,
    Transaction,
    append,
    append_events,
    begin_calls,
    begin_run,
    calls,
    count_runs,
    end_call,
    finish_run,
    list_runs,
    prune_events,
    read_events,
    release_run,
    renew,
    reopen_run,
    run_info,
    runs,
    stop_run,
    take_run,
)

LONG = 60_000
OVER = -1_000  # clocks are rounded


def begun(store: Store) -> str:
    return store.run(begin_run, talk(store, "question"), "gemini", base="0", spec={"model": "g"})


def taken(store: Store, run_id: str, lease: int = LONG, owner: str = "me") -> Taken:
    found = store.run(take_run, run_id, owner, lease)
    assert found is not None
    return found


def test_one_takes_a_run_and_others_wait_for_its_lease(store: Store):
    run_id = begun(store)
    first = taken(store, run_id)
    assert (first.fence.epoch, first.base, first.speaker) == (1, "0", "gemini")
    assert (first.spec, first.user, first.sequence) == ({"model": "g"}, "local", 1)
    assert store.run(take_run, run_id, "other", LONG) is None
    assert store.run(take_run, "no such run", "other", LONG) is None
    owner = store.run(run_info, run_id).owner
    second = store.run(take_run, run_id, "other", OVER, dead=owner)
    assert second is not None
    assert second.fence.epoch == 2
    assert taken(store, run_id).fence.epoch == 3


def test_a_take_that_is_tried_again_has_happened_once(store: Store):
    run_id = begun(store)

    def twice(transaction: Transaction) -> tuple[Taken | None, Taken | None]:
        # As after a lost connection: the operation runs again with the same ids.
        first = take_run(transaction, run_id, "me", LONG)
        transaction._context.restart()  # pyright: ignore[reportPrivateUsage]
        return first, take_run(transaction, run_id, "me", LONG)

    first, second = store.run(twice)
    assert first == second
    assert first is not None
    assert first.fence.epoch == first.attempts == 1


def test_who_lost_a_run_writes_nothing_more(store: Store):
    run_id = begun(store)
    old = taken(store, run_id, OVER).fence
    new = taken(store, run_id).fence
    assert store.run(renew, [old, new], LONG) == ({run_id}, set())
    writes = (
        lambda: store.run(begin_calls, old, [CallStart(0, "model", "g")]),
        lambda: store.run(end_call, old, 0, "done"),
        lambda: store.run(finish_run, old, "done"),
    )
    for write in writes:
        with pytest.raises(RunLost):
            write()
    assert store.run(append_events, [Events(old, ((1, "a"),))]) == ({run_id}, set())
    assert store.run(read_events, run_id).events == ()
    assert store.run(calls, run_id) == ()


def test_a_lease_that_ran_out_is_valid_until_another_process_takes_the_run(store: Store):
    run_id = begun(store)
    fence = taken(store, run_id, OVER).fence
    store.run(begin_calls, fence, [CallStart(0, "model", "g")])
    assert store.run(renew, [fence], LONG) == ({run_id}, set())
    assert store.run(take_run, run_id, "other", LONG) is None


def test_calls_have_one_outcome_and_count_their_attempts(store: Store):
    conversation = talk(store, "question")
    run_id = store.run(begin_run, conversation, "gemini", base="0")
    fence = taken(store, run_id, OVER).fence
    start = [CallStart(0, "tool", "weather", "k"), CallStart(1, "tool", "mail", "m")]
    store.run(begin_calls, fence, start)
    store.run(begin_calls, fence, start)
    assert [each.attempts for each in store.run(calls, run_id)] == [1, 1]
    again = taken(store, run_id, OVER)
    assert again.attempts == 2
    store.run(begin_calls, again.fence, start)
    answer = saved(store.run(append, conversation, [say("sunny", "tool")], run_id=run_id)).head
    store.run(end_call, again.fence, 0, "done", result={"sky": "\0"}, turn=answer)
    store.run(end_call, again.fence, 0, "failed")
    store.run(end_call, again.fence, 1, "unknown", result="?")
    third = taken(store, run_id, OVER)
    assert third.attempts == 1
    store.run(begin_calls, third.fence, start)
    weather, mail = store.run(calls, run_id)
    assert (weather.state, weather.attempts, weather.result) == ("done", 2, {"sky": "\0"})
    assert (weather.turn, weather.idempotency_key) == (answer, "k")
    assert (mail.state, mail.attempts, mail.result) == ("unknown", 2, "?")


def test_events_are_read_without_a_gap_and_written_once(store: Store):
    run_id = begun(store)
    fence = taken(store, run_id).fence
    store.run(append_events, [Events(fence, ((1, "a"), (2, "b"), (4, "d")))])
    assert store.run(read_events, run_id).events == ((1, "a"), (2, "b"))
    store.run(append_events, [Events(fence, ((2, "other"), (3, "c")))])
    assert store.run(read_events, run_id, 1).events == ((2, "b"), (3, "c"), (4, "d"))
    error = ErrorRecord("Overloaded", "busy")
    store.run(finish_run, fence, "failed", error=error, events=((5, "e"),))
    store.run(finish_run, fence, "done")
    read = store.run(read_events, run_id, 4)
    assert (read.events, read.status, read.error) == (((5, "e"),), "failed", error)
    store.run(prune_events, LONG)
    assert store.run(read_events, run_id, 4).events
    store.run(prune_events, OVER)
    assert not store.run(read_events, run_id).events
    with pytest.raises(StoreError, match="no run"):
        store.run(read_events, "another")


def test_a_new_holder_counts_events_on(store: Store):
    run_id = begun(store)
    store.run(append_events, [Events(taken(store, run_id, OVER).fence, ((1, "a"), (2, "b")))])
    again = taken(store, run_id, OVER)
    assert again.sequence == 3
    # Events after one that was never saved are removed too.
    store.run(append_events, [Events(again.fence, ((3, "c"), (5, "e"), (6, "f")))])
    last = taken(store, run_id)
    assert last.sequence == 4
    store.run(append_events, [Events(last.fence, ((4, "d"),))])
    read = store.run(read_events, run_id).events
    assert [payload for _, payload in read] == ["a", "b", "c", "d"]


def test_calls_that_were_begun_have_failed_when_the_run_is_over(store: Store):
    run_id = begun(store)
    fence = taken(store, run_id).fence
    store.run(begin_calls, fence, [CallStart(0, "model", "g")])
    store.run(finish_run, fence, "cancelled")
    assert [each.state for each in store.run(calls, run_id)] == ["failed"]


def test_a_released_run_is_free_at_once_and_counts_no_attempt(store: Store):
    run_id = begun(store)
    fence = taken(store, run_id).fence
    store.run(release_run, fence)
    store.run(release_run, fence)
    assert store.run(run_info, run_id).is_free
    again = taken(store, run_id)
    assert (again.fence.epoch, again.attempts) == (2, 1)


def test_an_operator_stops_runs_and_opens_them_again(store: Store):
    held, free = begun(store), begun(store)
    fence = taken(store, held).fence
    assert store.run(stop_run, held) == "asked"
    assert store.run(renew, [fence], LONG) == ({held}, {held})
    assert store.run(stop_run, free) == "stopped"
    assert store.run(stop_run, free) == "over"
    assert not store.run(reopen_run, free)
    assert [info.id for info in store.run(list_runs)] == [held]
    assert store.run(count_runs) == {"cancelled": 1, "running": 1}
    store.run(finish_run, fence, "failed", error=ErrorRecord("Overloaded", "busy"))
    assert store.run(reopen_run, held)
    assert store.run(reopen_run, held)
    assert store.run(run_info, held).is_free
    assert {info.status for info in store.run(list_runs, None)} == {"running", "cancelled"}


def test_runs_of_all_users_are_found_without_their_words(store: Store):
    other = store.as_user("bob")
    run_id = begun(other)
    (info,) = store.run(list_runs)
    assert (info.id, info.user) == (run_id, "bob")
    assert "question" not in repr(info)
    found = store.run(take_run, run_id, "me", LONG)
    assert found is not None
    assert other.run(runs, found.conversation)[0].id == run_id
    assert isinstance(found.fence, Fence)
