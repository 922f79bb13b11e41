"""Processes that are killed, stopped and started at any moment, in the middle of a stream or of a tool."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from tests.runs.scene import (
    Scene,
    check,
    context,
    ended,
    resume,
    resume_in_process,
    rounds,
    run_process,
    say_in_process,
    simulator,
    snapshot,
)
from tests.runs.worker_processes import begin
from tests.store.processes import SLOW

from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.owner import is_dead, process_name
from multi_llm_chat.store import Transaction, list_runs, open_store, take_run
from multi_llm_chat.testing.simulator import Gate, Say
from multi_llm_chat.testing.simulator.request_log import RecordedRequest

pytestmark = pytest.mark.fault

KILLS = 200 if SLOW else 8
#: The longest life of a process in seconds: somewhat longer than the whole answer takes.
LONGEST_LIFE = 0.9


def test_random_kills_in_streams_and_tools_lose_and_double_nothing(
    new_place: Callable[[], str], tmp_path: Path
):
    chance = random.Random(8)
    kills = resumed = number = 0
    with simulator(partial(rounds, delay=0.004)) as server:
        while kills < KILLS // 2:  # as many again on the other database
            number += 1
            ledger = str(tmp_path / f"ledger-{number}")
            scene = Scene(new_place(), server.base_url("openai-chat"), ledger, tool_seconds=0.05)
            target = say_in_process
            for _ in range(chance.randint(1, 4)):
                process = context().Process(target=target, args=(scene, None))
                process.start()
                process.join(chance.uniform(0.1, LONGEST_LIFE))
                process.kill()
                kills += ended(process) != 0
                target = resume_in_process
            resumed += check(scene, snapshot(scene)).epoch > 1
    assert resumed


def _stop(pid: int) -> None:
    """Stop a process; return when all of its threads have stopped, which the signal does not wait for."""
    os.kill(pid, signal.SIGSTOP)
    while not all(map(_is_stopped, Path(f"/proc/{pid}/task").iterdir())):
        os.sched_yield()


def _is_stopped(thread: Path) -> bool:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


def _holds_a_lock(place: str) -> bool:
    """Return whether a process is in the middle of a write transaction."""
    try:
        if place.startswith("postgresql"):
            with psycopg.connect(place) as connection:
                connection.execute("SELECT 1 FROM runs FOR UPDATE NOWAIT")
        else:
            with closing(sqlite3.connect(place, timeout=0, isolation_level=None)) as file:
                file.execute("BEGIN IMMEDIATE")
    except (sqlite3.OperationalError, psycopg.errors.LockNotAvailable):
        return True
    return False


def test_a_process_that_slept_past_its_lease_finds_its_run_taken_and_stops(
    new_place: Callable[[], str], tmp_path: Path
):
    gate = Gate(after_frames=2)
    asked: list[int] = []

    def held(request: RecordedRequest) -> Say:
        asked.append(request.number)
        say = rounds(request)
        return say.having(faults=[gate]) if len(asked) == 1 else say

    with simulator(held) as server:
        scene = Scene(
            new_place(), server.base_url("openai-chat"), str(tmp_path / "ledger"), lease=0.3
        )
        sleeper = context().Process(target=say_in_process, args=(scene, None))
        sleeper.start()
        gate.wait_reached()
        assert sleeper.pid is not None
        _stop(sleeper.pid)
        while _holds_a_lock(scene.place):  # inside a transaction it would block every successor
            os.kill(sleeper.pid, signal.SIGCONT)
            sleeper.join(0.01)
            _stop(sleeper.pid)
        with open_store(scene.place) as store:
            while not store.run(list_runs)[0].is_free:
                sleeper.join(0.01)
            statuses = asyncio.run(resume(scene, store, RunHost(store)))
        assert list(statuses.values()) == ["done"]
        before = snapshot(scene)
        gate.open()
        os.kill(sleeper.pid, signal.SIGCONT)
        assert ended(sleeper) == 0
        assert check(scene, before).epoch == 2
        assert snapshot(scene) == before


def _stand_still(place: str, run_id: str) -> None:
    """Stop inside a transaction that holds the run; a retry after that succeeds."""
    stops = [signal.SIGSTOP]

    def touch(transaction: Transaction) -> None:
        transaction.rows("UPDATE runs SET attempts = attempts WHERE id = ?", run_id)
        while stops:
            # Signal this thread: if another thread received the signal, this one could commit before it stops.
            signal.pthread_kill(threading.get_ident(), stops.pop())

    with open_store(place) as store:
        store.run(touch)
    assert not stops


@pytest.mark.skipif(not SLOW, reason="takes long: make faults")
def test_a_worker_that_is_suspended_in_a_transaction_does_not_keep_its_runs(postgres: str):
    with open_store(postgres) as store:
        run_id = begin(store, 1)
        process = context().Process(target=_stand_still, args=(postgres, run_id))
        process.start()
        while not _holds_a_lock(postgres):
            process.join(0.01)
        assert store.run(take_run, run_id, "another", 1000) is not None
        assert process.pid is not None
        os.kill(process.pid, signal.SIGCONT)
        assert ended(process) == 0


@pytest.mark.skipif(
    sys.platform != "linux", reason="identifying other processes is specific to Linux"
)
def test_a_process_that_has_ended_is_dead_even_if_it_has_not_been_waited_for():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = f"{process_name(process.pid)}:holder/run"
    assert not is_dead(owner)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still listed
    assert is_dead(owner)
    process.communicate()
    assert is_dead(owner)


def test_of_several_processes_that_start_one_resumes_the_run(new_scene: Callable[..., Scene]):
    scene = new_scene(tool_seconds=0.05)
    process = context().Process(target=say_in_process, args=(scene, None))
    process.start()
    with open_store(scene.place) as store:
        while not store.run(list_runs):
            process.join(0.01)
    process.kill()
    ended(process)
    before = snapshot(scene)
    others = [context().Process(target=resume_in_process, args=(scene, None)) for _ in range(3)]
    for other in others:
        other.start()
    assert [ended(other) for other in others] == [0, 0, 0]
    assert check(scene, before).epoch == 2


def test_a_run_of_a_living_process_is_left_alone(new_scene: Callable[..., Scene]):
    scene = new_scene(tool_seconds=0.1)
    process = context().Process(target=say_in_process, args=(scene, None))
    process.start()
    with open_store(scene.place) as store:
        while not store.run(list_runs):
            process.join(0.01)
    assert run_process(resume_in_process, scene, None) == 0
    assert ended(process) == 0
    assert check(scene, snapshot(scene)).epoch == 1
