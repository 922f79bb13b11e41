"""Conversations and their owners, in every store."""

from typing import Any

import pytest
from tests.store.talking import count_rows, saved, say, talk, words_of

from multi_llm_chat.archive.document import ConversationDocument, TreeTurn
from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import Media, Text, Turn
from multi_llm_chat.store import (
    CallStart,
    Events,
    Store,
    Transaction,
    append,
    append_events,
    archive,
    begin_calls,
    begin_run,
    calls,
    create,
    delete,
    end_run,
    find,
    get,
    heads,
    list_conversations,
    path,
    purge,
    read_document,
    read_events,
    rename,
    search,
    set_settings,
    take_run,
    undelete,
    write_document,
)


def test_a_new_conversation_is_there_with_its_settings(store: Store):
    made = store.run(create, "旅行 ✈️", settings={"system": "Be kind.", "odd": "\0\ud800"})
    assert store.run(get, made.id) == made
    assert (made.title, made.settings["odd"]) == ("旅行 ✈️", "\0\ud800")


def test_creating_the_same_id_again_gives_the_first(store: Store):
    first = store.run(create, "one", identifier="mine")
    assert store.run(create, "two", identifier="mine") == first


def test_titles_may_be_the_same_in_any_script(store: Store):
    ids = {store.run(create, title).id for title in ("日本", "日本", "한국", "a/b", "A/B", "")}
    assert len(ids) == 6


def test_the_list_begins_with_the_last_changed_and_is_read_in_pages(store: Store):
    names = [talk(store, title=f"number {number}") for number in range(7)]
    store.run(set_changed, names[2])
    listed: list[str] = []
    after = None
    while True:
        listing = store.run(list_conversations, limit=3, after=after)
        listed += [summary.id for summary in listing.conversations]
        if (after := listing.after) is None:
            break
    assert listed[0] == names[2]
    assert sorted(listed) == sorted(names)


def set_changed(transaction: Transaction, conversation: str) -> None:
    transaction.rows(
        "UPDATE conversations SET changed_ms = changed_ms + 1000000 WHERE id = ?", conversation
    )


def test_archived_conversations_have_a_list_of_their_own(store: Store):
    one, other = talk(store, "needle"), talk(store, "needle")
    store.run(archive, one)
    listed = {
        which: [item.id for item in store.run(list_conversations, which=which).conversations]
        for which in ("open", "archived", "both", "deleted")
    }
    assert listed == {"open": [other], "archived": [one], "both": [other, one], "deleted": []}
    assert [hit.conversation for hit in store.run(search, "needle")] == [other]
    assert len(store.run(search, "needle", archived=True)) == 2
    store.run(archive, one, archived=False)
    assert len(store.run(search, "needle")) == 2


def test_a_conversation_is_renamed_and_its_settings_replaced(store: Store):
    conversation = talk(store)
    store.run(rename, conversation, "새 이름\0")
    store.run(set_settings, conversation, {"speakers": ["claude"]})
    summary = store.run(get, conversation)
    assert (summary.title, summary.settings) == ("새 이름", {"speakers": ["claude"]})


def test_deleting_can_be_undone_until_it_is_purged(store: Store):
    conversation = talk(store, "gone words")
    store.run(delete, conversation)
    for look in (get, path, heads, read_document):
        with pytest.raises(StoreError, match="There is no conversation") as caught:
            store.run(look, conversation)
        assert caught.value.reason == "missing"
    assert store.run(search, "gone") == ()
    assert store.run(undelete, conversation).id == conversation
    assert words_of(store.run(path, conversation)) == ["gone words"]
    store.run(delete, conversation)
    assert store.run(purge, deleted_before_ms=0) == 0
    assert store.run(purge, deleted_before_ms=2**60) == 1
    assert store.run(list_conversations, which="deleted").conversations == ()
    with pytest.raises(StoreError):
        store.run(undelete, conversation)


