"""A real terminal: a program on a pseudo-terminal, and the screen as a person would see it."""

import fcntl
import os
import pty
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pexpect
import pyte
from pexpect.fdpexpect import fdspawn
from tests.cli.fork_server import FORKING, Program

PROGRAMS = Path(__file__).with_name("programs.py")
_PATIENCE = 15


class Emulated(pyte.HistoryScreen):
    """A screen that answers queries for the cursor position."""

    answer: Callable[[str], object] = print

    def write_process_input(self, data: str) -> None:
        """Send the terminal's own replies."""
        self.answer(data)


def row_text(row: Any, columns: int) -> str:
    """Return the text of a row; the right half of a wide character is empty."""
    return "".join(row[at].data for at in range(columns)).rstrip()


def all_rows(screen: pyte.HistoryScreen) -> list[str]:
    """Return the rows that have scrolled off the screen and those on it, without the empty ones at the end."""
    top = cast("Iterable[Any]", screen.history.top)
    rows = [row_text(row, max(row, default=0) + 1) for row in top]
    rows += [row_text(screen.buffer[at], screen.columns) for at in range(screen.lines)]
    while rows and not rows[-1]:
        rows.pop()
    return rows


class Terminal:
    """Runs one of ``programs.py``, or any module, in a window."""

    def __init__(
        self,
        program: str,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        module: bool = False,
        **variables: str,
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        environment |= {"TERM": "xterm-256color"} | variables
        name, words = (program, arguments) if module else (str(PROGRAMS), (program, *arguments))
        ours, theirs = pty.openpty()
        _set_size(ours, columns, rows)
        run = Program(name, words, environment, Path.cwd())
        self._process = FORKING.start(run, os.ttyname(theirs))
        os.close(theirs)
        self._ours = ours
        self._child: fdspawn[bytes] = fdspawn(ours, timeout=_PATIENCE)
        self.screen = Emulated(columns, rows, history=30_000)
        self.screen.answer = self._child.send
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""

    def rows(self) -> list[str]:
        """Return everything that was ever shown and not erased."""
        return all_rows(self.screen)

    def text(self) -> str:
        """The rows as one text."""
        return "\n".join(self.rows())

    def wait_for(self, *words: str) -> str:
        """Wait until all words are on the screen."""
        return self.wait_until(lambda text: all(word in text for word in words), repr(words))

    def wait_until(self, holds: Callable[[str], bool], what: str = "") -> str:
        """Wait until the screen is as expected."""
        end = (
            time.monotonic() + _PATIENCE
        )  # otherwise a status line would keep a faulty program alive for ever
        while not holds(text := self.text()):
            try:
                self._read()
            except pexpect.EOF:
                end = 0
            except pexpect.TIMEOUT:
                pass
            if time.monotonic() > end and not holds(self.text()):
                raise AssertionError(f"never shown: {what}\n{self.text()}")
        return text

    def send(self, keys: str) -> None:
        """Press keys: cues and Ctrl-C at once, others at a prompt, since before that the terminal echoes and changes them."""
        if keys[0] not in "\n\x03":
            self.wait_until(lambda _: not self._echoes(), "a prompt")
        self._child.send(keys)

    def _echoes(self) -> bool:
        return bool(termios.tcgetattr(self._ours)[3] & termios.ECHO)

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window."""
        self.screen.resize(rows, columns)
        _set_size(self._ours, columns, rows)

    def finish(self) -> str:
        """Wait until the program has ended; return what is then on the screen."""
        end = time.monotonic() + _PATIENCE
        try:
            while time.monotonic() < end:
                self._read()
        except pexpect.EOF:
            return self.text()
        raise AssertionError(f"the program does not end\n{self.text()}")

    def _read(self) -> None:
        new = self._child.read_nonblocking(65_536, timeout=_PATIENCE)
        self.raw += new
        self._stream.feed(new)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._process, signal.SIGKILL)
        self._child.close()


def _set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
