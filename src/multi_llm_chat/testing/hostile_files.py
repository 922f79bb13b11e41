"""Files that attack a program which imports conversations, and requests that attack a web server, as data.

Rules:
1. ``HOSTILE_FILES`` has every file by its name, as a function that makes its bytes: some are large.
2. A program passes when each is read, or refused with an error of its own, and its memory stays bounded.
3. ``HOSTILE_REQUESTS`` has requests of a client that is not signed in, each as the bytes it sends. A server passes when it answers with an
   error or closes the connection within its time limits, while a user who is signed in is served.
4. Nothing here imports from the program: the judge shares nothing with the judged.
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


def _request(
    target: bytes = b"/", *lines: bytes, method: bytes = b"GET", body: bytes = b""
) -> bytes:
    head = b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\n" % (method, target)
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def _login(body: bytes, *lines: bytes) -> bytes:
    origin = b"Origin: http://127.0.0.1"
    kind = b"Content-Type: application/x-www-form-urlencoded"
    return _request(b"/login", origin, kind, *lines, method=b"POST", body=body)


#: Every request, by what it does; a server gets these bytes and then silence.
HOSTILE_REQUESTS: Final[dict[str, Callable[[], bytes]]] = {
    "nothing": lambda: b"",
    "one byte": lambda: b"G",
    "half a head": lambda: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    "garbage": lambda: bytes(range(256)) * 100,
    "a TLS hello": lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "another protocol": lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no host": lambda: b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": lambda: b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    "a foreign host": lambda: b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "a long line": lambda: _request(b"/" + b"a" * 200_000),
    "a long header": lambda: _request(b"/", b"X-Long: " + b"a" * 200_000),
    "many headers": lambda: _request(b"/", *[b"X-Many: a"] * 20_000),
    "a folded header": lambda: _request(b"/", b"X-Folded: a\r\n b"),
    "a null in a header": lambda: _request(b"/", b"X-Null: \x00"),
    "a path that climbs": lambda: _request(b"/assets/../../../../etc/passwd"),
    "a path that climbs, encoded": lambda: _request(b"/assets/%2e%2e/%2e%2e/%2e%2e/etc/passwd"),
    "a null in the path": lambda: _request(b"/c/%00/view"),
    "a path that is no UTF-8": lambda: _request(b"/c/%ff%fe/view"),
    "a guessed token": lambda: _request(b"/?token=" + b"a" * 1_000),
    "many tokens": lambda: _request(b"/?" + b"token=a&" * 5_000),
    "a forged session": lambda: _request(b"/", b"Cookie: mlc_session=bG9jYWw=.9999999999.aa.bb"),
    "a broken cookie": lambda: _request(b"/", b'Cookie: mlc_session="\xff; a=b; =;;'),
    "many cookies": lambda: _request(b"/", b"Cookie: " + b"a=b; " * 10_000),
    "a user in a header": lambda: _request(b"/", b"X-Remote-User: admin", b"X-User: admin"),
    "metrics through a proxy": lambda: _request(b"/metrics", b"X-Forwarded-For: 127.0.0.1"),
    "a body that does not come": lambda: _login(b"password=", b"Content-Length: 5000"),
    "a large password": lambda: _login(b"password=" + b"a" * 100_000, b"Content-Length: 100009"),
    "a negative length": lambda: _login(b"password=a", b"Content-Length: -1"),
    "two lengths": lambda: _login(b"password=a", b"Content-Length: 10", b"Content-Length: 0"),
    "length and chunks": lambda: _login(b"0\r\n\r\n", b"Content-Length: 10", b"Transfer-Encoding: chunked"),
    "a chunk of no size": lambda: _login(b"zz\r\n", b"Transfer-Encoding: chunked"),
    "a multipart bomb": lambda: _request(
        b"/login", b"Origin: http://127.0.0.1", b"Content-Type: multipart/form-data; boundary=b", b"Content-Length: 9000",
        method=b"POST", body=b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 150,
    ),
    "a boundary without end": lambda: _request(
        b"/login", b"Origin: http://127.0.0.1", b"Content-Type: multipart/form-data; boundary=" + b"b" * 30_000, b"Content-Length: 10",
        method=b"POST", body=b"--bbbbbbbb",
    ),
    "another origin": lambda: _request(
        b"/login", b"Origin: http://evil.example", b"Content-Length: 10", method=b"POST", body=b"password=a"
    ),
    "an upgrade": lambda: _request(b"/", b"Connection: Upgrade", b"Upgrade: websocket"),
    "a range": lambda: _request(b"/assets/style.css", b"Range: bytes=" + b"0-1," * 5_000),
    "an unknown method": lambda: _request(b"/", method=b"DESTROY"),
    "expect": lambda: _login(b"", b"Content-Length: 10", b"Expect: 100-continue"),
    "many requests at once": lambda: _request(b"/login") * 500,
}  # fmt: skip
