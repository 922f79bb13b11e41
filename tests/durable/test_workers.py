"""Many workers on one Postgres."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.durable.acting import (
    WORDS,
    Scene,
    rounds,
    simulator,
    stream_of,
)
from tests.durable.working import begin, check_all, new_engine, submit, workers

from multi_llm_chat.config.values import RateSettings
from multi_llm_chat.durable.dbos_engine import DbosEngine
from multi_llm_chat.durable.holding import holder_of
from multi_llm_chat.durable.janitor import tidy
from multi_llm_chat.durable.stream import told_text
from multi_llm_chat.errors import StoreError
from multi_llm_chat.store import Store, list_runs, open_store, run_info, take_run
from multi_llm_chat.testing.simulator import Simulator
from multi_llm_chat.testing.simulator.recording import RecordedRequest

#: A request each 100 ms, five at once.
RATE = RateSettings(requests=600, burst=0.5)


@pytest.fixture
def engine(postgres_server: str) -> str:
    return new_engine(postgres_server)


@pytest.fixture
def queue(engine: str) -> Iterator[DbosEngine]:
    queue = DbosEngine(engine)
    yield queue
    queue.close()


@pytest.fixture
def scene(postgres: str, model: Simulator, tmp_path: Path) -> Scene:
    url, ledger = model.base_url("openai-chat"), str(tmp_path / "ledger")
    return Scene(postgres, url, ledger, tool_seconds=0.1, lease=1.0)


async def finished(store: Store, runs: list[str]) -> list[str]:
    """Follow all runs to their ends; how each ended."""
    streams = await asyncio.gather(*(stream_of(store, run_id) for run_id in runs))
    assert all("".join(told_text(each).values()) == "".join(WORDS) for each in streams)
    return [store.run(run_info, run_id).status for run_id in runs]


def test_a_killed_workers_runs_are_all_done_by_another(
    scene: Scene, engine: str, queue: DbosEngine
):
    with open_store(scene.place) as store, workers(1, scene, engine) as (first,):
        runs = [submit(store, queue, number) for number in range(8)]
        while sum(info.owner is not None for info in store.run(list_runs)) < len(runs):
            first.join(0.01)
        first.kill()
        with workers(2, scene, engine):
            assert asyncio.run(finished(store, runs)) == ["done"] * len(runs)
        assert all(store.run(run_info, run_id).epoch > 1 for run_id in runs)
        check_all(scene, store, runs)


def test_a_worker_that_is_told_to_end_finishes_or_gives_back(
    scene: Scene, engine: str, queue: DbosEngine
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
    scene: Scene, engine: str, queue: DbosEngine, tmp_path: Path
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
    a_second, burst = (RATE.requests or 0) / 60, (RATE.requests or 0) * RATE.burst / 60
    on_the_way = 0.3  # seconds between the permission and the arrival, at most
    for first, began in enumerate(asked):
        for last, end in enumerate(asked[first:], first):
            assert last - first + 1 <= burst + a_second * (end - began + on_the_way) + 1


def test_a_run_that_was_never_queued_is_found(scene: Scene, engine: str, queue: DbosEngine):
    with open_store(scene.place) as store, workers(1, scene, engine):
        run_id = begin(store, 1)
        assert tidy(store, queue, grace_ms=0) <= 1
        assert asyncio.run(finished(store, [run_id])) == ["done"]


def test_a_run_that_somebody_has_is_not_queued(scene: Scene, queue: DbosEngine):
    with open_store(scene.place) as store:
        run_id = begin(store, 1)
        holder = holder_of(store)
        assert store.run(take_run, run_id, holder.owner, 60_000) is not None
        assert tidy(store, queue, grace_ms=0) == 0
        assert tidy(store, queue, grace_ms=60_000) == 0


def test_an_engine_that_cannot_be_reached_is_told_without_its_password():
    with pytest.raises(StoreError, match="mlc migrate") as caught:
        DbosEngine("postgresql://somebody:secret@127.0.0.1:1/nowhere")
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
