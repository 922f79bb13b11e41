"""Requests without ``async``, over the standard library.

Rules:
1. A reply lives as long as its ``with`` block. Leaving it in any way closes the socket at once,
   unless the reply was read to its end: then the connection is kept.
2. ``Connection.stop`` (see ``watch`` of ``send``) and ``SyncTransport.close`` may be called from another
   thread: the reader wakes up at once and gets ``ConnectionFailed``, also before the reply has
   begun. Only the making of a connection is not interrupted.
3. Redirects are not followed: a key is sent to the address it belongs to and nowhere else.
4. Network failures leave as ``ConnectionFailed``; nothing of ``http.client`` is seen outside.
5. Compression is not asked for, but understood.
"""

import socket
import time
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from urllib.parse import urlsplit

from multi_llm_chat.errors import ConnectionFailed, UsageError
from multi_llm_chat.http._connection_pool import Connection, ConnectionPool, proxy_headers
from multi_llm_chat.http._network_failures import connection_failed
from multi_llm_chat.http._network_settings import Timeouts, TransportSettings
from multi_llm_chat.protocol.exchange import HttpRequest

#: How long the end of a finished reply is waited for, so that its connection can be used again.
GRACE_SECONDS = 0.5

_PIECE = 2**16

_FAILURES = (HTTPException, OSError)  # a TimeoutError is an OSError

#: zlib's parameter for each compression.
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class _Limits:
    """The time that a reply may take, set on its socket."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._silence = timeouts.read
        self._end = None if timeouts.total is None else time.monotonic() + timeouts.total
        self._socket: socket.socket | None = None

    def watch(self, connected: socket.socket) -> None:
        self._socket = connected
        connected.settimeout(self._silence)
        self.renew()

    def shorten(self, silence: float) -> None:
        self._silence = silence
        self._allow(silence)

    def renew(self) -> None:
        """Before each read: no longer than what is left of the total."""
        if self._end is None or self._socket is None:
            return
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._allow(left if self._silence is None else min(left, self._silence))

    def _allow(self, seconds: float) -> None:
        # http.client may have let go of the socket with the last byte: who reads on finds the end, or why there is none.
        if self._socket is not None:
            with suppress(OSError):
                self._socket.settimeout(seconds)


class SyncReply:
    """The head of a reply, and its body in the pieces in which it arrives."""

    def __init__(
        self, response: HTTPResponse, connection: Connection, url: str, limits: _Limits
    ) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = self._pieces()
        self.complete = False
        self._response = response
        self._connection = connection
        self._url = url
        self._limits = limits

    def finish(self) -> None:
        """Read the little that may follow the last event, if it comes soon."""
        self._limits.shorten(GRACE_SECONDS)
        try:
            for _ in self.body:
                pass
        except ConnectionFailed:
            return

    def close(self) -> None:
        """Read no more."""
        self._response.close()

    def _pieces(self) -> Iterator[bytes]:
        begun = False
        trouble: BaseException | str | None = None
        window = _WINDOWS.get(self.headers.get("content-encoding", "").lower())
        unpack = zlib.decompressobj(window).decompress if window else None
        read, renew = self._response.read1, self._limits.renew
        try:
            while True:
                renew()
                data = read(_PIECE)
                if not data:
                    break
                begun = True
                yield unpack(data) if unpack else data
        except (*_FAILURES, zlib.error) as error:
            trouble = error
        if trouble is None and self._response.length:
            trouble = "lost"  # http.client takes a short body for a whole one
        if self._connection.stopped:
            trouble = "closed"
        if trouble is not None:
            raise connection_failed(trouble, self._url, before_first_byte=not begun)
        self.complete = True


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
        self, request: HttpRequest, *, watch: Callable[[Connection | None], None] | None = None
    ) -> Generator[SyncReply]:
        """Send the request; the block begins when the reply's head is there.

        Args:
            request: What to send.
            watch: Called with the connection before anything is sent, and with ``None`` in the end.
        """
        if self._pool.closed:
            raise UsageError("This transport is closed")
        limits = _Limits(self._settings.timeouts)
        connection = self._connect(request.url)
        reply: SyncReply | None = None
        try:
            if watch is not None:
                watch(connection)
            reply = self._ask(connection, request, limits)
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
            refused = str(error).startswith("Tunnel connection failed")
            failure = connection_failed("proxy" if refused else error, url, before_first_byte=True)
        # Outside of the handler, so that the library's error is not the context of ours.
        raise failure

    def _ask(self, connection: Connection, request: HttpRequest, limits: _Limits) -> SyncReply:
        key, http = connection.key, connection.http
        headers = {"User-Agent": "multi_llm_chat"} | request.headers
        if key.proxy is not None and key.scheme == "http":
            target = request.url
            headers |= proxy_headers(key.proxy)
        else:
            parts = urlsplit(request.url)
            target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            limits.watch(connection.socket)
            http.request(request.method, target, request.body or None, headers)
            return SyncReply(http.getresponse(), connection, request.url, limits)
        except _FAILURES as error:
            code = "closed" if connection.stopped else error
            failure = connection_failed(code, request.url, before_first_byte=True)
        raise failure
