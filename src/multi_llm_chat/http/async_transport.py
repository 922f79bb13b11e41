"""Requests with ``async``, over HTTP/1.1 on asyncio's sockets.

Rules:
1. A reply is valid inside its ``async with`` block. Leaving the block in any way, including cancellation,
   closes the socket at once, unless the reply was read to its end: then the connection is kept.
2. Redirects are not followed: a key is sent to the address it belongs to and nowhere else.
3. Every event loop has its own connections, which are closed before the loop is. A forked process leaves them, with their loops, to its
   parent.
4. Network failures are raised as ``ConnectionFailed``.
5. Requests do not ask for compression, because a compressed stream arrives in large pieces. A compressed reply is still
   decompressed, in pieces of bounded size.
6. One timer enforces all time limits of a request: that of the first event (it covers sending, head and everything before
   ``AsyncReply.start``), that of the whole request, and that of silence. When it fires, it fails the connection and wakes the
   task that waits for it.

Why no library: decision 16 (docs/decisions).
"""

import asyncio
import atexit
import contextlib
import os
import weakref
import zlib
from collections.abc import Iterator

from msgspec import Struct

from multi_llm_chat.data_limits import Decompressor, decompressor_for
from multi_llm_chat.errors import ConnectionFailed, UsageError
from multi_llm_chat.http._async_connections import AsyncConnection, Connections
from multi_llm_chat.http._network_failures import Closed, connection_failed
from multi_llm_chat.http._network_settings import PoolKey, Timeouts, TransportSettings
from multi_llm_chat.http.http1 import read_address, request_head
from multi_llm_chat.protocol.exchange import HttpRequest

#: Seconds to wait for the end of a finished reply's body, so that its connection can be used again.
GRACE_SECONDS = 0.5

#: A time that no request reaches, in seconds: the timer needs a time even if there is no limit.
_NEVER = 10.0 * 365 * 24 * 3600

#: Seconds to wait at exit until the connections of one loop are closed.
_AT_EXIT = 1.0


class AsyncReply(Struct, frozen=True):
    """The head of a reply, and its body in the pieces in which it arrives."""

    status: int
    headers: dict[str, str]
    body: "_Body"

    def start(self) -> None:
        """The first event has arrived: end its time limit."""
        self.body.deadline.extend()

    async def rest(self, seconds: float) -> None:
        """Do not read for this time: data that arrives stays in the socket and is then read at once."""
        await self.body.connection.rest(seconds)

    async def finish(self) -> None:
        """Read the rest of the body after the last event, if it arrives within ``GRACE_SECONDS``."""
        if self.body.connection.at_end:  # the usual case, which needs no timer
            return
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                async for _ in self.body:
                    pass
        except (TimeoutError, ConnectionFailed):
            return


#: Transports that a program has not closed.
_OPEN: "weakref.WeakSet[AsyncTransport]" = weakref.WeakSet()


#: In a forked process, the connections of its parent: collecting them would call their loops.
_OF_PARENT: "list[object]" = []


@atexit.register
def _close_open() -> None:
    for transport in tuple(_OPEN):
        transport.finish()


