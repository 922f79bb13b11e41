"""As much of HTTP/1.1 as clients of these APIs speak.

Rules:
1. Bytes go in as they come, whole requests come out; what follows a request waits for its turn.
2. A body has a Content-Length or is chunked; otherwise there is none.
3. ``Expect`` is ignored: no interim reply is ever sent.
4. What cannot be understood raises ``BadHttp``; the connection is then of no more use.
5. A ``Prebuilt`` reply costs the server nothing, for measurements: its pieces are what goes over the wire, head and
   framing included. They are sent whatever the request says: nothing is judged, nothing recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

MAXIMUM_HEAD = 64 * 1024
MAXIMUM_BODY = 256 * 1024 * 1024

_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    413: "Payload Too Large",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class BadHttp(Exception):
    """The bytes are not a request."""


class RawRequest(Struct, frozen=True):
    """A request as HTTP sees it; header names are in lower case."""

    method: str
    target: str
    version: str
    headers: dict[str, str]
    content: bytes

    @property
    def path(self) -> str:
        """The path, without the query."""
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the query."""
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants to use the connection again."""
        wish = self.headers.get("connection", "").lower()
        return wish != "close" and (self.version == "HTTP/1.1" or wish == "keep-alive")


class RequestReader:
    """Makes requests of bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: tuple[str, str, str, dict[str, str]] | None = None
        self._chunks = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._buffer += data

    def next_request(self) -> RawRequest | None:
        """The next whole request, if it is there.

        Raises:
            BadHttp: It never will be.
        """
        if self._head is None and not self._read_head():
            return None
        assert self._head is not None
        content = self._read_body(self._head[3])
        if content is None:
            return None
        head, self._head = self._head, None
        return RawRequest(*head, content)

    def _read_head(self) -> bool:
        while self._buffer.startswith(b"\r\n"):  # left over from a careless client (RFC 9112, 2.2)
            del self._buffer[:2]
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAXIMUM_HEAD:
                raise BadHttp("the head of the request is too long")
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadHttp("this is not an HTTP/1.1 request line")
        self._head = (words[0], words[1], words[2], _headers(lines[1:]))
        return True

    def _read_body(self, headers: Mapping[str, str]) -> bytes | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._read_chunks()
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAXIMUM_BODY:
            raise BadHttp("the Content-Length cannot be used")
        return self._take(int(length))

    def _take(self, count: int) -> bytes | None:
        if len(self._buffer) < count:
            return None
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken

    def _read_chunks(self) -> bytes | None:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return None
            size = _chunk_size(self._buffer[:end])
            if len(self._buffer) < end + 4 + size:
                return None
            self._chunks += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 4 + size]
            if len(self._chunks) > MAXIMUM_BODY:
                raise BadHttp("the body is too long")
            if size == 0:
                content = bytes(self._chunks)
                self._chunks.clear()
                return content


def _chunk_size(line: bytearray) -> int:
    try:
        return int(bytes(line).partition(b";")[0], 16)
    except ValueError:
        raise BadHttp("a chunk has no size") from None


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise BadHttp("a header line cannot be read")
        headers[name.lower()] = value.strip()
    return headers


def write_head(status: int, headers: Mapping[str, str]) -> bytes:
    """The head of a reply."""
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def write_chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; none at all where there is no data, for that would end it."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


LAST_CHUNK = b"0\r\n\r\n"


# Replies made beforehand.


class Prebuilt(Struct, frozen=True):
    """The bytes of a whole HTTP reply, in the pieces in which they are written."""

    pieces: tuple[bytes, ...]

    @classmethod
    def stream(cls, frames: Iterable[bytes], content_type: str = "text/event-stream") -> Prebuilt:
        """A chunked reply, one chunk for each frame."""
        head = write_head(200, {"content-type": content_type, "transfer-encoding": "chunked"})
        return cls((head, *map(write_chunk, frames), LAST_CHUNK))

    @classmethod
    def whole(cls, body: bytes, content_type: str = "application/json") -> Prebuilt:
        """A reply with a Content-Length."""
        headers = {"content-type": content_type, "content-length": str(len(body))}
        return cls((write_head(200, headers), body))
