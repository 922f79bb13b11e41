"""Workers in separate processes, on one Postgres: conversations in one database, the queue in another."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from uuid import uuid4

import psycopg
from tests.runs.scene import WORDS, Scene, context, executions, provider, registry, text_of

from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.run_resolver import RunResolver
from multi_llm_chat.chat.speakers import given_speakers
from multi_llm_chat.config.settings import RateSettings, Settings
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.runs.dbos_queue import DbosQueue, Worker, migrate_engine
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.store import Store, append, begin_run, calls, create, open_store, path, run_info


def new_database(server: str) -> str:
    """Create an empty database; return its address."""
    name = f"engine_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.replace("/postgres?", f"/{name}?")


def new_engine(server: str) -> str:
    """Create a database for the queue, ready to be used; return its address."""
    address = new_database(server)
    migrate_engine(address)
    return address


def work(scene: Scene, engine: str, rate: RateSettings | None = None) -> None:
    """Run a worker process; SIGTERM shuts it down cleanly."""
    with open_store(scene.place) as store:
        serve_queue(scene, store, engine, rate)


def serve_queue(scene: Scene, store: Store, engine: str, rate: RateSettings | None = None) -> None:
    """Drive runs from the queue until SIGTERM."""
    asyncio.run(_serve_queue(scene, store, engine, rate))


async def _serve_queue(scene: Scene, store: Store, engine: str, rate: RateSettings | None) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = Settings(rates={"openai-chat": rate} if rate is not None else {})
    host = RunHost(store, lease=scene.lease)
    async with provider(scene) as speaker:
        planner = Planner(
            settings,
            given_speakers({"robot": speaker}),
            registry(scene.ledger, scene.tool_seconds),
        )
        worker = Worker(host, engine, RunResolver(planner), concurrency=scene.concurrency)
        await worker.run(stop, drain=scene.drain)


@contextmanager
def workers(
    number: int, scene: Scene, engine: str, rate: RateSettings | None = None
) -> Generator[list[BaseProcess]]:
    processes: list[BaseProcess] = [
        context().Process(target=work, args=(scene, engine, rate)) for _ in range(number)
    ]
    for process in processes:
        process.start()
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.join()


def begin(store: Store, number: int, words: str = "In order?") -> str:
    """Begin a run in a new conversation; it is not queued yet."""
    conversation = f"talk-{number}"
    store.run(create, identifier=conversation)
    store.run(append, conversation, [Turn("user", (Text(words),), id="q")])
    return store.run(begin_run, conversation, "robot", base="q", spec={"version": 1})


def submit(store: Store, engine: DbosQueue, number: int) -> str:
    """Begin a run, and put it into the queue."""
    run_id = begin(store, number)
    engine.enqueue(run_id)
    return run_id


def check_all(scene: Scene, store: Store, runs: list[str]) -> None:
    """Check everything that must hold for runs, each in its own conversation."""
    ran = executions(scene)
    for run_id in runs:
        info = store.run(run_info, run_id)
        turns = store.run(path, info.conversation)
        assert [text_of(turn) for turn in turns if turn.role == "robot"] == list(WORDS)
        assert [turn.role for turn in turns] == ["user", "robot", "tool", "robot", "tool", "robot"]
        for call in store.run(calls, run_id):
            assert ran[call.idempotency_key or ""] <= call.attempts
            assert call.name == "look" or ran[call.idempotency_key or ""] <= 1


def stay_within(asked: list[float], rate: RateSettings) -> None:
    """Check that requests at these moments never exceed the limit plus one burst, in any interval."""
    a_second = (rate.requests or 0) / 60
    burst = a_second * rate.burst
    on_the_way = 0.3  # the maximum seconds between the permission and the arrival
    for first, began in enumerate(asked):
        for last, end in enumerate(asked[first:], first):
            assert last - first + 1 <= burst + a_second * (end - began + on_the_way) + 1
