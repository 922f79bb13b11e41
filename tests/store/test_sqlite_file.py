"""A database file with full disks, read-only folders, damage, and older and newer programs."""

import os
import sqlite3
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.hardships import in_read_only_folder, on_small_disk, open_and_list
from tests.store.processes import context

from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import append, create, list_conversations, open_store, path
from multi_llm_chat.store._tables import STEPS, migrate, version_of
from multi_llm_chat.store.sqlite import SQLiteConnection


def fill(place: str, count: int) -> str:
    """Append so many kilobytes; return the conversation."""
    with open_store(place) as store:
        conversation = store.run(create, "t").id
        for number in range(count):
            words = f"{number} " + os.urandom(500).hex()
            store.run(append, conversation, [Turn("user", (Text(words),), id=f"{number}")])
    return conversation


def old_store(place: Path) -> None:
    """Create a file of version 1 with one conversation in it."""
    with closing(SQLiteConnection(str(place))) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, "old", steps=STEPS[:1])
        connection.execute(
            "INSERT INTO conversations(user_id, id, made_by, title, settings, created_ms, changed_ms)"
            " VALUES ('local', 'old', 'old', 'Old', '{}', 1, 1)"
        )


def test_only_the_owner_can_read_the_file(tmp_path: Path):
    place = tmp_path / "new folder" / "chats.db"
    with open_store(place) as store:
        store.run(create, "t")
        modes = {stat.S_IMODE(file.stat().st_mode) for file in place.parent.iterdir()}
    assert modes == {0o600}


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_paths_and_addresses_mean_the_same_file(tmp_path: Path, form: str):
    place = tmp_path / "ファイル 1.db"
    with open_store(form.format(place)) as store:
        store.run(create, "t")
    assert place.exists()


def test_an_old_file_is_copied_before_it_is_changed(tmp_path: Path):
    place = tmp_path / "chats.db"
    old_store(place)
    with open_store(place) as store:
        assert [item.title for item in store.run(list_conversations).conversations] == ["Old"]
        store.run(create, "New")
    backup = tmp_path / "chats.db.v1.backup"
    with closing(SQLiteConnection(str(backup))) as connection:
        assert version_of(connection) == 1
        assert connection.execute("SELECT title FROM conversations") == [("Old",)]
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*.unfinished*"))


def test_a_new_file_needs_no_copy(tmp_path: Path):
    open_store(tmp_path / "chats.db").close()
    assert [file.name for file in tmp_path.glob("*backup*")] == []


def test_a_migration_that_fails_changes_nothing(tmp_path: Path):
    place = tmp_path / "chats.db"
    old_store(place)
    with closing(SQLiteConnection(str(place))) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, "x", steps=(*STEPS, ("CREATE TABLE one(a)", "NO SUCH STATEMENT")))
        assert version_of(connection) == 1
        assert connection.execute("SELECT 1 FROM sqlite_master WHERE name IN ('one', 'runs')") == []


def test_processes_that_open_an_old_file_at_once_migrate_it_once(tmp_path: Path):
    place = tmp_path / "chats.db"
    old_store(place)
    with ProcessPoolExecutor(4, mp_context=context()) as pool:
        assert list(pool.map(open_and_list, [str(place)] * 8)) == [["Old"]] * 8
    with closing(SQLiteConnection(str(place))) as connection:
        assert connection.execute("SELECT version FROM meta") == [(len(STEPS),)]


def test_a_file_of_a_newer_program_is_left_alone(tmp_path: Path):
    place = tmp_path / "chats.db"
    open_store(place).close()
    with closing(SQLiteConnection(str(place))) as connection:
        connection.execute("UPDATE meta SET version = 99")
    before = place.read_bytes()
    with pytest.raises(StoreError, match=r"newer version .* Upgrade multi_llm_chat") as caught:
        open_store(place)
    assert caught.value.reason == "newer"
    assert place.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"this is no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path, content: bytes):
    place = tmp_path / "chats.db"
    place.write_bytes(content)
    with pytest.raises(StoreError, match="damaged or is no store") as caught:
        open_store(place)
    assert caught.value.reason == "damaged"
    assert str(place) in str(caught.value)
    assert place.read_bytes() == content


def test_another_programs_database_is_left_alone(tmp_path: Path):
    place = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE meta(name, value)")
    before = place.read_bytes()
    with pytest.raises(StoreError, match="belongs to another program"):
        open_store(place)
    assert place.read_bytes() == before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_store_is_of_no_use_after_a_fork(tmp_path: Path):
    with open_store(tmp_path / "chats.db") as store:
        reader, writer = os.pipe()
        if not (child := os.fork()):
            try:
                store.run(create, "t")
            except StoreError as error:
                os.write(writer, error.reason.encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        assert os.read(reader, 100) == b"closed"
        os.close(reader)


def test_damage_found_while_reading_is_reported_without_text_of_messages(tmp_path: Path):
    place = tmp_path / "chats.db"
    conversation = fill(str(place), 300)
    with place.open("r+b") as file:
        half = place.stat().st_size // 8192 * 4096
        file.seek(half)
        file.write(b"\xfe" * half)
    with open_store(place) as store, pytest.raises(StoreError) as caught:
        store.run(path, conversation)
    assert caught.value.reason == "damaged"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StoreError, match="could not be opened"):
        open_store(tmp_path / "file" / "chats.db")


def test_a_read_only_folder_is_reported(tmp_path: Path):
    conversation = fill(str(tmp_path / "chats.db"), 1)
    for folder in (tmp_path, *tmp_path.parents):
        if os.getuid() == 0 and folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    tmp_path.chmod(0o555)
    (tmp_path / "chats.db").chmod(0o444)
    try:
        with ProcessPoolExecutor(1, mp_context=context()) as pool:
            reported = pool.submit(in_read_only_folder, str(tmp_path), conversation).result(60)
    finally:
        tmp_path.chmod(0o755)
    assert "read-only" in reported[0]
    assert "read-only" in reported[1]
    assert "Allow writing there" in reported[0]
    assert "secret" not in reported[0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)]
    if os.getuid() or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a small disk can only be mounted by root, with the right to mount")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def check_small_disk(folder: Path, limit: int | None) -> None:
    with ProcessPoolExecutor(1, mp_context=context()) as pool:
        reported = pool.submit(on_small_disk, str(folder), limit).result(60)
    reason, text, before, after = reported
    assert reason == "full"
    assert "disk is full" in text
    assert str(folder) in text
    assert "secret" not in text
    assert after == before + 1 > 10


def test_a_full_disk_is_reported_and_saving_continues_when_there_is_room(small_disk: Path):
    check_small_disk(small_disk, None)


def test_a_file_that_may_not_grow_is_reported_and_saving_continues_when_it_may(tmp_path: Path):
    check_small_disk(tmp_path, 1_000_000)
