"""``mlc`` as its users run it: a separate process with its own home folder.

``run`` forks it from a process that has loaded it (``forking``); ``MLC`` and ``start`` start a fresh process.
"""

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.fork_server import FORKING, Program
from tests.cli.fork_server import MLC as MODULE

from multi_llm_chat.testing.simulator import Simulator

MLC = [sys.executable, "-m", "multi_llm_chat"]

#: The environment without the API keys of the user who runs the tests.
BARE = {key: value for key, value in os.environ.items() if not key.endswith(("_API_KEY", "_TOKEN"))}


class Shell:
    """Runs commands with the same home folder."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.environment = BARE | {"MULTI_LLM_CHAT_HOME": str(home), "NO_COLOR": "1"} | environment

    def run(self, *words: str, input: str | bytes = "", code: int = 0) -> str:
        """Run a command and return its standard output; ``errors`` has its standard error."""
        data = input.encode() if isinstance(input, str) else input
        done = FORKING.run(Program(MODULE, words, self.environment, self.home), data)
        self.errors = done.errors.decode()
        assert done.code == code, (done.code, self.errors, done.output.decode())
        return done.output.decode()

    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
        """Start a command; its standard input is empty unless ``stdin`` is a pipe."""
        return subprocess.Popen(
            [*MLC, *words],
            env=self.environment,
            cwd=self.home,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@contextmanager
def shell(home: Path, **scripts: Sequence[Any]) -> Generator[tuple[Shell, Simulator]]:
    """Return a shell whose speakers are simulated: ``anthropic=[Say("hello")]``."""
    with Simulator(dict(scripts)) as simulator:
        environment: dict[str, str] = {}
        for provider in scripts:
            environment[f"{provider.upper()}_API_KEY"] = "key"
            environment[f"{provider.upper()}_BASE_URL"] = simulator.base_url(provider)
        yield Shell(home, **environment), simulator
