"""Processes that are killed, stopped and started at any moment, in the middle of a stream or of a tool."""

import asyncio
import os
import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.durable.acting import (
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
from tests.store.processes import SLOW

from multi_llm_chat.durable.holding import Holder
from multi_llm_chat.store import list_runs, open_store
from multi_llm_chat.testing.simulator import Gate, Say
from multi_llm_chat.testing.simulator.recording import RecordedRequest

KILLS = 200 if SLOW else 8
#: How long a process may live at most, in seconds: somewhat longer than the whole answer takes.
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
        os.kill(sleeper.pid, signal.SIGSTOP)
        with open_store(scene.place) as store:
            while not store.run(list_runs)[0].is_free:
                sleeper.join(0.01)
            told = asyncio.run(resume(scene, store, Holder(store)))
        assert list(told.values()) == ["done"]
        before = snapshot(scene)
        gate.open()
        os.kill(sleeper.pid, signal.SIGCONT)
        assert ended(sleeper) == 0
        assert check(scene, before).epoch == 2
        assert snapshot(scene) == before


def test_of_two_processes_that_start_one_goes_on(new_scene: Callable[..., Scene]):
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


def test_a_run_that_lives_elsewhere_is_left_alone(new_scene: Callable[..., Scene]):
    scene = new_scene(tool_seconds=0.1)
    process = context().Process(target=say_in_process, args=(scene, None))
    process.start()
    with open_store(scene.place) as store:
        while not store.run(list_runs):
            process.join(0.01)
    assert run_process(resume_in_process, scene, None) == 0
    assert ended(process) == 0
    assert check(scene, snapshot(scene)).epoch == 1
