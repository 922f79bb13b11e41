"""What may be written to an output.

Rules:
1. ``plain``: text and line feeds only. So it is on request, for files and pipes, and for dumb terminals.
2. ``FORCE_COLOR`` gives a file or pipe colours; nothing is redrawn there.
3. Only a terminal is ``live``: parts of it are drawn again. ``NO_COLOR`` takes away the colours, not that.
"""

import os
from collections.abc import Mapping
from typing import TextIO

from msgspec import Struct


class Capabilities(Struct, frozen=True):
    """What an output can show."""

    live: bool
    colour: bool

    @property
    def plain(self) -> bool:
        """Whether nothing but text is to be written."""
        return not (self.live or self.colour)


PLAIN = Capabilities(live=False, colour=False)


def capabilities_of(
    output: TextIO, *, plain: bool = False, environment: Mapping[str, str] = os.environ
) -> Capabilities:
    """What the output can show, and the user wants to see."""
    if plain or environment.get("TERM", "").lower() in {"dumb", "unknown"}:
        return PLAIN
    forced = environment.get("FORCE_COLOR", "") not in {"", "0"}
    terminal = output.isatty()
    colour = (terminal or forced) and not environment.get("NO_COLOR")
    return Capabilities(live=terminal, colour=colour)
