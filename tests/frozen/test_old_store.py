"""A store that version 4 has written is opened, migrated, read as before, and its interrupted run is resumed."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.frozen.reading import differences, read_all
from tests.frozen.samples import make_old_store, schema_of, steps_of, text_of
from tests.runs.scene import Scene
from tests.runs.single_runs import driven

from multi_llm_chat.event_codec import read_row
from multi_llm_chat.history.values import Text, ToolResult
from multi_llm_chat.store import Store, list_runs, open_store, path
from multi_llm_chat.store._tables import STEPS, migrate, rewritten, version_of
from multi_llm_chat.store.sqlite import SQLiteConnection
from multi_llm_chat.store.transaction import read_json, write_json
from multi_llm_chat.testing import Say, Simulator
from multi_llm_chat.tools import ToolRegistry

VERSION = 4
BEFORE: Any = msgspec.json.decode(text_of("store_v4.json"))


@pytest.fixture
def old_store(tmp_path: Path) -> Iterator[Store]:
    place = tmp_path / "chats.db"
    make_old_store(place)
    with open_store(place) as store:
        yield store


def without_journals(before: Any) -> Any:
    """Journals are compared apart from the rest: they may get another format."""
    contents = {
        user: {
            name: {key: value for key, value in kept.items() if key != "journals"}
            for name, kept in found["contents"].items()
        }
        for user, found in before.items()
    }
    return {user: {**found, "contents": contents[user]} for user, found in before.items()}


def test_the_released_steps_make_the_same_tables(tmp_path: Path):
    place = tmp_path / "new.db"
    with closing(SQLiteConnection(str(place))) as connection:
        migrate(connection, "new", steps=STEPS[:VERSION])
    with closing(sqlite3.connect(place)) as connection:
        assert schema_of(connection) == text_of("schema_v4.sql")


def test_the_released_steps_say_the_same_to_postgres():
    assert steps_of(STEPS[:VERSION], "postgres") == text_of("postgres_v4.sql")


def test_an_old_store_is_sound_and_has_its_version(tmp_path: Path):
    place = tmp_path / "chats.db"
    make_old_store(place)
    with closing(SQLiteConnection(str(place))) as connection:
        assert version_of(connection) == VERSION
        assert connection.execute("PRAGMA integrity_check") == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check") == []


def test_opening_an_old_store_brings_it_to_the_newest_version(old_store: Store):
    assert old_store.file is not None
    with closing(SQLiteConnection(str(old_store.file))) as connection:
        assert version_of(connection) == len(STEPS)


def test_everything_in_an_old_store_is_read_as_before(old_store: Store):
    assert list(differences(without_journals(BEFORE), read_all(old_store))) == []


def test_the_journals_of_an_old_store_are_rewritten(old_store: Store):
    now = read_all(old_store)
    for user, found in BEFORE.items():
        for name, kept in found["contents"].items():
            for run, rows in kept["journals"].items():
                read = now[user]["contents"][name]["journals"][run]
                error = next(each["error"] for each in found["runs"] if each["id"] == run)
                kept_error = None if error is None else write_json(error)
                assert [(number, read_json(text)) for number, text in read] == [
                    (number, rewritten(read_json(text), kept_error)) for number, text in rows
                ]
                assert all(read_row(read_json(text)) is not None for _, text in read)


def test_the_interrupted_run_of_an_old_store_is_resumed(old_store: Store, tmp_path: Path):
    (interrupted,) = old_store.run(list_runs)
    tools, ran = ToolRegistry(), list[str]()

    @tools.tool(resume="retry")
    def get_weather(city: str) -> str:
        ran.append(city)
        return city

    @tools.tool(resume="never")
    def book_hotel(city: str, nights: int) -> str:
        ran.append(f"{nights} nights in {city}")
        return city

    with Simulator([Say("I do not know whether the hotel is booked.")]) as model:
        scene = Scene("", model.base_url("openai-chat"), str(tmp_path / "ledger"))
        status = asyncio.run(
            driven(scene, old_store, interrupted.id, tools, dead=interrupted.owner)
        )
    assert status == "done"
    assert ran == []  # one has its result, the other must not run twice
    *_, results, answer = old_store.run(path, interrupted.conversation)
    weather, hotel = results.parts
    assert isinstance(weather, ToolResult)
    assert weather.content == {"city": "Kyoto", "sky": "晴れ", "degrees": 21}
    assert isinstance(hotel, ToolResult)
    assert (hotel.is_error, hotel.synthetic) == (True, True)
    assert answer.parts == (Text("I do not know whether the hotel is booked."),)
