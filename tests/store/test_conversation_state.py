"""The state of a conversation, in one small read."""

from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import (
    Store,
    append,
    begin_run,
    create,
    delete,
    end_run,
    move_head,
    read_conversation_state,
    rename,
    take_run,
)


def said(identifier: str) -> Turn:
    return Turn("user", (Text(identifier),), id=identifier)


def test_it_has_the_end_of_the_branch_and_the_unfinished_runs(store: Store):
    assert store.run(read_conversation_state, "c") is None
    store.run(create, "Title", identifier="c")
    empty = store.run(read_conversation_state, "c")
    assert empty is not None
    assert (empty.head, empty.turns, empty.running) == (None, 0, ())
    store.run(append, "c", [said("one"), said("two")])
    store.run(begin_run, "c", "claude", base="two", identifier="run")
    waiting = store.run(read_conversation_state, "c")
    assert waiting is not None
    assert (waiting.head, waiting.head_run, waiting.turns) == ("two", None, 2)
    assert [(run.id, run.speaker, run.is_free) for run in waiting.running] == [("run", "claude", True)]  # fmt: skip
    store.run(take_run, "run", "worker", 60_000)
    store.run(append, "c", [said("three")], run_id="run")
    taken = store.run(read_conversation_state, "c")
    assert taken is not None
    assert (taken.head, taken.head_run, taken.turns) == ("three", "run", 3)
    assert [run.is_free for run in taken.running] == [False]
    assert (taken.running[0].owner or "").startswith("worker")
    store.run(end_run, "run", "done")
    store.run(move_head, "c", "one")
    over = store.run(read_conversation_state, "c")
    assert over is not None
    assert (over.head, over.turns, over.running) == ("one", 3, ())


def test_the_list_is_another_when_any_entry_of_it_is(store: Store):
    store.run(create, "Title", identifier="c")
    before = store.run(read_conversation_state, "c")
    store.run(rename, "c", "Another")
    after = store.run(read_conversation_state, "c")
    assert before is not None
    assert after is not None
    assert before.listed != after.listed
    assert store.as_user("another user").run(read_conversation_state, "c") is None
    store.run(delete, "c")
    assert store.run(read_conversation_state, "c") is None
