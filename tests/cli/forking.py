"""Start ``mlc`` again and again without loading it again and again.

Rules:
1. Every command is a process of its own with its own environment, folder and files; only what is loaded is shared.
2. One command at a time: an order is a line of JSON, its answer a line with the exit code.
3. Nothing but modules is loaded before the fork: no thread, no connection, no setting.
"""

import gc
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

PATIENCE: Final = 60
_MODULES: Final = (
    "multi_llm_chat.cli.ask",
    "multi_llm_chat.cli.doctor",
    "multi_llm_chat.cli.history",
    "multi_llm_chat.cli.keys",
    "multi_llm_chat.cli.mcp",
    "multi_llm_chat.cli.models",
    "multi_llm_chat.cli.runs",
    "multi_llm_chat.cli.tools",
    "multi_llm_chat.cli.transfer",
    "multi_llm_chat.service.chat",
    "multi_llm_chat.tools.mcp.servers",
    "multi_llm_chat.transport.aio",
    "multi_llm_chat.transport.sync",
    "rich.markdown",
)
_FILES: Final = ("input", "output", "errors")


class Finished:
    """How a command ended."""

    def __init__(self, code: int, output: bytes, errors: bytes) -> None:
        self.code = code
        self.output = output
        self.errors = errors


class Forking:
    """Runs commands; ``start`` is done by the first."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, words: Sequence[str], given: bytes, environment: Mapping[str, str], folder: Path
    ) -> Finished:
        """Run ``mlc`` with these words until it ends."""
        with TemporaryDirectory() as place:
            files = [Path(place, name) for name in _FILES]
            files[0].write_bytes(given)
            order = {
                "words": list(words),
                "environment": dict(environment),
                "folder": str(folder),
                "files": [str(file) for file in files],
            }
            return Finished(self._order(order), files[1].read_bytes(), files[2].read_bytes())

    def _order(self, order: Mapping[str, object]) -> int:
        process = self._process = self._process or subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], PATIENCE)[0]:
            process.kill()
            raise TimeoutError(f"mlc does not end: {order['words']}")
        return int(process.stdout.readline())


def _become(words: list[str], environment: dict[str, str], folder: str, files: list[str]) -> None:
    """Be the command from here on."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)
    for target, (file, mode) in enumerate(zip(files, modes, strict=True)):
        os.dup2(os.open(file, mode, 0o600), target)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: PLW1514, SIM115  as Python itself opens them
    sys.argv = ["mlc", *words]
    import_module("multi_llm_chat.cli.main").main()


def _serve() -> None:
    for module in _MODULES:
        import_module(module)
    gc.freeze()  # what is shared is not looked at by every child
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            return _become(**order)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    return None


if __name__ == "__main__":
    _serve()
