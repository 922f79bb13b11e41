"""Runs, in every store."""

import pytest
from tests.store.talking import talk

from multi_llm_chat.errors import UsageError
from multi_llm_chat.store import (
    ErrorRecord,
    Store,
    begin_run,
    create,
    end_run,
    path,
    runs,
    runs_at,
)
from multi_llm_chat.store.runs import SentRow, read_sent, save_sent


def test_a_failed_run_leaves_a_record_and_no_words(store: Store):
    conversation = talk(store, "question")
    run_id = store.run(begin_run, conversation, "gemini", base="0", spec={"model": "g"})
    assert store.run(begin_run, conversation, "gemini", base="0", identifier=run_id) == run_id
    record = ErrorRecord("RateLimited", "Too many requests.", provider="gemini", status=429)
    store.run(end_run, run_id, "failed", error=record)
    store.run(end_run, run_id, "done")
    (run,) = store.run(runs, conversation)
    assert (run.speaker, run.base, run.status, run.error) == ("gemini", "0", "failed", record)
    assert run.spec == {"model": "g"}
    assert len(store.run(path, conversation)) == 1
    with pytest.raises(UsageError, match="run with this id"):
        store.run(begin_run, talk(store), "gemini", base=None, identifier=run_id)


def test_what_was_sent_is_appended_and_old_series_are_removed(store: Store):
    conversation = store.run(create, "t").id
    rows = [
        SentRow("claude", f"series {series}", number, bytes([series, number, 0, 255]))
        for series in range(4)
        for number in range(3)
    ]
    for row in rows:
        store.run(save_sent, conversation, row)
        store.run(save_sent, conversation, row)  # a repeated write
    store.run(save_sent, conversation, SentRow("gemini", "other", 0, b"x"))
    assert store.run(read_sent, conversation, "claude") == rows[-6:]
    assert store.run(read_sent, conversation, "another") == []


def test_the_runs_of_some_turns_are_those_that_answer_them_or_have_these_ids(store: Store):
    conversation, other = talk(store, *"abcd"), talk(store, *"ab")
    made = [
        store.run(begin_run, conversation, speaker, base=base)
        for base in ("0", "1", "2")
        for speaker in ("gemini", "claude")
    ]
    foreign = store.run(begin_run, other, "gemini", base="0")
    everything = store.run(runs, conversation)
    assert store.run(runs_at, conversation, [*made, foreign], ["0", "1", "missing"]) == everything
    found = store.run(runs_at, conversation, [made[5], foreign, "missing"], ["0"])
    assert [run.id for run in found] == [
        run.id for run in everything if run.id in (*made[:2], made[5])
    ]
    assert store.run(runs_at, conversation, [], []) == ()
