"""A run in a backup that was taken during an answer resumes from the backup's state."""

import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec.structs import replace
from tests.runs.scene import (
    Scene,
    check,
    context,
    ended,
    executions,
    finish,
    say_in_process,
    snapshot,
)
from tests.runs.worker_processes import new_database
from tests.store.postgres_server import binaries
from tests.store.processes import SLOW

from multi_llm_chat.store import calls, list_runs, open_store
from multi_llm_chat.testing.simulator import Simulator

pytestmark = pytest.mark.fault

#: Takes a backup of a store that is in use, and restores it to another place.
Copy: TypeAlias = Callable[[str, str], None]


def copy_file(place: str, target: str) -> None:
    """Copy the file like ``sqlite3 place ".backup target"``."""
    with closing(sqlite3.connect(place)) as source, closing(sqlite3.connect(target)) as restored:
        source.backup(restored)


def copy_database(place: str, target: str) -> None:
    """Dump the database with ``pg_dump``, and load the dump into an empty one."""
    folder = binaries()
    dumped = subprocess.run([f"{folder}/pg_dump", place], check=True, capture_output=True)
    restoring = [f"{folder}/psql", "-q", "-v", "ON_ERROR_STOP=1", target]
    subprocess.run(restoring, input=dumped.stdout, check=True, capture_output=True)


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, Copy]:
    """Return a store, an empty one to restore to, and the function that copies a backup from one to the other."""
    if request.param == "sqlite":
        return str(tmp_path / "c.db"), str(tmp_path / "restored.db"), copy_file
    server: str = request.getfixturevalue("postgres_server")
    return new_database(server), new_database(server), copy_database


@pytest.mark.skipif(not SLOW, reason="takes long: make faults")
def test_a_restored_backup_resumes_from_its_own_journal(
    model: Simulator, tmp_path: Path, places: tuple[str, str, Copy]
):
    place, target, copy = places
    scene = Scene(place, model.base_url("openai-chat"), str(tmp_path / "l"), tool_seconds=0.5)
    open_store(place).close()
    process = context().Process(target=say_in_process, args=(scene, None))
    process.start()
    with open_store(scene.place) as store:
        while not any(
            call.kind == "tool" and call.state == "done"
            for info in store.run(list_runs, None)
            for call in store.run(calls, info.id)
        ):
            process.join(0.005)
    restored = replace(scene, place=target)
    copy(place, target)
    with open_store(target) as store:
        (info,) = store.run(list_runs)  # the answer was under way
    assert ended(process) == 0
    check(scene, snapshot(scene))
    before = executions(scene)
    assert finish(restored).status == "done"
    # Calls that the backup has as finished did not run again; later ones did, with the same keys.
    again = {key for key, number in executions(restored).items() if number > before[key]}
    with open_store(restored.place) as store:
        (info,) = store.run(list_runs, None)
        assert again <= {call.idempotency_key for call in store.run(calls, info.id)}
    assert finish(scene).epoch == 1
