"""Requests without ``async``, over HTTP/1.1 on plain sockets.

Rules:
1. A reply is valid inside its ``with`` block. Leaving the block in any way closes the socket at once,
   unless the reply was read to its end: then the connection is kept.
2. ``SyncConnection.stop`` (see ``watch`` of ``send``) and ``SyncTransport.close`` may be called from another
   thread: the reader wakes up at once and gets ``ConnectionFailed``, also before the reply has
   begun. Only opening a connection is not interrupted.
3. Redirects are not followed: a key is sent to the address it belongs to and nowhere else.
4. Network failures are raised as ``ConnectionFailed``.
5. Requests do not ask for compression; a compressed body is still decompressed, in pieces of bounded size.
6. Time limits are checked before every read of the socket, so that they also end a head or chunk that arrives byte by byte.

The pool, which keeps connections for later requests:
7. At most ``connections_per_host`` connections with one key are open; a caller that needs one more waits.
8. A connection has one user at a time. It is kept only after a complete reply. A kept connection is closed instead of used
   if it has been idle for too long, or if the server has closed it or sent unrequested data.
9. ``close`` may be called from any thread: it closes idle connections and shuts down those in use,
   so that a thread that waits for bytes wakes up.
10. A forked process leaves the connections to its parent and opens its own: both would read each other's replies.
"""

import math
import os
import select
import socket
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress

from multi_llm_chat.data_limits import decompressor_for
from multi_llm_chat.errors import ConnectionFailed, UsageError
from multi_llm_chat.http._network_failures import ProxyRefused, connection_failed
from multi_llm_chat.http._network_settings import (
    PoolKey,
    Timeouts,
    TransportSettings,
    proxy_address,
    tls_context,
)
from multi_llm_chat.http.http1 import (
    ReplyParser,
    read_address,
    request_head,
    tunnel_head,
)
from multi_llm_chat.protocol.exchange import HttpRequest

#: Seconds to wait for the end of a finished reply's body, so that its connection can be used again.
GRACE_SECONDS = 0.5

_PIECE = 2**16


class SyncConnection:
    """One connection, with the socket that another thread can shut down.

    Raises:
        OSError: The server cannot be reached in time.
    """

    def __init__(self, key: PoolKey, settings: TransportSettings) -> None:
        self.key = key
        self.idle_since = 0.0
        self.stopped = False
        place = (key.host, key.port) if key.proxy is None else proxy_address(key.proxy)
        made = socket.create_connection(place, settings.timeouts.connect)
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if key.scheme == "https":
                if key.proxy is not None:
                    _open_tunnel(made, key)
                context = tls_context(settings.ca_file, settings.ca_directory)
                made = context.wrap_socket(made, server_hostname=key.host)
        except BaseException:
            made.close()
            raise
        self.socket: socket.socket = made

    def stop(self) -> None:
        """Shut the socket down, which wakes the thread that reads it; that thread closes it. Any thread may call this."""
        self.stopped = True
        with suppress(OSError):
            # The method of ``SSLSocket`` would also discard the TLS state, which the reading thread still uses.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def is_stale(self, oldest: float) -> bool:
        """Return whether the idle connection is too old, or closed or readable, so that it must not be used again."""
        if self.idle_since < oldest:
            return True
        try:
            return _is_readable(self.socket)
        except (OSError, ValueError):  # it is closed
            return True


def _is_readable(opened: socket.socket) -> bool:
    """Whether data, or the end of the connection, can be read without waiting."""
    if not hasattr(select, "poll"):
        return bool(select.select([opened], [], [], 0)[0])
    poller = select.poll()  # ``select`` does not take descriptors above 1023
    poller.register(opened, select.POLLIN)
    return bool(poller.poll(0))


