"""Tools that hang, fork, return too much, or run again, in persisted runs."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.runs.scene import NAMES, WORDS, Scene, run_process, text_of
from tests.runs.single_runs import begun, die_in_a_tool, driven, only, results
from tests.store.processes import SLOW

from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.runs.recovery import RunnerLock
from multi_llm_chat.store import calls, open_store, path
from multi_llm_chat.testing.simulator import Simulator
from multi_llm_chat.tools import ToolContext, ToolRegistry

SERVER = Path(__file__).with_name("keyed_server.py")


@pytest.fixture
def scene(model: Simulator, tmp_path: Path) -> Scene:
    return Scene(str(tmp_path / "c.db"), model.base_url("openai-chat"), str(tmp_path / "ledger"))


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Callable[[], list[int]]]:
    """Return the processes that tools have left behind; they are killed at the end."""
    folder = tmp_path / "left"
    folder.mkdir()

    def numbers() -> list[int]:
        return [int(file.name) for file in folder.iterdir()]

    yield numbers
    for number in numbers():
        os.kill(number, signal.SIGKILL)


def _drive(scene: Scene, tools: ToolRegistry) -> None:
    with open_store(scene.place) as store:
        asyncio.run(driven(scene, store, only(store).id, tools, dead=only(store).owner))


def _misbehave(scene: Scene) -> None:
    """Resume a run whose tools hang, hold pipes open, and return a hundred megabytes."""
    tools = ToolRegistry()
    folder = Path(scene.ledger).parent / "left"

    @tools.tool(timeout=0.3)
    def look(number: int) -> bool:
        """Hangs for good."""
        return threading.Event().wait()

    @tools.tool(timeout=0.3)
    def send(number: int) -> str:
        """Waits for a pipe that a grandchild holds, which outlives everything."""
        script = f"sleep 600 & touch {folder}/$!; echo sent"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        return done.stdout

    @tools.tool
    def sign(number: int) -> str:
        """Tells too much."""
        return "x" * (100_000_000 if number == 0 else 1)

    _drive(scene, tools)


def test_tools_that_hang_fork_and_return_too_much_block_neither_the_run_nor_its_process(
    scene: Scene, left: Callable[[], list[int]]
):
    with open_store(scene.place) as store:
        run_id = begun(store)
        assert run_process(_misbehave, scene) == 0
        assert only(store).status == "done"
        assert text_of(store.run(path, "talk")[-1]) == WORDS[2]
        contents = [str(each.content) for each in results(store)]
        kept = [str(call.result) for call in store.run(calls, run_id)]
    assert len(contents) == 2 * len(NAMES)
    for at, words in enumerate(contents):
        assert ("did not finish within" in words) == (NAMES[at % 3] != "sign")
    assert all(len(words) < 100_000 for words in (*contents, *kept))
    for number in left():
        os.kill(number, 0)  # they are still alive: the run did not wait for them
    assert len(left()) == 2


def _fork(scene: Scene) -> None:
    """Resume a run as the holder of the file's runner lock; its tool forks and then kills the process."""
    tools = ToolRegistry()
    folder = Path(scene.ledger).parent / "left"

    @tools.tool(resume="retry")
    def look(number: int) -> str:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.write(writing, b"!")
            signal.pause()
            os._exit(0)
        os.read(reading, 1)  # the child runs, and has released its copy of the lock
        (folder / str(child)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    lock = RunnerLock(Path(scene.place))
    assert lock.take()
    _drive(scene, tools)


@pytest.mark.filterwarnings("default::DeprecationWarning")  # forking with threads is what is tested
def test_a_child_that_a_tool_has_forked_does_not_keep_others_from_resuming(
    scene: Scene, left: Callable[[], list[int]]
):
    with open_store(scene.place) as store:
        begun(store)
        assert run_process(_fork, scene) == -signal.SIGKILL
        (child,) = left()
        os.kill(child, 0)
        lock = RunnerLock(Path(scene.place))
        assert lock.take()
        lock.release()
        assert asyncio.run(driven(scene, store, only(store).id, dead=only(store).owner)) == "done"


def test_a_tool_that_is_run_again_gets_the_same_key(scene: Scene):
    keys: list[str | None] = []
    tools = ToolRegistry()

    @tools.tool(resume="retry")
    def look(number: int, context: ToolContext) -> str:
        keys.append(context.idempotency_key)
        return str(number)

    with open_store(scene.place) as store:
        run_id = begun(store)
        assert run_process(die_in_a_tool, scene) == -signal.SIGKILL
        asyncio.run(driven(scene, store, run_id, tools, dead=only(store).owner))
        kept = [call for call in store.run(calls, run_id) if call.name == "look"]
    assert keys == [call.idempotency_key for call in kept] == [f"{run_id}:1", f"{run_id}:5"]
    assert [call.attempts for call in kept] == [2, 1]


def _use_a_server(scene: Scene) -> None:
    folder = Path(scene.ledger).parent
    entry = {
        "trusted": True,
        "command": sys.executable,
        "args": [str(SERVER), scene.ledger],
        "alwaysAllow": ["look"],
    }
    (folder / "config").mkdir(exist_ok=True)
    servers = json.dumps({"mcpServers": {"keyed": entry}})
    (folder / "config" / "mcp.json").write_text(servers, encoding="utf-8")
    folders = Folders(folder / "config", folder / "data", folder / "state")
    with Workspace(folders, settings=Settings(), place=scene.place) as workspace:
        workspace.start_tools()
        workspace.tools.allow(["look"])
        _drive(scene, workspace.tools)


@pytest.mark.skipif(not SLOW, reason="takes long: make faults")
def test_a_server_whose_tool_is_run_again_gets_the_same_key(scene: Scene):
    with open_store(scene.place) as store:
        run_id = begun(store)
        assert run_process(_use_a_server, scene) == -signal.SIGKILL
        assert run_process(_use_a_server, scene) == 0
        assert only(store).status == "done"
        assert results(store)[0].content == "looked at 0"
        attempts = [call.attempts for call in store.run(calls, run_id) if call.name == "look"]
    keys = Path(scene.ledger).read_text(encoding="utf-8").split()
    assert keys == [f"{run_id}:1", f"{run_id}:1", f"{run_id}:5"]
    assert attempts == [2, 1]