def _leave_to_parent() -> None:
    for transport in tuple(_OPEN):
        transport.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class AsyncTransport:
    """Sends requests and keeps connections."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self.timeouts = settings.timeouts
        self._connections: dict[asyncio.AbstractEventLoop, Connections] = {}
        self.closed = False
        _OPEN.add(self)

    def __repr__(self) -> str:
        return f"AsyncTransport({self._settings!r})"

    def __del__(self) -> None:
        self.close()

    def send(self, request: HttpRequest, *, streamed: bool = False) -> "_Sent":
        """Send the request; the ``async with`` block begins when the reply's head has arrived.

        Args:
            request: The request to send.
            streamed: Whether the reply is a stream, so that its first event has a time limit of its own.
        """
        if self.closed:
            raise UsageError("This transport is closed")
        return _Sent(self, request, streamed=streamed)

    def close(self) -> None:
        """Close all connections, each in its own loop, without waiting for it; any thread may call this."""
        for connections in self._end():
            _abandon(connections)

    def finish(self) -> None:
        """Close all connections at the end of the program, while their loop may still run in its thread."""
        for connections in self._end():
            if connections.loop.is_running():
                closing = asyncio.run_coroutine_threadsafe(_close(connections), connections.loop)
                # The operating system closes the sockets in any case.
                with contextlib.suppress(Exception):
                    closing.result(_AT_EXIT)

    def leave_to_parent(self) -> None:
        """Start without connections, in a forked process."""
        _OF_PARENT.append(self._connections)
        self._connections = {}

    async def aclose(self) -> None:
        """Close all connections; replies that are being read end with ``ConnectionFailed``."""
        here = asyncio.get_running_loop()
        for connections in self._end():
            if connections.loop is here:
                await _close(connections)
            else:
                _abandon(connections)

    def _end(self) -> list[Connections]:
        self.closed = True
        all_connections, self._connections = self._connections, {}
        return list(all_connections.values())

    def connections(self) -> Connections:
        """The connections of the running loop."""
        loop = asyncio.get_running_loop()
        connections = self._connections.get(loop)
        if connections is None or connections.closed:  # the latter while the loop shuts down
            for other in [known for known in self._connections if known.is_closed()]:
                del self._connections[other]
            connections = self._connections[loop] = Connections(loop, self._settings)
        return connections

    def key_of(self, url: str) -> PoolKey:
        """The key of the connections that lead to this address."""
        address = read_address(url)
        proxy = self._settings.proxy_for(url)
        return PoolKey(address.scheme, address.host, address.port, proxy)


async def _close(connections: Connections) -> None:
    connections.close()
    # Asyncio closes the sockets of aborted connections in the loop's next step.
    await asyncio.sleep(0)


def _abandon(connections: Connections) -> None:
    """Schedule the closing of connections in their loop, from another thread."""
    with contextlib.suppress(RuntimeError):  # the loop is already closed, and so are they
        connections.loop.call_soon_threadsafe(connections.close)


class _Sent:
    """The context manager of one request and its reply; a class, because a generator would cost more than all its other work."""

    __slots__ = ("_connection", "_connections", "_deadline", "_request", "_transport")

    def __init__(self, transport: AsyncTransport, request: HttpRequest, *, streamed: bool) -> None:
        self._transport = transport
        self._request = request
        self._connections = transport.connections()
        self._deadline = _Deadline(self._connections.loop, transport.timeouts, streamed=streamed)

    async def __aenter__(self) -> AsyncReply:
        request, deadline, connections = self._request, self._deadline, self._connections
        key = self._transport.key_of(request.url)
        head = request_head(request, key)
        connection: AsyncConnection | None = None
        try:
            connection = connections.kept(key)
            if connection is None:
                async with asyncio.timeout_at(deadline.at):
                    connection = await connections.open(key)
            deadline.start(connection)
            parser = await connection.send(head, request.body)
            if self._transport.closed:  # while the head arrived
                raise Closed
            decompressor = decompressor_for(parser.headers.get("content-encoding", ""))
        except BaseException as error:
            deadline.stop()
            if connection is not None:
                connections.give_back(connection)
            if not isinstance(error, OSError):
                raise
            failure = connection_failed(error, request.url, before_first_byte=True)
        else:
            self._connection = connection
            deadline.waits_since = 0.0
            if decompressor is None:
                body = _Body(connection, request.url, deadline)
            else:
                body = _CompressedBody(connection, request.url, deadline, decompressor)
            return AsyncReply(parser.status, parser.headers, body)
        # Raised outside of the handler, so that the system's error is not the ``__context__`` of ours.
        raise failure

    async def __aexit__(self, *_: object) -> None:
        self._deadline.stop()
        self._connections.give_back(self._connection)


class _Deadline:
    """The time at which a request ends. One timer for all limits."""

    __slots__ = ("_connection", "_silence", "_timer", "_whole", "at", "loop", "waits_since")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timeouts: Timeouts, *, streamed: bool
    ) -> None:
        self.loop = loop
        now = loop.time()
        self._whole = now + (_NEVER if timeouts.total is None else timeouts.total)
        self._silence = _NEVER if timeouts.read is None else timeouts.read
        first = timeouts.first_event if streamed else None
        #: The loop time at which the request times out, apart from the limit of silence.
        self.at = self._whole if first is None else min(now + first, self._whole)
        #: When the wait for the head or the next piece of the body began; zero between two waits.
        self.waits_since = now
        self._connection: AsyncConnection | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, connection: AsyncConnection) -> None:
        """Start the timer, which fails this connection when a limit is exceeded."""
        self._connection = connection
        self.waits_since = now = self.loop.time()
        self._timer = self.loop.call_at(min(self.at, now + self._silence), self._check)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def extend(self) -> None:
        """The first event has arrived: from now on, the limit of the whole request applies."""
        self.at = self._whole

    def _check(self) -> None:
        now = self.loop.time()
        end = min(self.at, (self.waits_since or now) + self._silence)
        if now < end:
            self._timer = self.loop.call_at(end, self._check)
        elif self._connection is not None:
            self._connection.fail(TimeoutError())


class _Body:
    """The pieces of a body; a class, because a generator would make each piece slower."""

    __slots__ = ("_begun", "_url", "connection", "deadline")

    def __init__(self, connection: AsyncConnection, url: str, deadline: _Deadline) -> None:
        self.connection = connection
        self.deadline = deadline
        self._url = url
        self._begun = False

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        data = self.connection.take()
        if data:
            self._begun = True
            return data
        deadline = self.deadline
        deadline.waits_since = deadline.loop.time()
        try:
            data = await self.connection.read()
        except OSError as error:
            failure = connection_failed(error, self._url, before_first_byte=not self._begun)
        else:
            deadline.waits_since = 0.0
            if data:
                self._begun = True
                return data
            raise StopAsyncIteration
        raise failure


class _CompressedBody(_Body):
    """The pieces of a compressed body, decompressed."""

    __slots__ = ("_decompressor", "_pieces")

    def __init__(
        self, connection: AsyncConnection, url: str, deadline: _Deadline, decompressor: Decompressor
    ) -> None:
        super().__init__(connection, url, deadline)
        self._decompressor = decompressor
        self._pieces: Iterator[bytes] = iter(())

    async def __anext__(self) -> bytes:
        broken = False
        while not broken:
            try:
                for piece in self._pieces:
                    if piece:
                        return piece
            except zlib.error:
                broken = True
                continue
            if self._decompressor.at_end:
                raise StopAsyncIteration
            self._pieces = self._decompressor.pieces(await super().__anext__())
        raise connection_failed("lost", self._url, before_first_byte=not self._begun)
