"""Many workers on one Postgres."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.runs.scene import (
    WORDS,
    Scene,
    rounds,
    run_process,
    simulator,
    stream_of,
    words_by_turn,
)
from tests.runs.worker_processes import (
    begin,
    check_all,
    new_engine,
    stay_within,
    submit,
    workers,
)
from tests.store.processes import SLOW

from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.chat.speakers import given_speakers
from multi_llm_chat.config.settings import RateSettings, Settings
from multi_llm_chat.errors import StoreError
from multi_llm_chat.runs.dbos_queue import DbosQueue, Worker
from multi_llm_chat.runs.leases import LEASE, RunHost
from multi_llm_chat.runs.orphans import queue_orphans
from multi_llm_chat.store import Store, Transaction, list_runs, open_store, run_info, take_run
from multi_llm_chat.store.runs import orphans
from multi_llm_chat.store.runs import workers as known_workers
from multi_llm_chat.testing.simulator import Gate, Say, Simulator
from multi_llm_chat.testing.simulator.request_log import RecordedRequest
from multi_llm_chat.tools import ToolRegistry

pytestmark = pytest.mark.fault

#: The number of runs of a worker that dies.
EIGHT = 8
#: A request every 100 ms, bursts of five.
RATE = RateSettings(requests=600, burst=0.5)


@pytest.fixture
def engine(postgres_server: str) -> str:
    return new_engine(postgres_server)


@pytest.fixture
def queue(engine: str) -> Iterator[DbosQueue]:
    queue = DbosQueue(engine)
    yield queue
    queue.close()


@pytest.fixture
def scene(postgres: str, model: Simulator, tmp_path: Path) -> Scene:
    url, ledger = model.base_url("openai-chat"), str(tmp_path / "ledger")
    return Scene(postgres, url, ledger, tool_seconds=0.1, lease=1.0)


async def finished(store: Store, runs: list[str]) -> list[str]:
    """Follow all runs to their ends; return how each ended."""
    streams = await asyncio.gather(*(stream_of(store, run_id) for run_id in runs))
    assert all("".join(words_by_turn(each).values()) == "".join(WORDS) for each in streams)
    return [store.run(run_info, run_id).status for run_id in runs]


def _clock(transaction: Transaction) -> int:
    """Return the database's time in milliseconds."""
    ((now,),) = transaction.rows(f"SELECT {transaction.clock}")
    return now


def test_a_killed_workers_runs_are_all_done_by_another_soon_after_its_lease(
    scene: Scene, engine: str, queue: DbosQueue, tmp_path: Path
):
    gate = Gate(after_frames=2)

    def held(request: RecordedRequest) -> Say:
        """Hold eight answers in the middle until their worker is dead."""
        said = rounds(request)
        return said.having(faults=[gate]) if request.number < EIGHT else said

    with simulator(held) as server, open_store(scene.place) as store:
        scene = replace(scene, url=server.base_url("openai-chat"))
        with workers(1, scene, engine) as (first,):
            runs = [submit(store, queue, number) for number in range(EIGHT)]
            while len(server.requests) < EIGHT:
                first.join(0.01)
            assert all(info.owner is not None for info in store.run(list_runs))
            with workers(1, scene, engine):
                while len(store.run(known_workers)) < 2:
                    first.join(0.01)
                killed_ms = store.run(_clock)
                first.kill()
                gate.open()
                assert asyncio.run(finished(store, runs)) == ["done"] * EIGHT
        infos = [store.run(run_info, run_id) for run_id in runs]
        assert all(info.epoch > 1 for info in infos)
        check_all(scene, store, runs)
    took_ms = max(info.ended_ms or 0 for info in infos) - killed_ms
    assert took_ms > 0
    if SLOW:  # in a process where nothing else runs
        assert took_ms <= scene.lease * 1000 + 5_000


class DyingQueue:
    """A queue whose janitor dies while it takes over the Nth run: the run's old queue entry is gone, and there is no new one."""

    def __init__(self, engine: DbosQueue, number: int) -> None:
        self._engine = engine
        self._left = number
        self.close = engine.close

    def enqueue(self, run_id: str, epoch: int = 0, *, minute: int = 0) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        self._engine.enqueue(run_id, epoch, minute=minute)


