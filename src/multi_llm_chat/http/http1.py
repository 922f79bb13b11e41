"""HTTP/1.1 without I/O: the bytes of a request, and a parser of the reply's bytes.

Rules (https://www.rfc-editor.org/rfc/rfc9112):
1. ``feed`` takes bytes as they arrive and returns the part of the body that they contain, without framing; the same bytes
   give the same body however they are split.
2. A reply ends with its last chunk, after its length, or with the connection (6.3). ``complete`` is then true;
   the caller reports the end of the connection with ``end``.
3. Replies with a status of 1xx are skipped: another one follows (RFC 9110, 15.2).
4. A line ends with CRLF or LF (2.2). A chunk's extensions and the trailers are skipped (7.1).
5. A head, the trailers and a chunk's first line have size limits. If the reply is not valid HTTP, has a wrong length or ends
   too early, ``failure`` has the error; nothing is raised. The body before the error is returned.
6. A connection is used for another request only if the reply was read to its end, no data follows it, and neither side
   asked to close it (9.3).
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import Struct

from multi_llm_chat.http._network_settings import PoolKey, proxy_headers
from multi_llm_chat.protocol.exchange import HttpRequest

#: The most bytes of a head, and of the trailers.
MAX_HEAD: Final = 65_536
#: The most bytes of a chunk's first line: its length and extensions.
_MAX_LINE: Final = 8_192

_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?")
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
#: The line before a chunk's data: the line end of the chunk before it, then the length. Below: an incomplete one.
_CHUNK: Final = re.compile(rb"\r?\n([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
_BEGUN_CHUNK: Final = re.compile(rb"\r?(?:\n(?:[0-9A-Fa-f]{1,15}[ \t]*(?:;[^\r\n]*)?\r?)?)?")
_LINE_END: Final = re.compile(rb"\r?\n")
_PRINTABLE: Final = re.compile(r"[!-~]*")
_OWN_HEADERS: Final = {"User-Agent": "multi_llm_chat", "Accept-Encoding": "identity"}
#: Characters that are not escaped in the target of a request: all visible ASCII characters.
_KEPT: Final = "".join(map(chr, range(0x21, 0x7F)))


class BadReply(ConnectionError):
    """The server's bytes are not a valid reply of HTTP/1.1."""


class Address(Struct, frozen=True):
    """The address of a request: the parts of its URL as they are written in the request."""

    scheme: str
    host: str
    port: int
    target: str
    authority: str


@lru_cache(maxsize=64)  # requests go to the same few endpoints
def read_address(url: str) -> Address:
    """The parts of a URL; characters that a request cannot contain are escaped."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host.isascii():
        host = host.encode("idna").decode()
    default = 443 if parts.scheme == "https" else 80
    port = parts.port or default
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    if not _PRINTABLE.fullmatch(target):
        target = quote(target, safe=_KEPT)
    shown = f"[{host}]" if ":" in host else host
    return Address(
        parts.scheme, host, port, target, shown if port == default else f"{shown}:{port}"
    )


def write_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request.

    Raises:
        ValueError: A header contains a line break or NUL.
    """
    lines = [
        f"{method} {target} HTTP/1.1",
        *[f"{name}: {value}" for name, value in headers.items()],
    ]
    text = "\r\n".join(lines)
    if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1 or "\0" in text:
        raise ValueError("A header of a request must be one line")
    return f"{text}\r\n\r\n".encode("latin-1")


def request_head(request: HttpRequest, key: PoolKey) -> bytes:
    """The head of the request, for the server or for a proxy that passes it on."""
    address = read_address(request.url)
    headers = {"Host": address.authority} | _OWN_HEADERS | request.headers
    target = address.target
    if key.proxy is not None and key.scheme == "http":
        target = f"http://{address.authority}{target}"
        headers |= proxy_headers(key.proxy)
    if request.body or request.method != "GET":
        headers["Content-Length"] = str(len(request.body))
    return write_head(request.method, target, headers)


def tunnel_head(key: PoolKey) -> bytes:
    """The request that asks the proxy for a connection to the server (RFC 9110, 9.3.6)."""
    target = f"[{key.host}]:{key.port}" if ":" in key.host else f"{key.host}:{key.port}"
    return write_head("CONNECT", target, {"Host": target, **proxy_headers(key.proxy or "")})


