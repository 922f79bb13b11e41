"""A backup that was taken while an answer was given is gone on with as it was."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.durable.acting import (
    Scene,
    check,
    context,
    ended,
    executions,
    finish,
    say_in_process,
    snapshot,
)
from tests.store.processes import SLOW

from multi_llm_chat.store import calls, list_runs, open_store
from multi_llm_chat.testing.simulator import Simulator


@pytest.mark.skipif(not SLOW, reason="takes long: make faults")
def test_a_restored_backup_goes_on_from_its_own_journal(model: Simulator, tmp_path: Path):
    scene = Scene(
        str(tmp_path / "c.db"), model.base_url("openai-chat"), str(tmp_path / "l"), tool_seconds=0.2
    )
    process = context().Process(target=say_in_process, args=(scene, None))
    process.start()
    with open_store(scene.place) as store:
        while not any(
            call.kind == "tool" and call.state == "done"
            for info in store.run(list_runs, None)
            for call in store.run(calls, info.id)
        ):
            process.join(0.005)
    restored = replace(scene, place=str(tmp_path / "restored.db"))
    with (
        closing(sqlite3.connect(scene.place)) as source,
        closing(sqlite3.connect(restored.place)) as target,
    ):
        source.backup(target)
    assert ended(process) == 0
    check(scene, snapshot(scene))
    before = executions(scene)
    assert finish(restored).status == "done"
    # What the backup knew as done was not done again; what came later was, marked by the same keys.
    again = {key for key, number in executions(restored).items() if number > before[key]}
    with open_store(restored.place) as store:
        (info,) = store.run(list_runs, None)
        assert again <= {call.idempotency_key for call in store.run(calls, info.id)}
    assert finish(scene).epoch == 1
