"""A store that refuses each write of a run with two rounds of three parallel tools, and then accepts again or is lost.

The quick profile covers a part of the writes, so that all phases, endings and readers together cover all kinds.
"""

import random
import signal
from collections.abc import Callable, Iterator
from itertools import product
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from tests.runs.killing_store import PHASES, open_interrupted
from tests.runs.refused import (
    LEFT,
    WAITED,
    WAYS,
    Way,
    ask_while_refused,
    check_notes,
    note_event,
    notes_of,
    read_events,
    resume_while_refused,
    service_of,
)
from tests.runs.refusing import Refusal, Refusing
from tests.runs.scene import (
    CONVERSATION,
    TRANSACTIONS,
    Scene,
    check,
    context,
    ended,
    run_process,
    snapshot,
)
from tests.runs.worker_processes import begin, check_all, new_engine, serve_queue
from tests.store.processes import SLOW

from multi_llm_chat.errors import StoreError
from multi_llm_chat.events import MessageFinished, RunFinished
from multi_llm_chat.runs.dbos_queue import DbosQueue
from multi_llm_chat.store import list_runs, open_store, run_info
from multi_llm_chat.testing.simulator import Simulator

pytestmark = pytest.mark.fault

KILLED = -9
STEP = 1 if SLOW else 5
#: How many workers are refused before one that is not refused finishes their runs.
#: Each may cost an unfinished run one attempt, and a run fails after five attempts without progress.
REFUSED_WORKERS = 3


def _seconds(chance: random.Random) -> float:
    """Return how long the store refuses: mostly a moment, sometimes long."""
    return chance.choice([0.1, 0.1, 0.1, 0.3, 0.3, 1.0, 3.0, 10.0] if SLOW else [0.1, 0.2])