class ReplyParser:
    """Reads one reply."""

    __slots__ = (
        "_chunk_left",
        "_held",
        "_in_trailers",
        "_left",
        "_persists",
        "_trailer_size",
        "complete",
        "failure",
        "headers",
        "status",
    )

    def __init__(self) -> None:
        #: Zero until the head has arrived.
        self.status = 0
        #: Names in lower case; values of the same name are joined.
        self.headers: dict[str, str] = {}
        self.complete = False
        self.failure: BadReply | None = None
        self._persists = False
        self._held: bytes = b""  # the beginning of a head or of a line
        self._left: int | None = None  # bytes left of a body with a length
        self._chunk_left = -1  # bytes left of the open chunk; -1 for a body without chunks
        self._in_trailers = False
        self._trailer_size = 0

    @property
    def reusable(self) -> bool:
        """Whether the connection can be used for another request."""
        return self.complete and self._persists and not self._held

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return the part of the body that they contain."""
        if self.status:
            return self._read_body(data)
        try:
            rest = self._read_heads(data)
        except BadReply as error:
            self.failure = error
            return b""
        return self._read_body(rest) if rest else b""

    def _read_body(self, data: bytes) -> bytes:
        if self.complete:
            # Data after the reply: the connection cannot be reused.
            self._held = data[:1] or self._held
            return b""
        if self._in_trailers:
            return self._skip_trailers(data)
        if self._chunk_left >= 0:
            return self._read_chunks(data)
        if self._left is None:
            return data
        body = data[: self._left]
        self._left -= len(body)
        if self._left == 0:
            self.complete = True
            self._held = data[len(body) : len(body) + 1]
        return body

    def end(self) -> None:
        """Take the end of the connection."""
        self._persists = False
        if self.status and self._chunk_left < 0 and self._left is None:
            self.complete = True
        elif not self.complete:
            self.failure = BadReply("The connection ended before the reply did")

    # The head.

    def _read_heads(self, data: bytes) -> bytes:
        """Read the head; return what follows it."""
        searched = max(0, len(self._held) - 3)  # the end of a head is at most four bytes long
        data = self._held + data if self._held else data
        self._held = b""
        while data:
            found = _END_OF_HEAD.search(data, searched)
            searched = 0
            if (len(data) if found is None else found.end()) > MAX_HEAD:
                raise BadReply("The head of the reply is too large")
            if found is None:
                self._held = data
                break
            status = self._read_head(data[: found.start()])
            data = data[found.end() :]
            if status >= 200:
                self._begin_body(status)
                return data
            if status == 101:
                raise BadReply("The server switches to a protocol that the request did not ask for")
            self.headers = {}
        return b""

    def _read_head(self, text: bytes) -> int:
        first, *lines = _LINE_END.split(text)
        found = _STATUS.fullmatch(first)
        if found is None:
            raise BadReply("The server does not answer with HTTP/1.1")
        headers = self.headers
        name = ""
        for line in lines:
            if line[:1] in (b" ", b"\t"):  # continues the line before (5.2)
                headers[name] = f"{headers.get(name, '')} {line.strip().decode('latin-1')}".strip()
                continue
            key, colon, value = line.partition(b":")
            if not colon:
                raise BadReply("The head of the reply is no HTTP")
            name = key.strip().lower().decode("latin-1")
            read = value.strip().decode("latin-1")
            headers[name] = f"{headers[name]}, {read}" if name in headers else read
        connection = headers.get("connection", "").lower()
        is_kept = found[1] == b"1" or "keep-alive" in connection
        self._persists = is_kept and "close" not in connection
        return int(found[2])

    def _begin_body(self, status: int) -> None:
        self.status = status
        if status in (204, 304):
            self.complete = True
            return
        if "transfer-encoding" in self.headers:
            # A body with another transfer coding than chunks ends with the connection (6.3).
            if self.headers["transfer-encoding"].lower().rpartition(",")[2].strip() == "chunked":
                self._chunk_left = 0
                self._held = b"\r\n"  # the line end of a chunk before the first one, see ``_CHUNK``
            return
        length = self.headers.get("content-length")
        if length is None:
            return
        values = {value.strip() for value in length.split(",")}
        value = values.pop()
        if values or not (value.isascii() and value.isdecimal()) or len(value) > 18:
            raise BadReply("The reply has no usable Content-Length")
        self._left = int(value)
        self.complete = self._left == 0

    # The chunks.

    def _read_chunks(self, data: bytes) -> bytes:
        at = self._chunk_left
        size = len(data)
        if size < at:  # the middle of a large chunk
            self._chunk_left = at - size
            return data
        pieces = [data[:at]]
        self._chunk_left = 0
        if self._held:
            data = self._held + data
            self._held = b""
            size = len(data)
        while True:
            line = data.find(b"\n", at + 2) + 1
            length = _chunk_length(data[at:line]) if 0 < line - at <= _MAX_LINE else None
            if length is None:
                break
            at = line
            if not length:
                self._in_trailers = True
                self._skip_trailers(data[at:])
                return b"".join(pieces)
            end = at + length
            pieces.append(data[at:end])
            if end > size:
                self._chunk_left = end - size
                return b"".join(pieces)
            at = end
        self._held = data[at:]
        if len(self._held) > _MAX_LINE or not _BEGUN_CHUNK.fullmatch(self._held):
            self.failure = BadReply("A chunk of the reply does not begin with its length")
        return b"".join(pieces)

    def _skip_trailers(self, data: bytes) -> bytes:
        """Skip the lines after the last chunk; the reply ends with a blank line."""
        data = self._held + data
        at = 0
        while found := _LINE_END.search(data, at):
            if found.start() == at:
                self.complete = True
                self._held = data[found.end() : found.end() + 1]
                return b""
            at = found.end()
        self._trailer_size += at
        self._held = data[at:]
        if self._trailer_size + len(self._held) > MAX_HEAD:
            self.failure = BadReply("The trailers of the reply are too large")
        return b""


@lru_cache(maxsize=256)  # the chunks of a stream have few lengths
def _chunk_length(line: bytes) -> int | None:
    """The length in the line before a chunk's data; None if the line is incomplete or invalid."""
    found = _CHUNK.fullmatch(line)
    return None if found is None else int(found[1], 16)
