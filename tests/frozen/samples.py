"""The files of this folder."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent


def text_of(name: str) -> str:
    """The text of a sample file."""
    return (FOLDER / name).read_text(encoding="utf-8")


def lines_of(name: str) -> list[str]:
    """The lines of a sample file; not ``splitlines``, which also splits at characters within a text."""
    return text_of(name).removesuffix("\n").split("\n")
