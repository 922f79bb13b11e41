"""Runs and their calls, in every store."""

import pytest
from tests.store.talking import saved, say, talk

from multi_llm_chat.errors import UsageError
from multi_llm_chat.store import (
    ErrorRecord,
    Store,
    append,
    begin_call,
    begin_run,
    calls,
    end_call,
    end_run,
    get_turn,
    path,
    runs,
)


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
    with pytest.raises(UsageError, match="taken"):
        store.run(begin_run, talk(store), "gemini", base=None, identifier=run_id)


def test_calls_have_one_outcome(store: Store):
    conversation = talk(store, "question")
    run_id = store.run(begin_run, conversation, "gemini", base="0")
    store.run(begin_call, run_id, 0, "tool", "weather", idempotency_key="k")
    store.run(begin_call, run_id, 0, "tool", "weather")
    store.run(end_call, run_id, 0, "unknown")
    store.run(begin_call, run_id, 0, "tool", "weather", attempt=2)
    answer = saved(store.run(append, conversation, [say("sunny", "tool")], run_id=run_id)).head
    store.run(end_call, run_id, 0, "done", result={"sky": "\0"}, turn=answer)
    store.run(end_call, run_id, 0, "failed")
    store.run(begin_call, run_id, 0, "tool", "weather", attempt=3)
    (call,) = store.run(calls, run_id)
    assert (call.state, call.attempts, call.result, call.turn) == ("done", 2, {"sky": "\0"}, answer)
    assert call.idempotency_key == "k"
    assert store.run(get_turn, conversation, answer).run_id == run_id
