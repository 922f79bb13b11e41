"""``mlc runs``, ``mlc migrate`` and ``mlc worker`` as their users run them."""

import asyncio
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.cli.commands import MLC, Shell
from tests.runs.conftest import FEWER, places
from tests.runs.killing_store import Kill
from tests.runs.scene import (
    WORDS,
    Scene,
    run_process,
    say_in_process,
    stream_of,
    text_of,
)
from tests.runs.worker_processes import begin, new_database, submit
from tests.servers import choose_port
from tests.store.processes import SLOW

from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.metering.prices import cost_of
from multi_llm_chat.runs.dbos_queue import DbosQueue
from multi_llm_chat.store import (
    ErrorRecord,
    Spending,
    Store,
    finish_run,
    list_runs,
    open_store,
    path,
    record_spending,
    take_run,
)
from multi_llm_chat.store.questions import Question, ask
from multi_llm_chat.testing.simulator import Simulator
from multi_llm_chat.tools.approval import ApprovalRequest

CONFIG = """
[speakers.robot]
provider = "openai-chat"
base_url = "{url}"
"""


@pytest.fixture(params=FEWER)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    return places(request, tmp_path)


def shell_of(scene: Scene, home: Path) -> Shell:
    (home / "config").mkdir(parents=True, exist_ok=True)
    (home / "config" / "config.toml").write_text(CONFIG.format(url=scene.url), encoding="utf-8")
    return Shell(home, OPENAI_API_KEY="key")


def test_an_interrupted_run_is_listed_shown_and_resumed(
    new_scene: Callable[..., Scene], tmp_path: Path
):
    scene = new_scene()
    assert run_process(say_in_process, scene, Kill(4, "after")) == -signal.SIGKILL
    shell = shell_of(scene, tmp_path / "home")
    with open_store(scene.place) as store:
        (info,) = store.run(list_runs)
    listed = shell.run("runs", "list", "--db", scene.place)
    assert info.id in listed
    assert "robot" in listed
    shown = shell.run("runs", "show", info.id[:30], "--db", scene.place)
    assert "model" in shown
    assert "In order" not in shown
    assert "decision" not in shown
    request = ApprovalRequest(ToolCall("erase", {"path": "/secret"}, "1"), "erase")
    with open_store(scene.place) as store:
        asker = (info.owner or "").partition("/")[0]
        store.run(ask, info.conversation, Question("q", asker, msgspec.to_builtins(request)))
    shown = shell.run("runs", "show", info.id, "--db", scene.place)
    assert "waits         for a decision" in shown
    assert "about erase\n" in shown
    assert "secret" not in shown
    shell.run("runs", "show", "nothing", "--db", scene.place, code=2)
    assert "no run 'nothing'" in shell.errors


def test_a_run_shows_what_it_cost_and_what_the_cache_saved(model: Simulator, tmp_path: Path):
    scene = Scene(str(tmp_path / "c.db"), model.base_url("openai-chat"), str(tmp_path / "ledger"))
    tokens = Usage(120_000, 300, cache_read_tokens=100_000)
    with open_store(scene.place) as store:
        run_id = _failed(store)
        cost = cost_of(tokens, "openai-chat", "gpt-4.1")
        assert cost is not None
        spending = Spending("s1", "robot", "gpt-4.1", tokens, cost.total, run_id=run_id)
        store.run(record_spending, "talk-1", spending)
    shell = shell_of(scene, tmp_path / "home")
    shown = shell.run("runs", "show", run_id, "--db", scene.place)
    assert "cost          120,000 in (100,000 cached), 300 out: $0.0924, $0.1500 saved" in shown


def test_a_failed_run_is_resumed_by_name_and_a_done_one_is_not(model: Simulator, tmp_path: Path):
    scene = Scene(str(tmp_path / "c.db"), model.base_url("openai-chat"), str(tmp_path / "ledger"))
    with open_store(scene.place) as store:
        run_id = _failed(store)
    shell = shell_of(scene, tmp_path / "home")
    shell.run("runs", "resume", run_id, "--db", scene.place)
    assert "It is done." in shell.errors
    shell.run("runs", "resume", run_id, "--db", scene.place, code=2)
    shell.run("runs", "cancel", run_id, "--db", scene.place)
    assert "ended before" in shell.errors
    with open_store(scene.place) as store:
        assert text_of(store.run(path, "talk-1")[-1]) == WORDS[2]


def _failed(store: Store) -> str:
    run_id = begin(store, 1)
    taken = store.run(take_run, run_id, "me", 1000)
    assert taken is not None
    store.run(finish_run, taken.fence, "failed", error=ErrorRecord("Overloaded", "busy"))
    return run_id


def test_a_file_is_no_place_for_workers(tmp_path: Path, model: Simulator):
    scene = Scene(str(tmp_path / "c.db"), model.base_url("openai-chat"), str(tmp_path / "ledger"))
    shell = shell_of(scene, tmp_path / "home")
    shell.run("worker", "--engine", "postgresql://x/y", "--db", scene.place, code=2)
    assert "postgresql://" in shell.errors


@pytest.mark.skipif(not SLOW, reason="takes long: make faults")
def test_databases_are_migrated_and_a_worker_answers_until_it_is_stopped(
    postgres: str, postgres_server: str, model: Simulator, tmp_path: Path
):
    engine = new_database(postgres_server)
    scene = Scene(postgres, model.base_url("openai-chat"), str(tmp_path / "ledger"))
    shell = shell_of(scene, tmp_path / "home")
    shell.run("migrate", "--db", postgres, "--engine", engine)
    assert "engine is up to date" in shell.errors
    port = choose_port()
    worker = subprocess.Popen(
        [*MLC, "worker", "--db", postgres, "--engine", engine, "--health", str(port), "--drain", "2"],
        env=shell.environment, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert worker.stderr is not None
    assert b"Working" in worker.stderr.readline()
    try:
        queue = DbosQueue(engine)
        with open_store(postgres) as store:
            run_id = submit(store, queue, 1)
            asyncio.run(stream_of(store, run_id))
            assert text_of(store.run(path, "talk-1")[-1]) == WORDS[2]
        queue.close()
        assert _get(port, "/healthz") == "ok\n"
        assert _get(port, "/readyz") == "ok\n"
        figures = _get(port, "/metrics")
        assert 'multi_llm_chat_runs{status="done"} 1' in figures
        assert "multi_llm_chat_workers 1" in figures
        with pytest.raises(urllib.error.HTTPError):
            _get(port, "/other")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()
        worker.stderr.close()


def _get(port: int, where: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{where}", timeout=30) as reply:
        return reply.read().decode()
