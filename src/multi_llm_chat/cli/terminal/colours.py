"""A speaker's colour: the same in every conversation, on every machine, by the name alone."""

from typing import Final
from zlib import crc32

_KNOWN: Final = {
    "chatgpt": "green",
    "gemini": "blue",
    "claude": "yellow",
    "local": "magenta",
}
_OTHERS: Final = (
    "cyan", "magenta", "bright_blue", "bright_green", "bright_yellow", "bright_magenta", "bright_cyan",
)  # fmt: skip


def speaker_colour(name: str) -> str:
    """The colour of this speaker, by a name that both rich and prompt_toolkit can be told."""
    return _KNOWN.get(name) or _OTHERS[crc32(name.encode()) % len(_OTHERS)]
