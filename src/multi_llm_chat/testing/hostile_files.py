"""Files that attack a program which imports conversations, as data.

Rules:
1. ``HOSTILE_FILES`` has every file by its name, as a function that makes its bytes: some are large.
2. A program passes when each is read, or refused with an error of its own, and its memory stays bounded.
3. Nothing here imports from the program: the judge shares nothing with the judged.
"""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from typing import Any, Final

_MEGABYTE: Final = 2**20
_TURN: Final = {"role": "user", "content": "Hello"}


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _zip(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _bomb(size: int, pattern: bytes = b" ") -> bytes:
    packed = io.BytesIO()
    piece = pattern * (_MEGABYTE // len(pattern))
    with (
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("conversations.json", "w", force_zip64=True) as member,
    ):
        for _ in range(size // len(piece)):
            member.write(piece)
    return packed.getvalue()


def _lying_zip() -> bytes:
    """A zip whose directory says that its file has ten bytes."""
    packed = _bomb(64 * _MEGABYTE)
    at = packed.rindex(b"PK\x01\x02")
    return packed[: at + 24] + struct.pack("<I", 10) + packed[at + 28 :]


def _nested_zip(levels: int) -> bytes:
    content = _json([_TURN])
    for _ in range(levels):
        content = _zip({"conversations.json": content})
    return content


def _many_members(count: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(count):
            archive.writestr(f"{number}.json", b"{}")
    return packed.getvalue()


def _chatgpt(mapping: Any) -> bytes:
    return _json([{"title": "x", "mapping": mapping, "current_node": "a"}])


def _chain(count: int) -> dict[str, Any]:
    return {
        str(number): {
            "id": str(number),
            "parent": str(number - 1) if number else None,
            "children": [str(number + 1)],
            "message": {"author": {"role": "user"}, "content": {"parts": ["x"]}},
        }
        for number in range(count)
    }


#: Every file, by what it does.
HOSTILE_FILES: Final[dict[str, Callable[[], bytes]]] = {
    "nothing": lambda: b"",
    "one byte": lambda: b"{",
    "only a mark": lambda: b"\xef\xbb\xbf",
    "null bytes": lambda: bytes(_MEGABYTE),
    "spaces": lambda: b" " * (32 * _MEGABYTE),
    "not UTF-8": lambda: b'[{"role":"user","content":"\xff\xfe"}]',
    "UTF-16": lambda: '[{"role":"user"}]'.encode("utf-16"),
    "half a surrogate": lambda: b'[{"role":"user","content":"\\ud800"}]',
    "a picture": lambda: b"\x89PNG\r\n\x1a\n" + bytes(1000),
    "deep lists": lambda: b"[" * 1_000_000 + b"]" * 1_000_000,
    "deep objects": lambda: b'{"a":' * 300_000 + b"1" + b"}" * 300_000,
    "deep in a turn": lambda: b'[{"role":"user","content":' + b"[" * 5_000 + b"]" * 5_000 + b"}]",
    "many lists": lambda: b"[" + b"[]," * 12_000_000 + b"[]]",
    "many turns": lambda: _json([_TURN] * 50_000),
    "many empty turns": lambda: b"[" + b"{}," * 400_000 + b"{}]",
    "a huge number": lambda: (
        b'[{"role":"user","content":"x","created_at":' + b"9" * 100_000 + b"}]"
    ),
    "infinity": lambda: b'[{"role":"user","content":"x","created_at":1e999}]',
    "a long text": lambda: _json([{"role": "user", "content": "x" * (8 * _MEGABYTE)}]),
    "a long role": lambda: _json([{"role": "x" * _MEGABYTE, "content": "y"}]),
    "a long id": lambda: _json([{"role": "user", "content": "x", "id": "i" * _MEGABYTE}]),
    "repeated keys": lambda: b'{"turns":[],"turns":[{"role":"user","content":"x"}],"turns":5}',
    "wrong types": lambda: _json([{"role": 5, "content": {"a": [None, True]}}, None, 7, "x", []]),
    "a script": lambda: _json([{"role": "user", "content": "<script>alert(1)</script>"}]),
    "a circle of parents": lambda: _chatgpt(
        {
            "a": {"id": "a", "parent": "b", "children": ["b"], "message": None},
            "b": {"id": "b", "parent": "a", "children": ["a"], "message": None},
        }
    ),
    "its own parent": lambda: _chatgpt({"a": {"id": "a", "parent": "a", "children": ["a"]}}),
    "a parent that is not there": lambda: _chatgpt({"a": {"id": "a", "parent": "z"}}),
    "a long chain": lambda: _chatgpt(_chain(20_000)),
    "a mapping that is none": lambda: _chatgpt([1, 2, 3]),
    "a zip that is none": lambda: b"PK\x03\x04" + bytes(100),
    "a zip cut short": lambda: _zip({"conversations.json": _json([_TURN])})[:-30],
    "a zip of nothing": lambda: _zip({}),
    "a zip bomb": lambda: _bomb(1024 * _MEGABYTE),
    "a zip bomb of lists": lambda: _bomb(128 * _MEGABYTE, b"[],["),
    "a zip that lies": _lying_zip,
    "zips in zips": lambda: _nested_zip(50),
    "a zip of many files": lambda: _many_members(20_000),
    "names that climb": lambda: _zip({"../../../etc/conversations.json": _json([_TURN])}),
    "absolute names": lambda: _zip({"/etc/passwd.json": _json([_TURN])}),
}
