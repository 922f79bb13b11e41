"""Rows that another program has changed are a StoreError, and an old program stops writing after a migration."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import Media, Text, Turn
from multi_llm_chat.store import append, create, list_conversations, open_store, path

COLUMNS = ["conversations.settings", "turns.fields", "parts.body", "parts.kind"]

values = (
    st.text(max_size=20)
    | st.sampled_from(["", "{", "null", "7", "[]", '"x"', '{"content": 5}', '{"unknown": 1}', "=!"])
    | st.integers(-9, 9)
    | st.binary(max_size=9)
)


def damage(file: Path, column: str, value: object) -> None:
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {name} = ?", (value,))


@pytest.mark.parametrize("column", COLUMNS)
def test_a_damaged_row_is_a_store_error(column: str, tmp_path_factory: pytest.TempPathFactory):
    place = tmp_path_factory.mktemp("store") / "chats.db"
    with open_store(place) as store:
        conversation = store.run(create, "t").id
        parts = (Text("words"), Media("image/png", "aGk="))
        store.run(append, conversation, [Turn("user", parts)])

    @given(values)
    def check(value: object) -> None:
        damage(place, column, value)
        with open_store(place) as store:
            for operation in (
                lambda: store.run(path, conversation),
                lambda: store.run(list_conversations),
            ):
                reason = "damaged"
                try:
                    operation()
                except StoreError as error:
                    reason = error.reason
                assert reason == "damaged"

    check()


def test_a_program_stops_writing_once_a_newer_one_has_migrated_the_store(tmp_path: Path):
    place = tmp_path / "chats.db"
    with open_store(place) as store:
        conversation = store.run(create, "t").id
        with closing(sqlite3.connect(place)) as newer, newer:
            newer.execute("UPDATE meta SET version = version + 1")
        with pytest.raises(StoreError, match="newer version") as caught:
            store.run(append, conversation, [Turn("user", (Text("words"),))])
        assert caught.value.reason == "newer"
        assert store.run(path, conversation) == []
