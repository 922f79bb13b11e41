"""A database that stops under load, and machines whose clocks are wrong."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.chat.stage import LOOP
from tests.runs.refused import WAYS, Way, check_notes, note_event, read_events, service_of
from tests.runs.scene import (
    CONVERSATION,
    NAMES,
    WORDS,
    Scene,
    check,
    executions,
    provider,
    registry,
    resolver,
    rounds,
    simulator,
    snapshot,
    text_of,
)
from tests.runs.worker_processes import begin, check_all, new_engine, workers
from tests.store.postgres_server import (
    binaries,
    halt,
    restart,
    start,
    start_again,
    stop,
)
from tests.store.processes import SLOW

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.config.settings import RateSettings
from multi_llm_chat.errors import StoreError
from multi_llm_chat.events import (
    Event,
    RunFinished,
    RunStarted,
    RunWaiting,
    TextDelta,
    TurnFinished,
)
from multi_llm_chat.runs.dbos_queue import DbosQueue
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.recovery import drive_run
from multi_llm_chat.store import Store, open_store, run_info, take_run
from multi_llm_chat.store.runs import workers as known_workers
from multi_llm_chat.testing.simulator import Say
from multi_llm_chat.testing.simulator.request_log import RecordedRequest

pytestmark = pytest.mark.fault

#: How long each outage lasts; the last is longer than the store's own timeout.
OUTAGES = (0.0, 0.0, 0.0, 0.0, 40.0) if SLOW else (0.0, 0.0)


@pytest.fixture
def own_server() -> Iterator[Path]:
    if binaries() is None:
        pytest.skip("no Postgres on this machine (initdb was not found)")
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    start(folder)
    yield folder
    stop(folder)


async def _drive_all(scene: Scene, store: Store, runs: list[str]) -> list[object]:
    async with provider(scene) as speaker:
        # With a limit that is never reached: its counts must survive the outage as well.
        resolve = resolver(scene, speaker, rates={speaker.name: RateSettings(requests=1_000_000)})
        host = RunHost(store)
        drives = (drive_run(host, run_id, resolve) for run_id in runs)
        return list(await asyncio.gather(*drives))


def test_runs_wait_for_a_database_that_comes_back(own_server: Path, tmp_path: Path):
    address = f"postgresql://tester@/postgres?host={own_server}"
    asked = 0
    outage = threading.Thread()

    def away(request: RecordedRequest) -> Say:
        """Restart the server while the model answers, each time in another round."""
        nonlocal asked, outage
        if asked < len(OUTAGES):
            if outage.is_alive():
                outage.join()
            outage = threading.Thread(target=restart, args=(own_server, OUTAGES[asked]))
            outage.start()
        asked += 1
        return rounds(request, delay=0.01)

    with simulator(away) as server:
        scene = Scene(
            address, server.base_url("openai-chat"), str(tmp_path / "l"), tool_seconds=0.05
        )
        with open_store(address) as store:
            runs = [begin(store, number) for number in range(3 if SLOW else 1)]
            ends = asyncio.run(_drive_all(scene, store, runs))
        outage.join()
        assert ends == ["done"] * len(runs)
        with open_store(address) as store:
            check_all(scene, store, runs)
    assert asked >= 3 * len(runs)


class Outage:
    """Stops the server once, when the model gets its second request."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_over = False

    def __call__(self, request: RecordedRequest) -> Say:
        if request.number == 1 and not self._is_over:
            self._is_over = True
            halt(self.folder)
        return rounds(request)


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_somebody_watches_waits_for_a_stopped_database(
    own_server: Path, tmp_path: Path, way: Way
):
    address = f"postgresql://tester@/postgres?host={own_server}"
    starting: list[threading.Thread] = []

    with simulator(Outage(own_server)) as server:
        scene = Scene(address, server.base_url("openai-chat"), str(tmp_path / "l"))
        with open_store(address) as store:
            service = service_of(scene, store)

            def watch(event: Event) -> None:
                note_event(scene, event)
                if isinstance(event, RunWaiting):  # the store's own timeout is over
                    starting.append(threading.Thread(target=start_again, args=(own_server,)))
                    starting[-1].start()

            events = read_events(service.process_message("In order?"), way, watch)
            LOOP.run(service.aclose())
            LOOP.close()
            for thread in starting:
                thread.join()
        assert [event.reason for event in events if isinstance(event, RunWaiting)] == ["store"]
        assert all(event.is_saved for event in events if isinstance(event, TurnFinished))
        assert isinstance(events[-2], RunFinished)
        check_notes(scene)
        assert check(scene, snapshot(scene)).epoch == 1


