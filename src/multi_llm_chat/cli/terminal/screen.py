"""The output of a board: its capabilities, the lines that stay, and below them the passing lines, which are redrawn.

Rules of the capabilities:
1. ``plain``: only text and line feeds; on request, for files and pipes, and for dumb terminals.
2. ``FORCE_COLOR`` switches on colours for a file or pipe; nothing is redrawn there.
3. Only a terminal is ``live``: parts of it are redrawn. ``NO_COLOR`` only removes the colours.

Rules of the screen:
4. Between frames, the cursor is at the beginning of the first passing line. Erasing clears everything from there on and counts no lines, so
   a resized window leaves no traces, whether it rewraps its lines or not.
5. There are fewer passing lines than the window has rows; they are cut at its edge, never wrapped.
6. A frame is written in one call; a frame equal to the last one is not written.
7. While passing lines are shown, keys are not echoed; typed keys wait for the next prompt.
8. On an output other than a terminal, there are no passing lines.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TextIO

from msgspec import Struct

# What an output can show.


class Capabilities(Struct, frozen=True):
    """What an output can show."""

    live: bool
    colour: bool

    @property
    def plain(self) -> bool:
        """Whether only plain text is written."""
        return not (self.live or self.colour)


PLAIN = Capabilities(live=False, colour=False)


def capabilities_of(
    output: TextIO, *, plain: bool = False, environment: Mapping[str, str] = os.environ
) -> Capabilities:
    """The capabilities of the output, limited by the user's settings."""
    if plain or environment.get("TERM", "").lower() in {"dumb", "unknown"}:
        return PLAIN
    forced = environment.get("FORCE_COLOR", "") not in {"", "0"}
    terminal = output.isatty()
    colour = (terminal or forced) and not environment.get("NO_COLOR")
    return Capabilities(live=terminal, colour=colour)


# The screen.

if sys.platform != "win32":
    import termios
else:  # pragma: no cover
    termios = None

Size = tuple[int, int]
_FALLBACK: Final = os.terminal_size((80, 24))
_ERASE: Final = "\r\x1b[J"
#: The begin and the end of a frame: synchronized output, hidden cursor, no wrapping.
_BEGIN: Final = "\x1b[?2026h\x1b[?25l\x1b[?7l"
_END: Final = "\x1b[?7h\x1b[?2026l"
_CURSOR: Final = "\x1b[?25h"


class Screen:
    """The end of a terminal's output, or a file."""

    def __init__(
        self, output: TextIO, capabilities: Capabilities, size: Callable[[], Size] | None = None
    ) -> None:
        self._output = output
        self.capabilities = capabilities
        self._size = size or (lambda: terminal_size(output))
        self._passing: tuple[Size, list[str]] | None = None
        self._echo = _Echo()

    @property
    def size(self) -> Size:
        """The current columns and rows."""
        columns, rows = self._size()
        return max(columns, 20), max(rows, 4)

    @property
    def room(self) -> int:
        """How many passing lines can be shown."""
        return self.size[1] - 1

    def add(self, lines: Sequence[str], passing: Sequence[str] = ()) -> None:
        """Add lines that stay, and replace the passing ones below them."""
        if not self.capabilities.live:
            if lines:
                self._write("".join(f"{line}\n" for line in lines))
            return
        shown = list(passing)[: self.room]
        frame = (self.size, shown)
        if not lines and frame == (self._passing or (self.size, [])):
            return
        self._draw(lines, shown)
        self._passing = frame if shown else None

    def clear(self) -> None:
        """Remove the passing lines."""
        self.add(())

    def _draw(self, lines: Sequence[str], shown: list[str]) -> None:
        begun = _ERASE if self._passing else ""
        stay = "".join(f"{line}\n" for line in lines)
        if not shown:
            self._echo.on()
            self._write(f"{begun}{_CURSOR}{stay}" if begun else stay)
            return
        self._echo.off()
        up = f"\x1b[{len(shown) - 1}A" if len(shown) > 1 else ""
        below = "\n".join(shown)
        # Lines that stay may wrap, so that the terminal can rewrap them; passing lines must not.
        self._write(f"{begun}{stay}{_BEGIN}{below}\r{up}{_END}")

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()


def terminal_size(output: TextIO) -> Size:
    """Columns and rows of the output's terminal."""
    with suppress(OSError, ValueError):
        size = os.get_terminal_size(output.fileno())
        if size.columns and size.lines:
            return size.columns, size.lines
    return _FALLBACK.columns, _FALLBACK.lines


class _Echo:
    """Controls whether the terminal echoes typed keys."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def off(self) -> None:
        if self._before is not None or termios is None:
            return
        with suppress(OSError, ValueError, termios.error):
            if os.tcgetpgrp(0) != os.getpgrp():
                return  # a background process does not control the terminal
            before = termios.tcgetattr(0)
            silent = [*before]
            silent[3] &= ~termios.ECHO
            termios.tcsetattr(0, termios.TCSANOW, silent)
            self._before = before

    def on(self) -> None:
        if self._before is None or termios is None:
            return
        with suppress(OSError, ValueError, termios.error):
            termios.tcsetattr(0, termios.TCSANOW, self._before)
        self._before = None
