"""The connections of one event loop: each carries one request at a time, and is kept for the next.

Rules:
1. A connection belongs to one loop, and only that loop's thread touches it; other threads schedule ``Connections.close``.
2. At most ``connections_per_host`` connections with one key are open; a caller that needs one more waits.
3. A connection is kept only if its last reply was complete, and for ``idle_seconds``. An idle connection is closed at once if
   the server closes it or sends unrequested data.
4. The buffer of unread data is bounded: above ``_MOST_UNREAD`` bytes the socket is not read.
5. A large body is sent in pieces, each after the one before has left the write buffer; if the server answers before the whole
   body is sent, sending stops and the reply is read.
6. If a reply fails for any reason, the task that waits for it gets one exception: the first that was passed to ``fail``.
7. A loop's connections are closed before the loop is, even if the program closes nothing: the loop closes ``_shutdown_hook`` in
   ``shutdown_asyncgens``, which ``asyncio.run`` calls. After its loop has ended, asyncio cannot close a socket any more.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from asyncio import BaseEventLoop
from collections import deque
from collections.abc import AsyncGenerator
from typing import TypedDict, cast

from multi_llm_chat.http._network_failures import Closed, NotReached, ProxyRefused
from multi_llm_chat.http._network_settings import (
    PoolKey,
    TransportSettings,
    proxy_address,
    tls_context,
)
from multi_llm_chat.http.http1 import ReplyParser, tunnel_head

#: The most bytes of a body that have arrived and were not yet read.
_MOST_UNREAD = 2**18
#: The most bytes that are read from a socket at once.
_BUFFER = 2**18
#: The size in bytes of the pieces in which a larger body is sent.
_PIECE = 2**18
#: Seconds between the connection attempts to two addresses of a host (RFC 8305, 5).
_NEXT_ADDRESS = 0.25


class _ConnectOptions(TypedDict, total=False):
    happy_eyeballs_delay: float


class AsyncConnection(asyncio.BufferedProtocol):
    """One connection to a server."""

    def __init__(self, key: PoolKey, connections: "Connections") -> None:
        self.key = key
        self.idle_since = 0.0
        self._connections = connections
        self._loop = connections.loop
        self._buffer = connections.buffer
        self._transport: asyncio.Transport | None = None
        self._parser: ReplyParser | None = None
        self._unread: list[bytes] = []
        self._size = 0
        self._failure: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._is_paused = False
        self._is_resting = False
        self._writable = True
        self._is_sent = False

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; called a second time when TLS starts inside a proxy's tunnel."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the loop's next read.

        All connections share it: the loop calls ``buffer_updated`` in the same step, before it reads another socket.
        """
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes of the reply."""
        data = bytes(self._buffer[:nbytes])
        parser = self._parser
        if parser is None:  # data without a request
            self.abort()
            return
        body = parser.feed(data)
        if body:
            self._unread.append(body)
            self._size += len(body)
            if self._size > _MOST_UNREAD and not self._is_paused:
                self._is_paused = True
                self._pause()
        if parser.failure is not None:
            self.fail(parser.failure)
        self._wake()

    def eof_received(self) -> bool:
        """The server sends no more data."""
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection was lost or closed."""
        self._end(exc)
        self._writable = True
        self._wake()
        self._connections.forget(self)

    def pause_writing(self) -> None:
        """The server reads more slowly than we write."""
        self._writable = False

    def resume_writing(self) -> None:
        """The server has read enough that we can continue to write."""
        self._writable = True
        self._wake()

    # What the user of the connection calls.

    async def send(self, head: bytes, body: bytes) -> ReplyParser:
        """Send a request; return the parser of its reply when the reply's head has arrived.

        Raises:
            OSError: The connection failed.
        """
        parser = self._parser = ReplyParser()
        transport = self._transport
        assert transport is not None
        if len(body) <= _PIECE:
            transport.write(head + body)
            self._is_sent = True
        else:
            self._is_sent = await self._send_in_pieces(transport, head, memoryview(body), parser)
        while not parser.status:
            await self._wait()
        return parser

    async def _send_in_pieces(
        self, transport: asyncio.Transport, head: bytes, body: memoryview, parser: ReplyParser
    ) -> bool:
        """Send the request; return whether all of it was sent before the server answered."""
        transport.write(head)
        for at in range(0, len(body), _PIECE):
            transport.write(body[at : at + _PIECE])
            while not self._writable and not parser.status:
                await self._wait()
            if parser.status:  # usually an error: the request is too large
                return False
        return True

    async def read(self) -> bytes:
        """The part of the body that has arrived, or else the next part; empty at the end of the body.

        Raises:
            OSError: The connection failed.
        """
        while not self._unread:
            if self._parser is None or self._parser.complete:
                return b""
            await self._wait()
        return self.take()

    def take(self) -> bytes:
        """The unread part of the body that has arrived; does not wait."""
        unread = self._unread
        if not unread:
            return b""
        data = unread[0] if len(unread) == 1 else b"".join(unread)
        unread.clear()
        self._size = 0
        if self._is_paused:
            self._is_paused = False
            self._resume()
        return data

    @property
    def at_end(self) -> bool:
        """Whether the whole body was read."""
        return not self._unread and self._parser is not None and self._parser.complete

    @property
    def is_open(self) -> bool:
        """Whether the socket is open."""
        return self._transport is not None and not self._transport.is_closing()

    async def rest(self, seconds: float) -> None:
        """Do not read the socket for this time."""
        if self.at_end or not self.is_open:
            return
        self._is_resting = True
        self._pause()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._is_resting = False
            self._resume()

    def fail(self, failure: Exception) -> None:
        """Close the connection; its reader gets the failure after the data that has arrived."""
        if self._failure is None:
            self._failure = failure
        self.abort()
        self._wake()

    def abort(self) -> None:
        """Close the socket at once."""
        if self._transport is not None:
            self._transport.abort()

    def release(self) -> bool:
        """End the use of the connection; return whether it can be used again."""
        parser, self._parser = self._parser, None
        self._unread.clear()
        self._size = 0
        if self._is_paused:
            self._is_paused = False
            self._resume()
        is_whole = parser is not None and parser.reusable and self._is_sent
        return is_whole and self._failure is None and self.is_open

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Start TLS on the connection."""
        assert self._transport is not None
        self._parser = None
        made = await self._loop.start_tls(self._transport, self, context, server_hostname=host)
        assert made is not None
        self._transport = made

    def _end(self, reason: Exception | None = None) -> None:
        parser = self._parser
        if parser is None or parser.complete or self._failure is not None:
            return
        parser.end()
        self._failure = parser.failure if reason is None else reason
        self._wake()

    async def _wait(self) -> None:
        """Wait for the next change of the connection's state; raise its failure if there is one."""
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _resume(self) -> None:
        is_held = self._is_paused or self._is_resting
        if not is_held and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


