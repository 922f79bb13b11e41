"""Turns and branches, in every store."""

import pytest
from tests.store.talking import count_rows, saved, say, talk, words_of

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.values import Media, Text, ToolCall, ToolResult, Turn
from multi_llm_chat.store import (
    Appended,
    Conflict,
    Store,
    Transaction,
    append,
    children,
    create,
    drop_head,
    get_turn,
    heads,
    list_conversations,
    move_head,
    newest_leaf,
    page,
    path,
    path_to,
    siblings,
)


def test_turns_are_read_as_they_were_written(store: Store):
    turns = [
        say("やあ"),
        Turn(
            "claude",
            (
                Text(""),
                ToolCall("f", {"a": [1, None, 2.5]}, "c1", raw_arguments='{ "a":[1,null,2.5]}'),
                ToolCall("g", {}, "c2", "{oops", "not JSON"),
            ),
            model="claude-5",
            meta={"finish": "tool_calls"},
        ),
        Turn("tool", (ToolResult("f", {"x": ["\0", "\ud83d"]}, "c1", is_error=True),)),
        Turn(
            "human\0", unreadable="not a turn: int", created_at="2026-01-01T00:00:00Z", id="my-id"
        ),
    ]
    conversation = talk(store)
    kept = saved(store.run(append, conversation, turns))
    assert store.run(path, conversation) == list(kept.turns)
    for before, after in zip(turns, kept.turns, strict=True):
        assert before.parts == after.parts
        assert (before.role, before.meta, before.unreadable) == (after.role, after.meta, after.unreadable)  # fmt: skip
    assert kept.turns[3].id == "my-id"
    assert kept.turns[3].created_at == "2026-01-01T00:00:00Z"
    assert all(turn.id and turn.created_at for turn in kept.turns)
    assert store.run(get_turn, conversation, "my-id").created_ms == 1767225600000


def test_appending_again_changes_nothing(store: Store):
    conversation = talk(store, "one", "two")
    again = [say("one", identifier="0"), say("two", identifier="1")]
    assert saved(store.run(append, conversation, again, expected=None)).head == "1"
    more = [*again, say("three", identifier="2")]
    assert saved(store.run(append, conversation, more)).head == "2"
    assert words_of(store.run(path, conversation)) == ["one", "two", "three"]


def test_who_expects_another_end_learns_of_it_and_changes_nothing(store: Store):
    conversation = talk(store, "one")
    assert store.run(append, conversation, [say("x")], expected=None) == Conflict("0")
    assert store.run(append, talk(store), [say("x")], expected="0") == Conflict(None)
    assert words_of(store.run(path, conversation)) == ["one"]
    assert isinstance(store.run(append, conversation, [say("two")], expected="0"), Appended)


def test_a_failed_append_leaves_nothing(store: Store):
    conversation = talk(store, "one")
    with pytest.raises(UsageError, match="An id is"):
        store.run(append, conversation, [say("fine"), say("bad", identifier="x" * 201)])
    with pytest.raises(UsageError, match="no turn"):
        store.run(append, conversation, [])
    with pytest.raises(StoreError, match="has no turn 'nowhere'"):
        store.run(append, conversation, [say("lost")], parent="nowhere")
    assert words_of(store.run(path, conversation)) == ["one"]


def test_operations_are_composed_into_one_transaction(store: Store):
    def both(transaction: Transaction, fail: bool) -> str:
        conversation = create(transaction, "made").id
        append(transaction, conversation, [say("hello")])
        if fail:
            raise RuntimeError("on purpose")
        return conversation

    with pytest.raises(RuntimeError, match="on purpose"):
        store.run(both, True)
    assert store.run(list_conversations).conversations == ()
    assert words_of(store.run(path, store.run(both, fail=False))) == ["hello"]


def test_an_edit_is_another_branch_and_the_first_one_stays(store: Store):
    conversation = talk(store, "q", "a", "q2", "a2")
    store.run(
        append, conversation, [say("edited", identifier="e"), say("b", identifier="f")], parent="1"
    )
    assert words_of(store.run(path, conversation)) == ["q", "a", "edited", "b"]
    assert words_of(store.run(path_to, conversation, "3")) == ["q", "a", "q2", "a2"]
    assert store.run(siblings, conversation, ["2", "0"]) == {"2": ("2", "e"), "0": ("0",)}
    assert store.run(children, conversation, "1") == ("2", "e")
    assert store.run(newest_leaf, conversation, "2") == "3"
    assert store.run(newest_leaf, conversation, "0") == "f"
    store.run(move_head, conversation, "3")
    store.run(move_head, conversation, "f", branch="draft")
    assert store.run(heads, conversation) == {"main": "3", "draft": "f"}
    assert words_of(store.run(path, conversation, head="draft"))[-1] == "b"
    store.run(drop_head, conversation, "draft")
    assert store.run(heads, conversation) == {"main": "3"}
    store.run(append, conversation, [say("fresh", identifier="r")], parent=None)
    assert words_of(store.run(path, conversation)) == ["fresh"]
    assert store.run(children, conversation, None) == ("0", "r")


def test_a_long_conversation_is_read_page_by_page_from_its_end(store: Store):
    conversation = talk(store, *(f"words {number}" for number in range(23)))
    read: list[str] = []
    before, more = None, True
    while more:
        part = store.run(page, conversation, before=before, limit=5)
        read = words_of([placed.turn for placed in part.turns]) + read
        before, more = part.turns[0].turn.id, part.more
    assert read == words_of(store.run(path, conversation))
    assert store.run(page, conversation, before="0").turns == ()
    assert store.run(page, talk(store)).turns == ()


def test_large_media_are_kept_once(store: Store):
    conversation = talk(store)
    pictures = [
        Media("image/png", data="QUJD" * 2000, name="a"),
        Media("image/gif", data="QUJD" * 2000),
    ]
    odd = [
        Media("x/y", data=data) for data in ("not base64! " * 1000, "QUJD" * 2000 + "QQ==\n", "")
    ]
    store.run(append, conversation, [Turn("user", (*pictures, *odd))])
    assert store.run(path, conversation)[0].parts == (*pictures, *odd)
    assert store.run(count_rows, "blobs") == 1
