"""Real server processes for the tests."""

import atexit
import queue
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.tools import ToolProgress, ToolRegistry
from multi_llm_chat.tools.mcp import Elicitation, ElicitationAnswer, ServerEvent
from multi_llm_chat.tools.mcp.servers import McpServers

SERVERS = Path(__file__).parent / "servers"
#: Long enough for any machine; only a failing test waits this long.
PATIENCE = 60.0


class HttpServer:
    """The everyday server over HTTP; the test owns the socket, so that clients can connect at once."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/mcp"
        self.process = self.run()

    def run(self) -> "subprocess.Popen[bytes]":
        """Start it, on the same address each time."""
        descriptor = self._socket.fileno()
        self.process = subprocess.Popen(
            [sys.executable, str(SERVERS / "everyday.py"), str(descriptor)],
            pass_fds=[descriptor],
        )
        return self.process

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        self._socket.close()


@pytest.fixture(scope="session")
def http_server() -> Generator[HttpServer]:
    """The everyday server over HTTP, shared by tests that do not end it."""
    server = HttpServer()
    yield server
    server.close()


class Scene:
    """Running servers, their tools, and all their events."""

    def __init__(self, entries: dict[str, Any], **settings: Any) -> None:
        self.registry = ToolRegistry(timeout=PATIENCE)
        self.events: queue.Queue[ServerEvent] = queue.Queue()
        self.questions: list[Elicitation] = []
        self.answer = ElicitationAnswer("accept", {"colour": "red"})
        defaults: dict[str, Any] = {
            "elicit": self._elicit,
            "backoff": (0.0, 0.0, 0.0),
            "patience": PATIENCE,
        }
        self.servers = McpServers(
            {"mcpServers": entries},
            self.registry,
            on_event=self.events.put,
            **(defaults | settings),
        )

    async def _elicit(self, question: Elicitation) -> ElicitationAnswer:
        self.questions.append(question)
        return self.answer

    def call(self, name: str, /, **arguments: Any) -> ToolResult:
        """Call a tool."""
        return self.registry.execute_sync(ToolCall(name, arguments, "id"))

    def watched(self, name: str) -> tuple[ToolResult, list[ToolProgress]]:
        """Call a tool and collect its progress events."""
        seen: list[ToolProgress] = []
        call = ToolCall(name, {}, "id")
        return self.registry.execute_sync(call, on_progress=seen.append), seen

    def wait_for(self, wanted: Callable[[ServerEvent], bool]) -> ServerEvent:
        """Return the next event of the kind; other events before it are skipped."""
        while True:
            event = self.events.get(timeout=PATIENCE)
            if wanted(event):
                return event

    def names(self) -> list[str]:
        """Return the names of the offered tools."""
        return [tool.name for tool in self.registry.definitions()]


@cache
def forking() -> str:
    """Start the process that forks everyday servers, and return its address; it ends with this process."""
    folder = mkdtemp(prefix="everyday-")
    address = f"{folder}/socket"
    process = subprocess.Popen(
        [sys.executable, str(SERVERS / "forked.py"), "serve", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder)

    atexit.register(end)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return address


def everyday(**settings: Any) -> dict[str, Any]:
    """Return the settings entry of the well-behaved server."""
    script = [str(SERVERS / "everyday.py")]
    if sys.platform == "linux":
        script = ["-I", "-S", str(SERVERS / "forked.py"), "start", forking()]
    entry = {
        "command": sys.executable,
        "args": script,
        "startupTimeout": PATIENCE,
        "trusted": True,
    }
    return entry | settings


@pytest.fixture(scope="session", params=["stdio", "http"])
def scene(request: pytest.FixtureRequest, http_server: HttpServer) -> Generator[Scene]:
    """Run the everyday server, over each transport."""
    entries = {
        "stdio": everyday(),
        "http": {"url": http_server.url, "startupTimeout": PATIENCE, "trusted": True},
    }
    scene = Scene({"everyday": entries[request.param]})
    with scene.servers:
        yield scene