class Connections:
    """The connections of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: TransportSettings) -> None:
        self.loop = loop
        #: The buffer into which all connections of the loop read. A new buffer for each read would cost more than the read.
        self.buffer = memoryview(bytearray(_BUFFER))
        self._settings = settings
        self._idle: dict[PoolKey, list[AsyncConnection]] = {}
        self._open: dict[PoolKey, int] = {}
        self._waiting: dict[PoolKey, deque[asyncio.Future[None]]] = {}
        self._used: set[AsyncConnection] = set()
        self._cleaner: asyncio.TimerHandle | None = None
        self.closed = False
        self._hook = self._shutdown_hook()
        # Runs the hook to its yield, which registers it with the loop.
        with contextlib.suppress(StopIteration):
            anext(self._hook).send(None)

    async def _shutdown_hook(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._close_all()

    def kept(self, key: PoolKey) -> AsyncConnection | None:
        """Take an idle connection, None if there is none; the caller must return it with ``give_back``."""
        kept = self._idle.get(key)
        oldest = self.loop.time() - self._settings.idle_seconds
        while kept:
            connection = kept.pop()
            if connection.is_open and connection.idle_since >= oldest:
                self._used.add(connection)
                return connection
            connection.abort()
            self._open[key] -= 1
        return None

    async def open(self, key: PoolKey) -> AsyncConnection:
        """Open a connection, or wait for one if too many are open; the caller must return it with ``give_back``.

        Raises:
            OSError: The server cannot be reached.
        """
        while self._open.get(key, 0) >= self._settings.connections_per_host:
            await self._wait_for_place(key)
            kept = self.kept(key)
            if kept is not None:
                return kept
        self._open[key] = self._open.get(key, 0) + 1
        connection = AsyncConnection(key, self)
        self._used.add(connection)
        try:
            await self._connect(connection)
            if self.closed:
                raise Closed
        except BaseException:
            self.give_back(connection)
            raise
        return connection

    def give_back(self, connection: AsyncConnection) -> None:
        """Keep the connection for the next request, or close it."""
        self._used.discard(connection)
        key = connection.key
        if connection.release() and not self.closed:
            connection.idle_since = self.loop.time()
            self._idle.setdefault(key, []).append(connection)
            if self._cleaner is None:
                self._cleaner = self.loop.call_later(self._settings.idle_seconds, self._clean)
        else:
            connection.abort()
            self._open[key] -= 1
        self._give_place(key)

    def forget(self, connection: AsyncConnection) -> None:
        """Remove a lost connection from the idle ones; its user returns one that is in use."""
        kept = self._idle.get(connection.key)
        if kept and connection in kept:
            kept.remove(connection)
            self._open[connection.key] -= 1
            self._give_place(connection.key)

    def close(self) -> None:
        """Close all connections; replies that are being read end with ``Closed``."""
        with contextlib.suppress(StopIteration):
            self._hook.aclose().send(None)

    def _close_all(self) -> None:
        self.closed = True
        if self._cleaner is not None:
            self._cleaner.cancel()
            self._cleaner = None
        for connection in list(self._used):
            connection.fail(Closed())
        idle, self._idle = self._idle, {}
        for connection in [each for kept in idle.values() for each in kept]:
            connection.abort()
        for waiter in [each for waiting in self._waiting.values() for each in waiting]:
            if not waiter.done():
                waiter.set_exception(Closed())

    def _clean(self) -> None:
        """Close the connections that have been idle for too long."""
        self._cleaner = None
        oldest = self.loop.time() - self._settings.idle_seconds
        for key, kept in self._idle.items():
            for connection in [each for each in kept if each.idle_since <= oldest]:
                kept.remove(connection)
                connection.abort()
                self._open[key] -= 1
        if any(self._idle.values()):
            self._cleaner = self.loop.call_later(self._settings.idle_seconds, self._clean)

    async def _wait_for_place(self, key: PoolKey) -> None:
        waiter = self.loop.create_future()
        waiting = self._waiting.setdefault(key, deque())
        waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give_place(key)  # the cancelled waiter had received the place: pass it on
            raise
        finally:
            with contextlib.suppress(ValueError):
                waiting.remove(waiter)

    def _give_place(self, key: PoolKey) -> None:
        for waiter in self._waiting.get(key, ()):
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _connect(self, connection: AsyncConnection) -> None:
        """Open the socket, through the proxy if there is one, and start TLS for an ``https`` address."""
        key, settings = connection.key, self._settings
        context = None
        if key.scheme == "https":
            context = tls_context(settings.ca_file, settings.ca_directory)
        proxy = key.proxy
        try:
            async with asyncio.timeout(settings.timeouts.connect):
                if proxy is None:
                    await self._open_socket(connection, key.host, key.port, context)
                    return
                host, port = proxy_address(proxy)
                await self._open_socket(connection, host, port, None)
                if context is not None:
                    await self._open_tunnel(connection)
                    await connection.secure(context, key.host)
        except TimeoutError:
            raise NotReached from None

    async def _open_socket(
        self, connection: AsyncConnection, host: str, port: int, context: ssl.SSLContext | None
    ) -> None:
        server = host if context is not None else None
        options: _ConnectOptions = {}
        # A numeric address has no second address to try. Other loops, such as uvloop's, lack this parameter of asyncio's.
        if not (host[-1:].isdigit() or ":" in host) and isinstance(self.loop, BaseEventLoop):
            options["happy_eyeballs_delay"] = _NEXT_ADDRESS
        try:
            transport, _ = await self.loop.create_connection(
                lambda: connection, host, port, ssl=context, server_hostname=server, **options
            )
        except OSError as error:
            # If several addresses fail, asyncio joins the reasons in one text.
            if type(error) is OSError and f"[Errno {errno.ECONNREFUSED}]" in str(error):
                raise ConnectionRefusedError from None
            raise
        found: socket.socket | None = transport.get_extra_info("socket")
        if found is not None:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    async def _open_tunnel(self, connection: AsyncConnection) -> None:
        """Ask the proxy for a connection to the server (RFC 9110, 9.3.6)."""
        reply = await connection.send(tunnel_head(connection.key), b"")
        if reply.status != 200:
            raise ProxyRefused
