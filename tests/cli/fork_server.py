"""Start ``mlc`` and other programs many times, but load them only once.

Rules:
1. Every program is a separate process with its own environment, folder and files or terminal; only loaded modules
   are shared.
2. Only modules are loaded before the fork: there are no threads, connections or settings.
3. A request is a line of JSON; the response is a line with a number: the exit code of a program with files (one at a
   time), or the process id of a program with a terminal (any number of them).
"""

import atexit
import fcntl
import gc
import json
import os
import runpy
import select
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

PATIENCE: Final = 60
MLC: Final = "multi_llm_chat"
_MODULES: Final = (
    "multi_llm_chat.cli.ask",
    "multi_llm_chat.cli.config",
    "multi_llm_chat.cli.history",
    "multi_llm_chat.cli.mcp",
    "multi_llm_chat.cli.models",
    "multi_llm_chat.cli.runs",
    "multi_llm_chat.cli.repl",
    "multi_llm_chat.cli.terminal",
    "multi_llm_chat.cli.terminal.board",
    "multi_llm_chat.cli.terminal.prompt",
    "multi_llm_chat.chat.chat_service",
    "multi_llm_chat.chat.doctor",
    "multi_llm_chat.tools.mcp.servers",
    "multi_llm_chat.http.async_transport",
    "multi_llm_chat.http.sync_transport",
    "prompt_toolkit.shortcuts",
    "rich.markdown",
)
_FILES: Final = ("input", "output", "errors")
_MODES: Final = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)


class Finished(NamedTuple):
    """How a program ended."""

    code: int
    output: bytes
    errors: bytes


class Program(NamedTuple):
    """The program to run: a module's name or a script's path, its arguments and its environment."""

    name: str
    words: Sequence[str]
    environment: Mapping[str, str]
    folder: Path


class Forking:
    """The process that others are forked from; the first use starts it."""

    @cached_property
    def _process(self) -> "subprocess.Popen[str]":
        command = [sys.executable, __file__]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(process.communicate)  # closes its input, which ends it
        return process

    def run(self, program: Program, given: bytes) -> Finished:
        """Run the program until it ends."""
        with TemporaryDirectory() as place:
            files = [Path(place, name) for name in _FILES]
            files[0].write_bytes(given)
            code = self._order(program, files=[str(file) for file in files])
            return Finished(code, files[1].read_bytes(), files[2].read_bytes())

    def start(self, program: Program, terminal: str) -> int:
        """Start the program in a terminal; return its process id."""
        return self._order(program, terminal=terminal)

    def _order(self, program: Program, **surroundings: object) -> int:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        order = program._asdict() | {"folder": str(program.folder)} | surroundings
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], PATIENCE)[0]:
            process.kill()
            raise TimeoutError(f"does not end: {program.name} {program.words}")
        return int(process.stdout.readline())


#: One for all tests of a process.
FORKING = Forking()


def _become(name: str, words: list[str], environment: dict[str, str], folder: str) -> None:
    """Turn this process into the program."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # Open them as Python does.
    encoding = environment.get("PYTHONIOENCODING")
    sys.stdin, sys.stdout = open(0, encoding=encoding), open(1, "w", encoding=encoding)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace")  # noqa: SIM115
    sys.argv = [name, *words]
    if os.path.isabs(name):
        runpy.run_path(name, run_name="__main__")
    else:
        runpy.run_module(name, run_name="__main__")


def _with_files(files: list[str]) -> None:
    for target, (file, mode) in enumerate(zip(files, _MODES, strict=True)):
        os.dup2(os.open(file, mode, 0o600), target)


def _with_terminal(terminal: int) -> None:
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for target in range(3):
        os.dup2(terminal, target)


def _serve() -> None:
    for module in _MODULES:
        import_module(module)
    gc.freeze()  # the children's garbage collectors skip the shared objects
    for line in sys.stdin:
        order = json.loads(line)
        files, path = order.pop("files", None), order.pop("terminal", None)
        # Open it here, so that it stays open until the program has it.
        terminal = -1 if path is None else os.open(path, os.O_RDWR | os.O_NOCTTY)
        child = os.fork()
        if child == 0:
            _with_terminal(terminal) if files is None else _with_files(files)
            return _become(**order)
        if files is None:
            os.close(terminal)
            number = child
        else:
            number = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    return None


if __name__ == "__main__":
    _serve()
