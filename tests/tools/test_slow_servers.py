"""A server that is slow to start: the client waits for it, names it, and reports its failure."""

import asyncio
import os
import queue
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.tools.conftest import PATIENCE, SERVERS

from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.testing import hostile_mcp_server
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.mcp import StateChanged
from multi_llm_chat.tools.mcp.servers import McpServers


class Scene:
    """A slow server, configured before a normal one."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self._pipe = folder / "pipe"
        os.mkfifo(self._pipe)
        self.registry = ToolRegistry(timeout=PATIENCE)
        self.notices: queue.Queue[tuple[str, ...]] = queue.Queue()
        entries = {
            "slow": self._entry("slow.py", str(self._pipe)) | settings,
            "good": self._entry(hostile_mcp_server.__file__, "good"),
        }
        self.servers = McpServers(
            {"mcpServers": entries},
            self.registry,
            backoff=(),
            on_waiting=self._note,
            notice_after=0.0,
        )

    def _note(self, servers: tuple[str, ...]) -> None:
        self.notices.put(servers)
        raise RuntimeError("a callback's mistake must not disturb the start")

    def release(self, words: str = "") -> None:
        """Let the server start, or fail with this text."""
        self._pipe.write_text(words)

    def wait_for_notice(self, *servers: str) -> None:
        """Wait until the client waits for exactly these servers."""
        while self.notices.get(timeout=PATIENCE) != servers:
            continue

    @contextmanager
    def starting(self) -> Generator[None]:
        """Start the servers in another thread; wait for the end of the start when the block ends."""
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(self.servers.start_sync)
            try:
                yield
                started.result(PATIENCE)
            finally:
                if not started.done():
                    self.servers.stop_sync()

    def call(self, name: str) -> object:
        return self.registry.execute_sync(ToolCall(name, {}, "id")).content

    @staticmethod
    def _entry(script: str, argument: str) -> dict[str, Any]:
        return {
            "command": sys.executable,
            "args": [str(SERVERS / script), argument],
            "trusted": True,
        }


@pytest.fixture
def scene(tmp_path: Path) -> Generator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.servers.stop_sync()


def test_the_start_waits_and_names_the_servers_that_are_still_starting(scene: Scene) -> None:
    with scene.starting():
        scene.wait_for_notice("slow")
        assert scene.servers.starting() == ("slow",)
        assert scene.registry.listing() == []
        scene.release()
    assert scene.servers.missing() == []
    # Names follow the configuration, not the order in which the servers become ready.
    assert scene.call("answer") == "slow answers"
    assert scene.call("good_answer") == "good answers"


def test_a_server_that_fails_after_a_while_is_missing_and_the_reason_is_given(scene: Scene) -> None:
    with scene.starting():
        scene.wait_for_notice("slow")
        scene.release("the disk is full")
    (sentence,) = scene.servers.missing()
    assert sentence.startswith('The MCP server "slow" did not start: the program ended with code 1')
    assert "the disk is full" in sentence
    assert scene.call("answer") == "good answers"


def test_a_server_that_exceeds_its_limit_is_missing_and_the_setting_is_named(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path, startup_timeout=0.5)
    with scene.servers:
        assert scene.servers.missing() == [
            'The MCP server "slow" did not start: it did not answer within 0.5 seconds '
            "(startupTimeout). Its tools are not available."
        ]
        assert scene.call("answer") == "good answers"


def test_a_start_can_be_stopped_while_it_waits(scene: Scene) -> None:
    with scene.starting():
        scene.wait_for_notice("slow")
        scene.servers.stop_sync()
    assert scene.servers.states() == [
        StateChanged("slow", "stopped"),
        StateChanged("good", "stopped"),
    ]
    assert "was stopped" in scene.servers.missing()[0]


def test_a_cancelled_start_leaves_servers_that_can_be_stopped(scene: Scene) -> None:
    async def run() -> None:
        starting = asyncio.ensure_future(scene.servers.start())
        await asyncio.to_thread(scene.wait_for_notice, "slow")
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await scene.servers.stop()

    asyncio.run(run())
    assert [state.state for state in scene.servers.states()] == ["stopped", "stopped"]
