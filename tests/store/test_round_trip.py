"""Reading returns what was written: every value of every turn."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import PLACES
from tests.strategies.histories import VALUES
from tests.strategies.turns import turns

from multi_llm_chat.archive.document import ConversationDocument, TreeTurn
from multi_llm_chat.history.values import Turn
from multi_llm_chat.store import (
    Store,
    append,
    create,
    open_store,
    path,
    read_document,
    write_document,
)
from multi_llm_chat.store.transaction import read_json, write_json


@pytest.fixture(scope="module", params=PLACES)
def lasting_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    if request.param == "postgres":
        place: str = request.getfixturevalue("postgres_server")
    elif request.param == "sqlite file":
        place = str(tmp_path_factory.mktemp("store") / "chats.db")
    else:
        place = ":memory:"
    with open_store(place) as store:
        yield store


# repr, not equality: NaN is unequal to itself, and 1 equals True.
@given(written=st.lists(turns, min_size=1, max_size=3))
def test_every_turn_is_read_as_it_was_written(lasting_store: Store, written: list[Turn]):
    conversation = lasting_store.run(create, "t").id
    numbered = [replace(turn, id=f"t{number}") for number, turn in enumerate(written)]
    lasting_store.run(append, conversation, numbered)
    read = lasting_store.run(path, conversation)
    timed = [
        replace(
            turn,
            created_at=turn.created_at
            if written_turn.created_at is None
            else written_turn.created_at,
        )
        for turn, written_turn in zip(read, numbered, strict=True)
    ]
    assert repr(read) == repr(timed)
    assert repr([replace(turn, created_at=0) for turn in read]) == repr([replace(turn, created_at=0) for turn in numbered])  # fmt: skip


@given(
    written=st.lists(turns, max_size=4),
    parents=st.lists(st.integers(-1, 3), min_size=4, max_size=4),
)
def test_every_document_is_read_as_it_was_written(written: list[Turn], parents: list[int]):
    items = [
        TreeTurn(
            replace(turn, id=f"t{number}"),
            f"t{parents[number]}" if 0 <= parents[number] < number else None,
        )
        for number, turn in enumerate(written)
    ]
    heads = {"main": f"t{len(items) - 1}"} if items else {}
    document = ConversationDocument("d", "t", 1, None, tuple(items), heads, {"written": len(items)})
    with open_store(":memory:") as store:
        assert repr(store.run(read_document, store.run(write_document, document))) == repr(document)


@given(value=VALUES)
def test_json_is_kept_to_the_letter(value: object):
    text = write_json(value)
    text.encode()
    assert "\0" not in text
    assert repr(read_json(text)) == repr(value)


def test_what_is_no_json_is_kept_as_the_nearest_there_is():
    assert read_json(write_json({"a": {1, 2}, "b": b"x"})) == {"a": [1, 2], "b": "b'x'"}


def nested(depth: int, kind: str) -> object:
    deep: object = "bottom"
    for _ in range(depth):
        deep = {"list": [deep], "object": {"in": deep}, "mixed": [0, (deep,)]}[kind]
    return deep


@pytest.mark.parametrize("kind", ["list", "object", "mixed"])
@pytest.mark.parametrize("depth", [450, 950, 5_000, 20_000])
def test_what_another_python_might_not_read_is_not_written(kind: str, depth: int):
    assert "nested too deeply" in write_json(nested(depth, kind))


def test_much_that_is_not_deep_is_kept():
    wide = [{"a": [number]} for number in range(1000)]
    for value in (wide, nested(300, "list"), ["[" * 1000]):
        assert read_json(write_json(value)) == value
