"""Limits on external data: how much each reader accepts, and how it is counted.

Rules:
1. Every reader of external data takes a ``Limits`` value: a reader without one does not type-check. The fields have
   one meaning for all readers; a reader uses those that apply to it.
2. JSON is counted before it is decoded: one megabyte of ``[],`` becomes twenty megabytes of Python objects.
3. Text that is shorter than any limit costs one comparison: a delta of a stream is never scanned.
4. Compressed data is decompressed in pieces of bounded size; the reader counts the decompressed bytes.
5. Helpers raise ``OverLimit``; the reader that called them turns it into its own typed error
   (``StreamBroken``, ``ToolError``, ``UsageError``) and keeps what it received before.
"""

import re
import zlib
from collections.abc import Iterator

from msgspec import Struct

MEGABYTE = 2**20

#: The largest piece that a decompressor returns.
_PIECE = 2**18

#: zlib's parameter for each compression.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}

#: Bytes of JSON text that are searched at once.
_SEARCHED = 2**18

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKET = re.compile(rb"[\[{\]}]")


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """How much of one reply, result or file is read at most.

    ``total_bytes`` and ``total_values`` (JSON values) limit the whole, ``item_bytes`` and ``values`` one event, line
    or document in it. ``error_bytes`` limits a body that describes a failure. ``depth`` limits the nesting of JSON, ``parts``
    the number of parts, calls or blocks.
    """

    total_bytes: int = 64 * MEGABYTE
    item_bytes: int = 32 * MEGABYTE
    error_bytes: int = MEGABYTE
    total_values: int = 500_000
    values: int = 50_000
    depth: int = 200
    parts: int = 10_000

    @property
    def surely_allowed(self) -> int:
        """The length up to which JSON text exceeds neither ``values`` nor ``depth``, whatever it contains."""
        return min(2 * self.depth, self.values)


#: The limits of a model's reply.
REPLY_LIMITS = Limits()

#: The limits of a tool's result.
RESULT_LIMITS = Limits(
    total_bytes=32 * MEGABYTE, item_bytes=32 * MEGABYTE, total_values=1_000_000, parts=1_000
)

#: The limits of an archive of conversations; ``parts`` is the number of files in a zip.
ARCHIVE_LIMITS = Limits(
    total_bytes=512 * MEGABYTE,
    item_bytes=512 * MEGABYTE,
    total_values=10_000_000,
    values=10_000_000,
    parts=100_000,
)


class OverLimit(Exception):
    """Data exceeds a limit; the text says which."""


def check_json(data: bytes, *, values: int, depth: int, searched: int = _SEARCHED) -> None:
    """Count the values and the nesting of JSON text piece by piece, without decoding it.

    Raises:
        OverLimit: The text has too many values or is nested too deeply.
    """
    opened = data.count(b"[") + data.count(b"{")
    if opened <= depth and opened + data.count(b",") < values:
        return
    found, level = 1, 0
    for bare in _without_strings(data, searched):
        found += bare.count(b"[") + bare.count(b"{") + bare.count(b",")
        if found > values:
            raise OverLimit(f"more than {values:,} JSON values")
        for bracket in _BRACKET.finditer(bare):
            level += 1 if bracket[0] in b"[{" else -1
            if level > depth:
                raise OverLimit(f"JSON that is nested more than {depth} levels deep")


def _without_strings(data: bytes, searched: int) -> Iterator[bytes]:
    """JSON text without its strings, in pieces: a search through a large text would hold the GIL and block all other threads."""
    at, size = 0, searched
    while at < len(data):
        end = at + size
        bare = _STRING.sub(b"", data[at:end])
        opened = bare.find(b'"') if end < len(data) else -1
        if opened < 0:
            yield bare
            at, size = end, searched
            continue
        # The last string continues in the next piece; it was not removed, so both texts end with the same unfinished string.
        yield bare[:opened]
        begins = end - (len(bare) - opened)
        size = searched if begins > at else 2 * size
        at = begins


class Decompressor:
    """Decompresses one body, in any encoding that HTTP servers use even if the request does not accept it."""

    def __init__(self, window: int) -> None:
        self._object = zlib.decompressobj(window)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next bytes; yield the output in pieces of bounded size.

        Raises:
            zlib.error: The data is not in the format that its header announces.
        """
        unpack = self._object
        while data and not unpack.eof:
            yield unpack.decompress(data, _PIECE)
            data = unpack.unconsumed_tail

    @property
    def at_end(self) -> bool:
        """Whether the compressed data is complete; what follows is ignored."""
        return self._object.eof


def decompressor_for(encoding: str) -> Decompressor | None:
    """The decompressor for a ``Content-Encoding``; ``None`` for data that is not compressed."""
    window = _WINDOWS.get(encoding.strip().lower())
    return None if window is None else Decompressor(window)


def in_megabytes(count: int) -> str:
    """A number of bytes, formatted for an error text."""
    return f"{count / MEGABYTE:g} MB"