def _refusals(number: int) -> list[tuple[Refusal, Way]]:
    """Return the ways in which a write is refused: all of them, or the next one in turn."""
    chance = random.Random(number)
    every: list[tuple[Refusal, Way]] = [
        (Refusal(number, phase, _seconds(chance), kills), way)
        for way, kills, phase in product(WAYS, (False, True), PHASES)
    ]
    return every if SLOW else [every[number // STEP * 5 % len(every)]]


def test_a_store_that_refuses_any_write_of_a_run_costs_nothing(new_scene: Callable[[], Scene]):
    number, met, waited, killed = 1, True, 0, 0
    while met:
        met = False
        for refusal, way in _refusals(number):
            scene = new_scene()
            code = run_process(ask_while_refused, scene, refusal, way)
            assert code == 0 or (code == KILLED and refusal.kills), (refusal, way)
            met = met or code == KILLED or "met" in notes_of(scene)
            waited += WAITED in notes_of(scene)
            killed += code == KILLED
            check_notes(scene)
            check(scene, snapshot(scene))
        number += STEP
    assert number - STEP > TRANSACTIONS, "a write was not reached"
    assert waited
    assert killed


def test_a_store_that_refuses_any_write_of_a_resumed_run_costs_nothing(
    new_scene: Callable[[], Scene],
):
    number, met, first = 1, True, 7
    while met:
        met = False
        for refusal, way in _refusals(number):
            scene = new_scene()
            begun = Refusal(first, "after", 0.0, kills=True)
            assert run_process(ask_while_refused, scene, begun, way) == KILLED
            code = run_process(resume_while_refused, scene, refusal, way)
            assert code == 0 or (code == KILLED and refusal.kills), (refusal, way)
            met = met or code == KILLED or "met" in notes_of(scene)
            check_notes(scene)
            check(scene, snapshot(scene))
        number += STEP
    assert number - STEP > TRANSACTIONS - first, "a write that was left was not reached"


def test_a_commit_whose_answer_is_lost_is_made_once(new_scene: Callable[[], Scene]):
    number, met, step = 1, True, 1 if SLOW else 3
    while met:
        scene = new_scene()
        lost = Refusal(number, "after", 0.0, is_passing=True)
        assert run_process(ask_while_refused, scene, lost, WAYS[number % 2]) == 0
        notes = notes_of(scene)
        assert WAITED not in notes
        assert "refused" not in notes
        met = "met" in notes
        check_notes(scene)
        info = check(scene, snapshot(scene))
        assert (info.epoch, info.attempts) == (1, 0)
        number += step
    assert number - step > TRANSACTIONS, "a write was not reached"


def _follow(scene: Scene, process: BaseProcess, way: Way) -> str:
    """Follow the process's run from here; return how that ended: "nothing" if there was none to follow."""
    with open_store(scene.place) as store:
        while not store.run(list_runs, None):
            process.join(0.005)
            if not process.is_alive():
                return "nothing"
        with service_of(scene, store, CONVERSATION) as service:
            try:
                events = read_events(service.attach(), way)
            except StoreError as error:
                return error.reason
    for event in events:
        note_event(scene, event)
    assert isinstance(events[-1], MessageFinished)
    return "over" if len(events) > 1 and isinstance(events[-2], RunFinished) else "nothing"


def _is_over(scene: Scene) -> bool:
    """Return whether the run has ended in the store; its process may have been killed after that."""
    with open_store(scene.place) as store:
        return [info.status for info in store.run(list_runs, None)] == ["done"]


def test_a_run_that_is_followed_from_another_process_is_followed_to_its_end(
    new_scene: Callable[..., Scene],
):
    ends: set[str] = set()
    for number in range(1, TRANSACTIONS + 1, STEP):
        for refusal, way in _refusals(number):
            scene = new_scene(tool_seconds=0.05)
            process = context().Process(target=ask_while_refused, args=(scene, refusal, way))
            process.start()
            end = _follow(scene, process, way)
            code = ended(process)
            assert code == 0 or (code == KILLED and refusal.kills), (refusal, way)
            is_over = _is_over(scene)
            assert is_over or code == KILLED or LEFT in notes_of(scene), (refusal, way)
            assert end in {"over" if is_over else "interrupted", "nothing"}, (refusal, way)
            check_notes(scene)
            check(scene, snapshot(scene))
            ends.add(end)
    assert "over" in ends


@pytest.fixture
def queue(postgres_server: str) -> Iterator[tuple[str, DbosQueue]]:
    address = new_engine(postgres_server)
    engine = DbosQueue(address)
    yield address, engine
    engine.close()


def _work_while_refused(scene: Scene, engine: str, refusal: Refusal | None) -> None:
    """Run a worker whose store refuses."""
    with open_interrupted(scene.place, Refusing(scene.place, refusal)) as store:
        serve_queue(scene, store, engine)


@pytest.mark.parametrize("kills", [False, True], ids=["returns", "killed"])
def test_workers_wait_for_a_store_that_refuses(
    postgres: str, model: Simulator, tmp_path: Path, queue: tuple[str, DbosQueue], kills: bool
):
    address, engine = queue
    scene = Scene(postgres, model.base_url("openai-chat"), str(tmp_path / "l"), lease=1.0)
    chance = random.Random(5)
    numbers = range(2, 17) if SLOW else (4, 9, 14)
    refusals = [Refusal(number, PHASES[number % 3], _seconds(chance), kills) for number in numbers]
    with open_store(postgres) as store:
        runs: list[str] = []
        for first in range(0, len(refusals), REFUSED_WORKERS):
            for refusal in refusals[first : first + REFUSED_WORKERS]:
                arguments = (scene, address, refusal)
                worker = context().Process(target=_work_while_refused, args=arguments)
                worker.start()
                runs.append(begin(store, len(runs)))
                engine.enqueue(runs[-1])
                while store.run(run_info, runs[-1]).status == "running" and worker.is_alive():
                    worker.join(0.05)
                if worker.is_alive():
                    worker.terminate()
                assert ended(worker) in ({KILLED, 0} if kills else {0})
            last = context().Process(target=_work_while_refused, args=(scene, address, None))
            last.start()
            while any(store.run(run_info, run).status == "running" for run in runs):
                last.join(0.05)
                assert last.is_alive(), "a worker ended although it was not stopped"
            last.terminate()
            assert ended(last) in {0, -signal.SIGTERM}
            assert {store.run(run_info, run).status for run in runs} == {"done"}
            check_all(scene, store, runs)
