"""The connections of one event loop: each carries one request at a time, and is kept for the next.

Rules:
1. A connection belongs to one loop, and only that loop's thread touches it; others schedule ``Connections.close``.
2. At most ``connections_per_host`` connections with one key are open; a caller that needs one more waits.
3. A connection is kept only in good order, and for ``idle_seconds``; one that the server closes, or on which it says
   something unasked, is dropped at once.
4. What arrives before it is read is bounded: above ``_MOST_UNREAD`` bytes nothing more is taken from the socket.
5. A large body is sent in pieces, each when the one before has left; a server that answers meanwhile is heard.
6. A reply that fails, for any reason, fails once for the task that waits for it: ``fail`` gives the reason.
7. The connections of a loop are closed before it is, also by a program that closes nothing: the loop closes ``_shutdown_hook`` in
   ``shutdown_asyncgens``, which ``asyncio.run`` calls. Behind the end of a loop asyncio cannot close a socket any more.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from typing import cast

from multi_llm_chat.http._network_failures import Closed, NotReached, ProxyRefused
from multi_llm_chat.http._network_settings import (
    PoolKey,
    TransportSettings,
    proxy_address,
    tls_context,
)
from multi_llm_chat.http.http1 import ReplyParser, tunnel_head

#: Bytes that arrived and were not read.
_MOST_UNREAD = 2**18
#: Bytes that are read from a socket at once.
_BUFFER = 2**18
#: A body above this size is sent in pieces of it.
_PIECE = 2**18
#: Seconds between the first tries of two addresses of a host (RFC 8305, 5).
_NEXT_ADDRESS = 0.25


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
        """Begin; with TLS inside of a proxy's connection, again."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the loop puts what it reads, until it calls ``buffer_updated``: in the same step, so one buffer is enough."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take bytes of the reply."""
        data = bytes(self._buffer[:nbytes])
        parser = self._parser
        if parser is None:  # nobody asked
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
        """The server will send no more."""
        self._end()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._end(exc)
        self._writable = True
        self._wake()
        self._connections.forget(self)

    def pause_writing(self) -> None:
        """The server reads more slowly than we write."""
        self._writable = False

    def resume_writing(self) -> None:
        """The server has caught up."""
        self._writable = True
        self._wake()

    # What the user of the connection calls.

    async def send(self, head: bytes, body: bytes) -> ReplyParser:
        """Send a request; return the parser of its reply when the head is there.

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
        """Send the request; whether all of it was sent before the server answered."""
        transport.write(head)
        for at in range(0, len(body), _PIECE):
            transport.write(body[at : at + _PIECE])
            while not self._writable and not parser.status:
                await self._wait()
            if parser.status:  # as a rule, that the request is too large
                return False
        return True

    async def read(self) -> bytes:
        """What has arrived of the body, or arrives next; empty at its end.

        Raises:
            OSError: The connection failed.
        """
        while not self._unread:
            if self._parser is None or self._parser.complete:
                return b""
            await self._wait()
        return self.take()

    def take(self) -> bytes:
        """What has arrived of the body."""
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
        """Whether more can arrive."""
        return self._transport is not None and not self._transport.is_closing()

    async def rest(self, seconds: float) -> None:
        """Take nothing from the socket for so long."""
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
        """Close the connection; its reader gets the failure, behind what has arrived."""
        if self._failure is None:
            self._failure = failure
        self.abort()
        self._wake()

    def abort(self) -> None:
        """Close the socket at once."""
        if self._transport is not None:
            self._transport.abort()

    def release(self) -> bool:
        """End the use of the connection; whether it can be used again."""
        parser, self._parser = self._parser, None
        self._unread.clear()
        self._size = 0
        if self._is_paused:
            self._is_paused = False
            self._resume()
        is_whole = parser is not None and parser.reusable and self._is_sent
        return is_whole and self._failure is None and self.is_open

    async def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Speak TLS from now on."""
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
        """Wait until something has changed."""
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
        #: What every connection of the loop is read into. A buffer for each read, as asyncio has it, costs more than the read.
        self.buffer = memoryview(bytearray(_BUFFER))
        self._settings = settings
        self._idle: dict[PoolKey, list[AsyncConnection]] = {}
        self._open: dict[PoolKey, int] = {}
        self._waiting: dict[PoolKey, deque[asyncio.Future[None]]] = {}
        self._used: set[AsyncConnection] = set()
        self._cleaner: asyncio.TimerHandle | None = None
        self.closed = False
        self._hook = self._shutdown_hook()
        with contextlib.suppress(StopIteration):  # it has reached its yield: the loop knows it now
            anext(self._hook).send(None)

    async def _shutdown_hook(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._close_all()

    def kept(self, key: PoolKey) -> AsyncConnection | None:
        """A connection that was used before and is ready for a request; it must be given back."""
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
        """A connection that is ready for a request; it must be given back.

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
        """A connection was lost; one that is in use is given back by its user."""
        kept = self._idle.get(connection.key)
        if kept and connection in kept:
            kept.remove(connection)
            self._open[connection.key] -= 1
            self._give_place(connection.key)

    def close(self) -> None:
        """Close all; replies that are being read end with ``Closed``."""
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
        """Close what was not used for long."""
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
                self._give_place(key)  # the place was given to someone who left
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
        """Open the socket, through the proxy if there is one, and speak TLS on it if the address says so."""
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
        try:
            transport, _ = await self.loop.create_connection(
                lambda: connection,
                host,
                port,
                ssl=context,
                server_hostname=server,
                # An address has no other to try.
                happy_eyeballs_delay=None if host[-1:].isdigit() or ":" in host else _NEXT_ADDRESS,
            )
        except OSError as error:
            # Of several addresses asyncio tells the reasons in one text.
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