def _open_tunnel(made: socket.socket, key: PoolKey) -> None:
    """Ask the proxy for a connection to the server (RFC 9110, 9.3.6)."""
    made.sendall(tunnel_head(key))
    parser = ReplyParser()
    while not parser.status:
        data = made.recv(1)  # byte by byte: data after the head belongs to the tunnel
        if not data:
            raise ProxyRefused
        parser.feed(data)
        if parser.failure is not None:
            raise ProxyRefused
    if parser.status != 200:
        raise ProxyRefused


#: The pools of this process.
_POOLS: "weakref.WeakSet[ConnectionPool]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    for pool in tuple(_POOLS):
        pool.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class ConnectionPool:
    """The connections of one transport."""

    def __init__(
        self, settings: TransportSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: dict[PoolKey, list[SyncConnection]] = {}
        self._slots: dict[PoolKey, threading.BoundedSemaphore] = {}
        self._used: set[SyncConnection] = set()
        self.closed = False
        _POOLS.add(self)

    def leave_to_parent(self) -> None:
        """Start without connections, in a forked process; closing its copy of a socket does not close the parent's."""
        self._lock = threading.Lock()  # another thread may have held it during the fork
        for connection in [each for kept in self._idle.values() for each in kept]:
            connection.socket.close()
        self._idle, self._slots, self._used = {}, {}, set()

    def key_of(self, url: str) -> PoolKey:
        """The key of the connections that lead to this address."""
        address = read_address(url)
        proxy = self._settings.proxy_for(url)
        return PoolKey(address.scheme, address.host, address.port, proxy)

    def take(self, key: PoolKey) -> SyncConnection:
        """Take an idle connection or open one; the caller must return it with ``give_back``.

        Raises:
            OSError: The server cannot be reached in time.
        """
        slots = self._slots_of(key)
        if not slots.acquire(timeout=self._settings.timeouts.total):
            raise TimeoutError
        try:
            connection = self._kept(key) or SyncConnection(key, self._settings)
        except BaseException:
            slots.release()
            raise
        with self._lock:
            self._used.add(connection)
        if self.closed:
            connection.stop()
        return connection

    def give_back(self, connection: SyncConnection, *, reusable: bool) -> None:
        """Keep the connection for the next request, or close it."""
        with self._lock:
            if connection not in self._used:  # the process has forked while it was in use
                connection.socket.close()
                return
            self._used.discard(connection)
            keep = reusable and not self.closed and not connection.stopped
            if keep:
                connection.idle_since = self._clock()
                self._idle.setdefault(connection.key, []).append(connection)
        if not keep:
            connection.socket.close()
        self._slots_of(connection.key).release()

    def close(self) -> None:
        """Close all connections, also those that are being read."""
        with self._lock:
            self.closed = True
            idle = [connection for kept in self._idle.values() for connection in kept]
            self._idle.clear()
            used = list(self._used)
        for connection in idle:
            connection.socket.close()
        for connection in used:
            connection.stop()

    def _slots_of(self, key: PoolKey) -> threading.BoundedSemaphore:
        with self._lock:
            if key not in self._slots:
                self._slots[key] = threading.BoundedSemaphore(self._settings.connections_per_host)
            return self._slots[key]

    def _kept(self, key: PoolKey) -> SyncConnection | None:
        oldest = self._clock() - self._settings.idle_seconds
        while True:
            with self._lock:
                kept = self._idle.get(key)
                connection = kept.pop() if kept else None
            if connection is None:
                return None
            if not connection.is_stale(oldest):
                return connection
            connection.socket.close()


class _Clock:
    """Enforces the time limits of a request through its socket's timeout."""

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
        """The first event has arrived: end its time limit."""
        if self._due != self._end:
            self._due = self._end
            self._allow(self._silence)

    def hurry(self, seconds: float) -> None:
        """Allow at most this time for the rest of the reply."""
        self._due = min(self._due, time.monotonic() + seconds)

    def renew(self) -> None:
        """Before each read: limit the socket's timeout to the time that is left."""
        left = self._due - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if left < self._silence:
            self._allow(left)

    def _allow(self, seconds: float) -> None:
        if self._socket is not None:
            self._socket.settimeout(None if seconds == math.inf else seconds)


class SyncReply:
    """The head of a reply, and its body in the pieces in which it arrives."""

    def __init__(
        self, connection: SyncConnection, parser: ReplyParser, first: bytes, url: str, clock: _Clock
    ) -> None:
        self.status = parser.status
        self.headers = parser.headers
        self.body = self._pieces(first)
        self.complete = False
        self._connection = connection
        self._parser = parser
        self._url = url
        self._clock = clock

    def start(self) -> None:
        """The first event has arrived: end its time limit."""
        self._clock.start()

    def finish(self) -> None:
        """Read the rest of the body after the last event, if it arrives within ``GRACE_SECONDS``."""
        self._clock.hurry(GRACE_SECONDS)
        try:
            for _ in self.body:
                pass
        except ConnectionFailed:
            return

    def _pieces(self, first: bytes) -> Iterator[bytes]:
        begun = False
        trouble: BaseException | str | None = None
        unpacking = decompressor_for(self.headers.get("content-encoding", ""))
        try:
            for data in self._received(first):
                begun = True
                if unpacking is None:
                    yield data
                    continue
                yield from unpacking.pieces(data)
                if unpacking.at_end:
                    break  # data after the compressed body is not read
        except (OSError, zlib.error) as error:
            trouble = error
        if self._connection.stopped:
            trouble = "closed"
        if trouble is not None:
            raise connection_failed(trouble, self._url, before_first_byte=not begun)
        self.complete = self._parser.reusable

    def _received(self, first: bytes) -> Iterator[bytes]:
        """The pieces of the body, without framing."""
        parser = self._parser
        if first:
            yield first
        while not parser.complete:
            data = _receive(self._connection, parser, self._clock)
            if data:
                yield data


def _receive(connection: SyncConnection, parser: ReplyParser, clock: _Clock) -> bytes:
    """Read the next bytes from the socket; return the part of the body that they contain.

    Raises:
        OSError: The connection failed, or the bytes are not valid HTTP.
    """
    if parser.failure is not None:
        raise parser.failure
    clock.renew()
    data = connection.socket.recv(_PIECE)
    if not data:
        parser.end()
        if parser.failure is not None:
            raise parser.failure
        return b""
    body = parser.feed(data)
    if parser.failure is not None and not body:
        raise parser.failure
    return body


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
        watch: Callable[[SyncConnection | None], None] | None = None,
        streamed: bool = False,
    ) -> Generator[SyncReply]:
        """Send the request; the ``with`` block begins when the reply's head has arrived.

        Args:
            request: The request to send.
            watch: Called with the connection before anything is sent, and with ``None`` at the end.
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
            self._pool.give_back(connection, reusable=reply is not None and reply.complete)

    def close(self) -> None:
        """Close all connections; replies that are being read end with ``ConnectionFailed``."""
        self._pool.close()

    def _connect(self, url: str) -> SyncConnection:
        try:
            return self._pool.take(self._pool.key_of(url))
        except OSError as error:
            code = "unreachable" if isinstance(error, TimeoutError) else error
            failure = connection_failed(code, url, before_first_byte=True)
        # Raised outside of the handler, so that the system's error is not the ``__context__`` of ours.
        raise failure

    def _ask(self, connection: SyncConnection, request: HttpRequest, clock: _Clock) -> SyncReply:
        head = request_head(request, connection.key)
        parser = ReplyParser()
        try:
            clock.watch(connection.socket)
            clock.renew()
            # A server may answer and close the connection before it has read the whole request: read its reply.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.socket.sendall(head + request.body)
            first = b""
            while not parser.status:
                first = _receive(connection, parser, clock)
            return SyncReply(connection, parser, first, request.url, clock)
        except OSError as error:
            code = "closed" if connection.stopped else error
            failure = connection_failed(code, request.url, before_first_byte=True)
        raise failure