def _die_while_queueing(place: str, engine: str) -> None:
    with open_store(place) as store:
        queue_orphans(store, DyingQueue(DbosQueue(engine), EIGHT // 2), grace_ms=0)


def _die_while_reading(place: str, engine: str) -> None:
    del engine

    def look(transaction: Transaction) -> None:
        assert len(orphans(transaction, 0)) == EIGHT
        os.kill(os.getpid(), signal.SIGKILL)

    with open_store(place) as store:
        store.run(look)


def test_another_janitor_completes_the_takeover_of_a_killed_one(
    scene: Scene, engine: str, queue: DbosQueue
):
    scene = replace(scene, lease=LEASE)  # a lease long enough that no living worker loses it
    with open_store(scene.place) as store:
        runs = [begin(store, number) for number in range(EIGHT)]
        for run_id in runs:
            # Taken by a dead worker, and not in the queue: only a janitor recovers it.
            assert store.run(take_run, run_id, "nowhere:1:dead", 1) is not None
        for janitor in (_die_while_reading, _die_while_queueing):
            assert run_process(janitor, scene.place, engine) == -signal.SIGKILL
        with workers(1, scene, engine):
            assert asyncio.run(finished(store, runs)) == ["done"] * EIGHT
        assert {store.run(run_info, run_id).epoch for run_id in runs} == {2}
        check_all(scene, store, runs)


def test_a_worker_that_is_asked_to_stop_finishes_or_returns_its_runs(
    scene: Scene, engine: str, queue: DbosQueue
):
    with open_store(scene.place) as store, workers(1, scene, engine) as (first,):
        runs = [submit(store, queue, number) for number in range(4)]
        while not any(info.owner for info in store.run(list_runs)):
            first.join(0.01)
        first.terminate()
        with workers(1, scene, engine):
            assert asyncio.run(finished(store, runs)) == ["done"] * len(runs)
        first.join()
        assert first.exitcode == 0
        check_all(scene, store, runs)


def test_four_workers_with_one_key_stay_within_its_limit(
    scene: Scene, engine: str, queue: DbosQueue, tmp_path: Path
):
    asked: list[float] = []

    def noted(request: RecordedRequest) -> object:
        asked.append(time.monotonic())
        return rounds(request)

    with simulator(noted) as server:
        limited = Scene(scene.place, server.base_url("openai-chat"), str(tmp_path / "l"))
        with open_store(scene.place) as store, workers(4, limited, engine, RATE):
            runs = [submit(store, queue, number) for number in range(10)]
            assert asyncio.run(finished(store, runs)) == ["done"] * len(runs)
    assert len(asked) == 30
    stay_within(asked, RATE)


def test_a_run_that_was_never_queued_is_found(scene: Scene, engine: str, queue: DbosQueue):
    with open_store(scene.place) as store, workers(1, scene, engine):
        run_id = begin(store, 1)
        assert queue_orphans(store, queue, grace_ms=0) <= 1
        assert asyncio.run(finished(store, [run_id])) == ["done"]


def test_a_run_that_somebody_has_is_not_queued(scene: Scene, queue: DbosQueue):
    with open_store(scene.place) as store:
        run_id = begin(store, 1)
        host = RunHost(store)
        assert store.run(take_run, run_id, host.owner, 60_000) is not None
        assert queue_orphans(store, queue, grace_ms=0) == 0
        assert queue_orphans(store, queue, grace_ms=60_000) == 0


def test_the_error_for_an_unreachable_engine_does_not_show_its_password():
    with pytest.raises(StoreError, match="mlc migrate") as caught:
        DbosQueue("postgresql://somebody:secret@127.0.0.1:1/nowhere")
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


class DyingWorker(Worker):
    """A worker that is killed after it has taken a run from the queue, before it starts it."""

    async def _drive(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def _die_with_a_run(scene: Scene, engine: str) -> None:
    with open_store(scene.place) as store:
        planner = Planner(Settings(), given_speakers({}), ToolRegistry())
        worker = DyingWorker(RunHost(store), engine, RunResolver(planner))
        asyncio.run(worker.run(asyncio.Event()))


def test_a_run_whose_worker_was_killed_before_it_began_is_driven_by_another(
    scene: Scene, engine: str, queue: DbosQueue
):
    with open_store(scene.place) as store:
        run_id = submit(store, queue, 1)
        assert run_process(_die_with_a_run, scene, engine) == -signal.SIGKILL
        info = store.run(run_info, run_id)
        assert (info.epoch, info.owner) == (0, None)
        with workers(1, scene, engine) as (worker,):
            while store.run(run_info, run_id).status == "running":
                worker.join(0.05)
        check_all(scene, store, [run_id])


def test_a_users_short_answers_do_not_wait_for_all_long_ones_of_another(
    scene: Scene, engine: str, queue: DbosQueue
):
    asked: list[str] = []

    def noted(request: RecordedRequest) -> Say:
        user = request.body["messages"][-1]["content"]
        asked.append(user)
        return Say(WORDS[2])

    with simulator(noted) as server, open_store(scene.place) as store:
        alone = replace(scene, url=server.base_url("openai-chat"), concurrency=1, lease=LEASE)
        runs: list[str] = []
        for user, count in (("anna", EIGHT), ("bert", 3)):
            own = store.as_user(user)
            for number in range(count):
                runs.append(begin(own, number, words=user))
                queue.enqueue(runs[-1])
        with workers(1, alone, engine) as (worker,):
            while any(store.run(run_info, each).status == "running" for each in runs):
                worker.join(0.05)
    assert len(asked) == len(runs)
    assert asked[:7] == ["anna", "bert", "anna", "bert", "anna", "bert", "anna"]
