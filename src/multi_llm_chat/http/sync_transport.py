"""Requests without ``async``, over the standard library.

Rules:
1. A reply lives as long as its ``with`` block. Leaving it in any way closes the socket at once,
   unless the reply was read to its end: then the connection is kept.
2. ``Connection.stop`` (see ``watch`` of ``send``) and ``SyncTransport.close`` may be called from another
   thread: the reader wakes up at once and gets ``ConnectionFailed``, also before the reply has
   begun. Only the making of a connection is not interrupted.
3. Redirects are not followed: a key is sent to the address it belongs to and nowhere else.
4. Network failures leave as ``ConnectionFailed``; nothing of ``http.client`` is seen outside.
5. Compression is not asked for, but understood; a body is decompressed in bounded pieces.
6. Time limits hold before every read of the socket, so that a head or a chunk that arrives byte by byte ends too.
"""

import io
import math
import socket
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from multi_llm_chat.data_limits import decompressor_for
from multi_llm_chat.errors import ConnectionFailed, UsageError
from multi_llm_chat.http._connection_pool import Connection, ConnectionPool, proxy_headers
from multi_llm_chat.http._network_failures import connection_failed
from multi_llm_chat.http._network_settings import Timeouts, TransportSettings
from multi_llm_chat.protocol.exchange import HttpRequest

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: How long the end of a finished reply is waited for, so that its connection can be used again.
GRACE_SECONDS = 0.5

_PIECE = 2**16

_FAILURES = (HTTPException, OSError)  # a TimeoutError is an OSError


class _Clock:
    """The time that a reply may take, set on its socket."""

    def __init__(self, timeouts: Timeouts, *, streamed: bool) -> None:
        now = time.monotonic()
        self._silence = math.inf if timeouts.read is None else timeouts.read
        self._end = math.inf if timeouts.total is None else now + timeouts.total
        first = timeouts.first_event if streamed else None
        self._due = self._end if first is None else min(self._end, now + first)
        self._socket: socket.socket | None = None

    def watch(self, connected: socket.socket) -> None:
        self._socket = connected
        self._allow(self._silence)

    def start(self) -> None:
        """The first event is there: its time limit ends."""
        if self._due != self._end:
            self._due = self._end
            self._allow(self._silence)

    def hurry(self, seconds: float) -> None:
        """Allow no more than this for all that follows."""
        self._due = min(self._due, time.monotonic() + seconds)

    def renew(self) -> None:
        """Before each read: no longer than what is left."""
        left = self._due - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if left < self._silence:
            self._allow(left)

    def _allow(self, seconds: float) -> None:
        # http.client may have let go of the socket with the last byte: who reads on finds the end, or why there is none.
        if self._socket is not None:
            with suppress(OSError):
                self._socket.settimeout(None if seconds == math.inf else seconds)


class _TimedFile(io.RawIOBase):
    """The bytes of a socket; every read keeps to the clock."""

    def __init__(self, connected: socket.socket, clock: _Clock) -> None:
        super().__init__()
        self._file = connected.makefile("rb", buffering=0)
        self._renew = clock.renew

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        self._renew()
        return self._file.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _TimedResponse(HTTPResponse):
    """A response that reads its socket through a ``_TimedFile``."""

    def __init__(
        self, clock: _Clock, connected: socket.socket, *, method: str | None = None
    ) -> None:
        super().__init__(connected, method=method)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedFile(connected, clock))


class SyncReply:
    """The head of a reply, and its body in the pieces in which it arrives."""

    def __init__(
        self, response: HTTPResponse, connection: Connection, url: str, clock: _Clock
    ) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = self._pieces()
        self.complete = False
        self._response = response
        self._connection = connection
        self._url = url
        self._clock = clock

    def start(self) -> None:
        """The first event is there: its time limit ends."""
        self._clock.start()

    def finish(self) -> None:
        """Read the little that may follow the last event, if it comes soon."""
        self._clock.hurry(GRACE_SECONDS)
        try:
            for _ in self.body:
                pass
        except ConnectionFailed:
            return

    def close(self) -> None:
        """Read no more."""
        self._response.close()

    def _pieces(self) -> Iterator[bytes]:
        begun = whole = False
        trouble: BaseException | str | None = None
        unpacking = decompressor_for(self.headers.get("content-encoding", ""))
        read = self._response.read1
        try:
            while data := read(_PIECE):
                begun = True
                if unpacking is None:
                    yield data
                    continue
                yield from unpacking.pieces(data)
                if unpacking.at_end:
                    whole = not read(_PIECE)  # what follows is not read
                    break
            else:
                whole = True
        except (*_FAILURES, zlib.error) as error:
            trouble = error
        if trouble is None and self._response.length:
            trouble = "lost"  # http.client takes a short body for a whole one
        if self._connection.stopped:
            trouble = "closed"
        if trouble is not None:
            raise connection_failed(trouble, self._url, before_first_byte=not begun)
        self.complete = whole


class SyncTransport:
    """Sends requests and keeps connections; may be shared by threads."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._pool = ConnectionPool(settings)

    def __repr__(self) -> str:
        return f"SyncTransport({self._settings!r})"

    def __del__(self) -> None:
        self._pool.close()

    @contextmanager
    def send(
        self,
        request: HttpRequest,
        *,
        watch: Callable[[Connection | None], None] | None = None,
        streamed: bool = False,
    ) -> Generator[SyncReply]:
        """Send the request; the block begins when the reply's head is there.

        Args:
            request: What to send.
            watch: Called with the connection before anything is sent, and with ``None`` in the end.
            streamed: Whether the reply is a stream, so that its first event has a time limit of its own.
        """
        if self._pool.closed:
            raise UsageError("This transport is closed")
        clock = _Clock(self._settings.timeouts, streamed=streamed)
        connection = self._connect(request.url)
        reply: SyncReply | None = None
        try:
            if watch is not None:
                watch(connection)
            reply = self._ask(connection, request, clock)
            yield reply
        finally:
            if watch is not None:
                watch(None)
            # http.client lets go of the socket by itself where the server closes the connection.
            whole = reply is not None and reply.complete and connection.http.sock is not None
            if reply is not None:
                reply.close()
            self._pool.give_back(connection, reusable=whole)

    def close(self) -> None:
        """Close all connections; replies that are being read end with ``ConnectionFailed``."""
        self._pool.close()

    def _connect(self, url: str) -> Connection:
        try:
            return self._pool.take(self._pool.key_of(url))
        except OSError as error:
            code: OSError | str = error
            if str(error).startswith("Tunnel connection failed"):
                code = "proxy"
            elif isinstance(error, TimeoutError):
                code = "unreachable"
            failure = connection_failed(code, url, before_first_byte=True)
        # Outside of the handler, so that the library's error is not the context of ours.
        raise failure

    def _ask(self, connection: Connection, request: HttpRequest, clock: _Clock) -> SyncReply:
        key, http = connection.key, connection.http
        headers = {"User-Agent": "multi_llm_chat"} | request.headers
        if key.proxy is not None and key.scheme == "http":
            target = request.url
            headers |= proxy_headers(key.proxy)
        else:
            parts = urlsplit(request.url)
            target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            clock.watch(connection.socket)
            clock.renew()
            http.response_class = cast("type[HTTPResponse]", partial(_TimedResponse, clock))
            http.request(request.method, target, request.body or None, headers)
            return SyncReply(http.getresponse(), connection, request.url, clock)
        except _FAILURES as error:
            code = "closed" if connection.stopped else error
            failure = connection_failed(code, request.url, before_first_byte=True)
        raise failure
