"""How much data from outside is read, and how it is counted.

Rules:
1. Every reader of outside data takes a ``Limits`` value: a reader without one does not type-check. The fields have
   one meaning for all readers; a reader uses those that fit it.
2. JSON is counted before it is decoded: a megabyte of ``[],`` becomes twenty of Python objects.
3. Text that is shorter than any limit costs one comparison: a delta of a stream is never scanned.
4. Compressed data is decompressed in pieces of bounded size; its reader counts what comes out.
5. ``OverLimit`` goes from a part of a reader to the reader, which turns it into its own typed error
   (``StreamBroken``, ``ToolError``, ``UsageError``) and keeps what it received before.
"""

import re
import zlib
from collections.abc import Iterator

from msgspec import Struct

MEGABYTE = 2**20

#: What a decompressor returns at a time.
_PIECE = 2**18

#: zlib's parameter for each compression.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}

#: Bytes of JSON text that are searched at once.
_SEARCHED = 2**18

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKET = re.compile(rb"[\[{\]}]")


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """The most that is read of one reply, result or file.

    ``total_bytes`` and ``total_values`` (JSON values) are for the whole, ``item_bytes`` and ``values`` for one event, line
    or document in it. ``error_bytes`` is for a body that describes a failure. ``depth`` is the nesting of JSON, ``parts`` the
    number of parts, calls or blocks.
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


#: What is read of a model's reply.
REPLY_LIMITS = Limits()

#: What is read of a tool's result.
RESULT_LIMITS = Limits(
    total_bytes=32 * MEGABYTE, item_bytes=32 * MEGABYTE, total_values=1_000_000, parts=1_000
)

#: What is read of an archive of conversations; ``parts`` is the number of files in a zip.
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
    """Count the values and the nesting of JSON text, so many bytes at a time; nothing is decoded.

    Raises:
        OverLimit: There are more than allowed.
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
    """JSON text without its strings, in pieces: searching a large text at once would detain the other threads of the process."""
    at, size = 0, searched
    while at < len(data):
        end = at + size
        bare = _STRING.sub(b"", data[at:end])
        opened = bare.find(b'"') if end < len(data) else -1
        if opened < 0:
            yield bare
            at, size = end, searched
            continue
        # The last string goes on behind the piece: nothing of it was taken out, so it is the rest of both.
        yield bare[:opened]
        begins = end - (len(bare) - opened)
        size = searched if begins > at else 2 * size
        at = begins


class Decompressor:
    """Decompresses one body, for every encoding that HTTP servers use without being asked."""

    def __init__(self, window: int) -> None:
        self._object = zlib.decompressobj(window)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """What the next bytes become, a bounded piece at a time.

        Raises:
            zlib.error: The data is not what its header says.
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
    """A number of bytes as an error names it."""
    return f"{count / MEGABYTE:g} MB"