def test_purging_leaves_nothing_behind_but_what_others_use(store: Store):
    picture = Media("image/png", data="AAAA" * 3000)
    kept, gone = talk(store), talk(store, "some words")
    store.run(append, kept, [Turn("user", (picture,))])
    turn = saved(store.run(append, gone, [Turn("user", (picture, Text("東京")))])).head
    other = Turn("user", (Media("image/png", data="BBBB" * 3000),))
    store.run(append, gone, [other])
    run_id = store.run(begin_run, gone, "claude", base=turn)
    taken = store.run(take_run, run_id, "me", 1000)
    assert taken is not None
    store.run(begin_calls, taken.fence, [CallStart(0, "model", "claude")])
    store.run(append_events, [Events(taken.fence, ((1, "event"),))])
    store.run(delete, gone)
    store.run(purge, deleted_before_ms=2**60)
    counts = {
        table: store.run(count_rows, table)
        for table in ("conversations", "turns", "parts", "blobs", "runs", "calls", "run_events")
    }
    rest = {"runs": 0, "calls": 0, "run_events": 0}
    assert counts == {"conversations": 1, "turns": 1, "parts": 1, "blobs": 1, **rest}
    assert store.run(search, "東京") == store.run(search, "words") == ()
    assert store.run(path, kept)[0].parts == (picture,)


def test_a_conversation_of_thousands_is_purged_too(store: Store):
    items = [TreeTurn(say("x", identifier=f"{n}"), f"{n - 1}" if n else None) for n in range(1500)]
    document = ConversationDocument("long", turns=tuple(items), heads={"main": "1499"})
    store.run(write_document, document)
    assert len(store.run(path, "long")) == 1500
    store.run(delete, "long")
    assert store.run(purge, deleted_before_ms=2**60) == 1
    assert store.run(count_rows, "turns") == 0


def test_people_find_conversations_by_id_title_and_beginning(store: Store):
    ids = [store.run(create, title, identifier=name).id for name, title in
           (("abc-1", "Rome"), ("abc-2", "Oslo"), ("Oslo-9", "100%"), ("x_y", "Rome"))]  # fmt: skip
    assert [found.id for found in store.run(find, "abc-2")] == [ids[1]]
    assert [found.id for found in store.run(find, "Oslo")] == [ids[1]]
    assert {found.id for found in store.run(find, "Rome")} == {ids[0], ids[3]}
    assert {found.id for found in store.run(find, "abc")} == {ids[0], ids[1]}
    assert [store.run(find, words) for words in ("", "x%", "_", "rome")] == [()] * 4


def test_users_never_see_each_other(store: Store):
    ann, bob = store.as_user("ann"), store.as_user("Боб")
    conversation = talk(ann, "secret plan")
    run_id = ann.run(begin_run, conversation, "claude", base="0")
    assert bob.run(list_conversations).conversations == ()
    assert bob.run(search, "secret") == bob.run(find, conversation) == ()
    attempts: list[Any] = [
        lambda: bob.run(get, conversation),
        lambda: bob.run(path, conversation),
        lambda: bob.run(append, conversation, [say("mine now")]),
        lambda: bob.run(rename, conversation, "mine"),
        lambda: bob.run(delete, conversation),
        lambda: bob.run(undelete, conversation),
        lambda: bob.run(end_run, run_id, "done"),
        lambda: bob.run(calls, run_id),
        lambda: bob.run(read_events, run_id),
    ]
    for attempt in attempts:
        with pytest.raises(StoreError, match="There is no"):
            attempt()
    assert bob.run(purge, deleted_before_ms=2**60) == 0
    # Both users have the same ids, and neither affects the other.
    bob.run(write_document, ann.run(read_document, conversation))
    bob.run(rename, conversation, "copy")
    assert ann.run(get, conversation).title == "Talk"
    assert len(ann.run(search, "secret")) == len(bob.run(search, "secret")) == 1
