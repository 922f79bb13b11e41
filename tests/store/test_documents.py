"""Import and export of whole conversations, in every store."""

import pytest
from tests.store.talking import say

from multi_llm_chat.archive.document import ConversationDocument, TreeTurn
from multi_llm_chat.errors import UsageError
from multi_llm_chat.store import (
    Store,
    list_conversations,
    read_document,
    search,
    write_document,
)


def test_a_document_is_read_as_it_was_written(store: Store):
    document = ConversationDocument(
        "doc-1",
        "題",
        created_ms=5,
        archived_ms=7,
        turns=(
            TreeTurn(say("a", identifier="a")),
            TreeTurn(say("b", identifier="b"), "a"),
            TreeTurn(say("c", identifier="c"), "a"),
            TreeTurn(say("root", identifier="d")),
        ),
        heads={"main": "c", "other": "d"},
        settings={"system": "x"},
    )
    assert store.run(write_document, document) == "doc-1"
    assert store.run(read_document, "doc-1") == document
    second = store.run(write_document, document)
    assert second != "doc-1"
    copy = store.run(read_document, second)
    assert (copy.turns, copy.heads) == (document.turns, document.heads)
    assert [hit.turn for hit in store.run(search, "root", archived=True)] == ["d", "d"]


def test_ids_that_no_store_takes_are_replaced_throughout(store: Store):
    bad = "x" * 300
    document = ConversationDocument(
        "\0",
        turns=(TreeTurn(say("a", identifier=bad)), TreeTurn(say("b"), bad)),
        heads={"main": bad},
    )
    read = store.run(read_document, store.run(write_document, document))
    assert read.turns[1].parent == read.turns[0].turn.id == read.heads["main"] != bad


BROKEN: dict[str, tuple[tuple[TreeTurn, ...], dict[str, str]]] = {
    "a parent that is not there": ((TreeTurn(say("a", identifier="a"), "z"),), {}),
    "two of one id": ((TreeTurn(say("a", identifier="a")),) * 2, {}),
    "a head that is not there": ((TreeTurn(say("a", identifier="a")),), {"main": "z"}),
}


@pytest.mark.parametrize(("turns", "ends"), BROKEN.values(), ids=BROKEN.keys())
def test_nothing_of_a_broken_document_is_written(
    store: Store, turns: tuple[TreeTurn, ...], ends: dict[str, str]
):
    with pytest.raises(UsageError):
        store.run(write_document, ConversationDocument("broken", turns=turns, heads=ends))
    assert store.run(list_conversations).conversations == ()
