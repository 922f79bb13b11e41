"""Attachments of a message, and files of conversations.

Rules:
1. Pictures, sounds and PDFs are sent unchanged; text is sent as text under the file's name.
2. Other files are refused before anything is sent.
"""

import base64
import mimetypes
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import Media

LARGEST: Final = 20 * 2**20
_KINDS: Final = ("image/", "audio/", "application/pdf")


class Attached(Struct, frozen=True):
    """The text of text files, and the others."""

    text: str = ""
    media: tuple[Media, ...] = ()


def attach(paths: tuple[str, ...]) -> Attached:
    """Read the files.

    Raises:
        UsageError: A file cannot be read, is too large, or is of a kind that no model accepts.
    """
    texts: list[str] = []
    media: list[Media] = []
    for name in paths:
        path = Path(name).expanduser()
        try:
            if path.stat().st_size > LARGEST:
                raise UsageError(f"{name} is larger than {LARGEST // 2**20} MB")
            data = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror}") from None
        kind = mimetypes.guess_type(path.name)[0] or ""
        if kind.startswith(_KINDS):
            media.append(Media(kind, data=base64.b64encode(data).decode(), name=path.name))
            continue
        try:
            texts.append(f"[File: {path.name}]\n{data.decode()}")
        except UnicodeDecodeError:
            raise UsageError(f"{name} is neither text nor a picture, sound or PDF") from None
    return Attached("\n\n".join(texts), tuple(media))


# Files of conversations.

_FILES: Final = (".json", ".zip")
#: The most bytes of all files together, and the most files.
_MOST_BYTES: Final = 2**30
_MOST_FILES: Final = 100_000


def read_files_at(path: Path) -> Iterable[tuple[str, bytes]]:
    """The files at a path, each with its relative path."""
    try:
        if str(path) == "-":
            yield "", sys.stdin.buffer.read()
        elif path.is_dir():
            yield from _below(path)
        else:
            yield f"{path.absolute().parent.name}/{path.name}", path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def _below(folder: Path) -> Iterable[tuple[str, bytes]]:
    files = sorted(each for each in folder.rglob("*") if each.suffix in _FILES and each.is_file())
    if len(files) > _MOST_FILES or sum(each.stat().st_size for each in files) > _MOST_BYTES:
        raise UsageError(
            f"{folder} holds too much to import at once; import its folders one by one"
        )
    for file in files:
        yield f"{folder.absolute().name}/{file.relative_to(folder)}", file.read_bytes()
