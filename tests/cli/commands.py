"""``mlc`` as its users run it: a process of its own, with a home of its own.

``run`` forks it from one that has loaded it (``forking``); ``MLC`` and ``start`` begin from nothing.
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

#: Without the keys of the user who runs the tests.
BARE = {key: value for key, value in os.environ.items() if not key.endswith(("_API_KEY", "_TOKEN"))}


class Shell:
    """Runs commands with the same home."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.environment = BARE | {"MULTI_LLM_CHAT_HOME": str(home), "NO_COLOR": "1"} | environment

    def run(self, *words: str, input: str | bytes = "", code: int = 0) -> str:
        """What the command writes to standard output; ``errors`` has the rest."""
        data = input.encode() if isinstance(input, str) else input
        done = FORKING.run(Program(MODULE, words, self.environment, self.home), data)
        self.errors = done.errors.decode()
        assert done.code == code, (done.code, self.errors, done.output.decode())
        return done.output.decode()

    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
        """A command while it runs; nothing is typed unless ``stdin`` is a pipe."""
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
    """A shell whose speakers are simulated: ``anthropic=[Say("hello")]``."""
    with Simulator(dict(scripts)) as simulator:
        environment: dict[str, str] = {}
        for provider in scripts:
            environment[f"{provider.upper()}_API_KEY"] = "key"
            environment[f"{provider.upper()}_BASE_URL"] = simulator.base_url(provider)
        yield Shell(home, **environment), simulator