def test_a_follower_waits_for_a_stopped_database(own_server: Path, tmp_path: Path):
    address = f"postgresql://tester@/postgres?host={own_server}"
    outage = Outage(own_server)
    attached = threading.Event()

    def halt_when_followed(request: RecordedRequest) -> Say:
        attached.wait()
        return outage(request)

    followed: list[Event] = []

    def follow(run: str) -> None:
        with open_store(address) as store, service_of(scene, store) as service:
            attached.set()
            for event in service.follow(run, "robot"):
                followed.append(event)
                if isinstance(event, RunWaiting):
                    start_again(own_server)

    with simulator(halt_when_followed) as server:
        scene = Scene(address, server.base_url("openai-chat"), str(tmp_path / "l"))
        with open_store(address) as store, service_of(scene, store) as service:
            threads: list[threading.Thread] = []

            def start_follower(event: Event) -> None:
                if isinstance(event, RunStarted):
                    threads.append(threading.Thread(target=follow, args=(event.run,)))
                    threads[-1].start()

            events = read_events(service.process_message("In order?"), "plain", start_follower)
            for thread in threads:
                thread.join()
        assert [event.reason for event in followed if isinstance(event, RunWaiting)] == ["store"]
        assert isinstance(followed[-1], RunFinished)
        turns = [event.turn for event in followed if isinstance(event, TurnFinished)]
        assert turns == [event.turn for event in events if isinstance(event, TurnFinished)]
        assert check(scene, snapshot(scene)).epoch == 1


class HaltingQueue:
    """A queue whose server stops just before the run is queued."""

    def __init__(self, engine: DbosQueue, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self.close = engine.close

    def enqueue(self, run_id: str, epoch: int = 0, *, minute: int = 0) -> None:
        halt(self._folder)
        self._engine.enqueue(run_id, epoch, minute=minute)


def test_an_asker_and_its_worker_wait_while_the_database_restarts(own_server: Path, tmp_path: Path):
    address = f"postgresql://tester@/postgres?host={own_server}"
    engine = new_engine(address)
    waits: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, RunWaiting):  # the store's own timeout is over
            waits.append(event.reason)
            start_again(own_server)

    with simulator() as server:
        scene = Scene(address, server.base_url("openai-chat"), str(tmp_path / "l"), lease=1.0)
        with open_store(address) as store, workers(1, scene, engine) as (worker,):
            while not store.run(known_workers):
                worker.join(0.05)
            queue = HaltingQueue(DbosQueue(engine), own_server)
            service = ChatService(
                [provider(scene)],
                store=store,
                tools=registry(scene.ledger, scene.tool_seconds),
                host=RunHost(store, queue=queue),
            )
            events = read_events(service.process_message("In order?"), "plain", watch)
            assert waits == ["store"]
            assert isinstance(events[-2], RunFinished)
            said = [turn for turn in service.turns if turn.role == "robot"]
            assert [text_of(turn) for turn in said] == list(WORDS)
            service.close()
            queue.close()
            assert worker.is_alive()


def test_stop_and_close_do_not_wait_for_a_stopped_database(own_server: Path, tmp_path: Path):
    address = f"postgresql://tester@/postgres?host={own_server}"
    with simulator(Outage(own_server)) as server:
        scene = Scene(address, server.base_url("openai-chat"), str(tmp_path / "l"))
        service = ChatService(
            [provider(scene)], store=address, tools=registry(scene.ledger, scene.tool_seconds)
        )
        service.conversation = CONVERSATION
        words: list[str] = []

        def stop(event: Event) -> None:
            words.extend([event.text] if isinstance(event, TextDelta) else [])
            if "".join(words) == WORDS[0] + WORDS[1]:  # the turn is complete, and cannot be saved
                service.stop()

        events = read_events(service.process_message("In order?"), "plain", stop)
        assert isinstance(events[-2], RunFinished)
        assert [event.is_saved for event in events if isinstance(event, TurnFinished)][:2] == [
            True,
            True,
        ]
        assert not service.is_saved
        with pytest.raises(StoreError, match="not saved"):
            service.close()
        start_again(own_server)
        assert sum(executions(scene).values()) == len(NAMES)
        check_notes(scene)


SHIFT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(id, at);
    if (id == CLOCK_REALTIME) at->tv_sec += OFF;
    return code;
}
int gettimeofday(struct timeval *at, void *zone) {
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int code = real(at, zone);
    at->tv_sec += OFF;
    return code;
}
"""

TAKE = """
import sys, time
from multi_llm_chat.store import open_store, take_run
with open_store(sys.argv[1]) as store:
    print(int(time.time()), [store.run(take_run, run_id, "wrong", 60_000) is not None for run_id in sys.argv[2:]])
"""


@pytest.fixture(params=[3600, -3600], ids=["an hour ahead", "an hour behind"])
def wrong_clock(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Return a function that runs a program whose clock is wrong."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a wrong clock needs a C compiler")
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(SHIFT, encoding="utf-8")
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-DOFF={request.param}", str(source), "-o", str(library), "-ldl"],
        check=True,
    )  # fmt: skip

    def run(program: str, *words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            env={"LD_PRELOAD": str(library)}, check=True, capture_output=True, text=True,
        )  # fmt: skip
        clock, _, printed = done.stdout.partition(" ")
        return int(clock), printed.strip()

    return run


def test_a_lease_is_as_long_as_the_database_says(
    postgres: str, wrong_clock: Callable[..., tuple[int, str]]
):
    with open_store(postgres) as store:
        held, free = begin(store, 1), begin(store, 2)
        assert store.run(take_run, held, "right", 60_000) is not None
        clock, printed = wrong_clock(TAKE, postgres, held, free)
        assert abs(clock - time.time()) > 3000
        assert printed == "[False, True]"
        left = store.run(run_info, free).lease_left_ms
        assert left is not None
        assert 0 < left <= 60_000
        assert store.run(take_run, free, "right", 60_000) is None
