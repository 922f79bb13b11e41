"""Requests with ``async``, over aiohttp.

Rules:
1. A reply lives as long as its ``async with`` block. Leaving it in any way, also by cancelling,
   closes the socket at once, unless the reply was read to its end: then the connection is kept.
2. Redirects are not followed: a key is sent to the address it belongs to and nowhere else.
3. Every event loop has connections of its own; those of a loop that is closed are dropped.
4. Network failures leave as ``ConnectionFailed``; nothing of aiohttp is seen outside.
5. Compression is not asked for: a compressed stream arrives in lumps. It is decompressed all the same, in bounded pieces.
6. The time until the first event covers sending, head and everything before ``AsyncReply.start``. One timer ends a request at
   this time, or at that of the whole; aiohttp's own ``total`` would add to the cost of every piece.
"""

import asyncio
import atexit
import contextlib
import ssl
import weakref
import zlib
from collections.abc import Iterator
from io import BytesIO

import aiohttp
from msgspec import Struct
from yarl import URL

from multi_llm_chat.data_limits import Decompressor, decompressor_for
from multi_llm_chat.errors import ConnectionFailed, UsageError
from multi_llm_chat.http._network_failures import Closed, connection_failed
from multi_llm_chat.http._network_settings import Timeouts, TransportSettings, tls_context
from multi_llm_chat.protocol.exchange import HttpRequest

#: Above this size aiohttp wants a body as a file, to send it in pieces.
_LARGE_BODY = 2**19

#: How long the end of a finished reply is waited for, so that its connection can be used again.
GRACE_SECONDS = 0.5

#: Seconds that no request takes; a timer wants a time.
_NEVER = 10.0 * 365 * 24 * 3600

_FAILURES = (aiohttp.ClientError, OSError)  # a TimeoutError is an OSError


class AsyncReply(Struct, frozen=True):
    """The head of a reply, and its body in the pieces in which it arrives."""

    status: int
    headers: dict[str, str]
    body: "_Body"
    response: aiohttp.ClientResponse

    def start(self) -> None:
        """The first event is there: its time limit ends."""
        self.body.deadline.extend()

    async def rest(self, seconds: float) -> None:
        """Read nothing for so long: what arrives stays in the socket, to be read at once."""
        connection = self.response.connection  # None if the whole body is here
        transport = None if connection is None else connection.transport
        if transport is None or transport.is_closing():
            return
        transport.pause_reading()
        try:
            await asyncio.sleep(seconds)
        finally:
            if not transport.is_closing():
                transport.resume_reading()

    async def finish(self) -> None:
        """Read the little that may follow the last event, if it comes soon."""
        if self.body.at_end():  # as a rule: no timer is needed then
            return
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                async for _ in self.body:
                    pass
        except (TimeoutError, ConnectionFailed):
            return


class _Connections:
    """The connections of one event loop, and the bodies that are being read there."""

    def __init__(self, loop: asyncio.AbstractEventLoop, session: aiohttp.ClientSession) -> None:
        self._loop = loop
        self.session = session
        self.bodies: set[aiohttp.StreamReader] = set()
        _UNCLOSED.add(self)

    async def close(self) -> None:
        """Close them, in their own loop."""
        _UNCLOSED.discard(self)
        for body in self.bodies:
            body.set_exception(Closed())  # aiohttp would let its readers wait for ever
        await self.session.close()

    def abandon(self) -> None:
        """Close them from outside of their loop; without this aiohttp complains at the end."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._close_soon)
            return
        # The sockets went with their loop. What is left never waits: one step is all of it.
        _UNCLOSED.discard(self)
        with contextlib.suppress(StopIteration):
            self.session.close().send(None)

    def finish(self) -> None:
        """Close them and wait for it: at the end of the program, while their loop may still run in its thread."""
        if self._loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(self.close(), self._loop)
            with contextlib.suppress(Exception):  # the sockets end with the program in any case
                closing.result(_AT_EXIT)
        else:
            with contextlib.suppress(Exception, StopIteration):
                self.session.close().send(None)

    def _close_soon(self) -> None:
        task = asyncio.ensure_future(self.close())
        _CLOSING.add(task)
        task.add_done_callback(_CLOSING.discard)


_CLOSING: set[asyncio.Task[None]] = set()  # a loop holds its tasks weakly

#: Connections that are not closed: a provider that is never closed is collected together with its session otherwise, and
#: aiohttp complains before the provider can close it.
_UNCLOSED: set[_Connections] = set()

#: Seconds that the end of the program waits for the connections of one loop.
_AT_EXIT = 1.0

#: Transports that a program has not closed; without this aiohttp complains about each at the end.
_OPEN: "weakref.WeakSet[AsyncTransport]" = weakref.WeakSet()


@atexit.register
def _close_open() -> None:
    for transport in tuple(_OPEN):
        transport.finish()


class AsyncTransport:
    """Sends requests and keeps connections."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self.timeouts = settings.timeouts
        self._connections: dict[asyncio.AbstractEventLoop, _Connections] = {}
        self.closed = False
        _OPEN.add(self)

    def __repr__(self) -> str:
        return f"AsyncTransport({self._settings!r})"

    def __del__(self) -> None:
        self.close()

    def send(self, request: HttpRequest, *, streamed: bool = False) -> "_Sent":
        """Send the request; the block of ``async with`` begins when the reply's head is there.

        Args:
            request: What to send.
            streamed: Whether the reply is a stream, so that its first event has a time limit of its own.
        """
        if self.closed:
            raise UsageError("This transport is closed")
        return _Sent(self, request, streamed=streamed)

    def close(self) -> None:
        """Close all connections from any thread, each in its own loop, without waiting for it."""
        self.closed = True
        all_connections, self._connections = self._connections, {}
        for connections in all_connections.values():
            connections.abandon()

    def finish(self) -> None:
        """Close all connections at the end of the program."""
        self.closed = True
        all_connections, self._connections = self._connections, {}
        for connections in all_connections.values():
            connections.finish()

    async def aclose(self) -> None:
        """Close all connections; replies that are being read end with ``ConnectionFailed``."""
        self.closed = True
        all_connections, self._connections = self._connections, {}
        here = asyncio.get_running_loop()
        for loop, connections in all_connections.items():
            if loop is here:
                await connections.close()
            else:
                connections.abandon()

    async def reply_head(
        self, request: HttpRequest, session: aiohttp.ClientSession, deadline: "_Deadline"
    ) -> aiohttp.ClientResponse:
        """Send the request and wait for the head of its reply.

        Raises:
            ConnectionFailed: There is none.
        """
        url = request.url
        proxy = self._settings.proxy_for(url)
        try:
            return await session.request(
                request.method,
                URL(url, encoded=True),
                data=BytesIO(request.body) if len(request.body) > _LARGE_BODY else request.body,
                headers={"Accept-Encoding": "identity"} | request.headers,
                allow_redirects=False,
                proxy=proxy,
                ssl=self._tls(url),
            )
        except asyncio.CancelledError:
            if not deadline.has_cancelled():
                raise
            failure = connection_failed(TimeoutError(), url, before_first_byte=True)
        except aiohttp.ClientHttpProxyError:
            failure = connection_failed("proxy", url, before_first_byte=True)
        except aiohttp.ConnectionTimeoutError:
            failure = connection_failed("unreachable", url, before_first_byte=True)
        except _FAILURES as error:
            code = "closed" if self.closed else error
            failure = connection_failed(code, url, before_first_byte=True)
        # Outside of the handlers: aiohttp's errors hold the request's headers, and must not be
        # reachable from ours through ``__context__``.
        raise failure

    def connections(self) -> _Connections:
        """The connections of the running loop."""
        loop = asyncio.get_running_loop()
        connections = self._connections.get(loop)
        if connections is None:
            for other in [known for known in self._connections if known.is_closed()]:
                self._connections.pop(other).abandon()
            connections = self._connections[loop] = _Connections(loop, self._open())
        return connections

    def _open(self) -> aiohttp.ClientSession:
        settings, timeouts = self._settings, self._settings.timeouts
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                limit_per_host=settings.connections_per_host,
                keepalive_timeout=settings.idle_seconds,
            ),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=timeouts.connect, sock_read=timeouts.read
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "multi_llm_chat"},
        )

    def _tls(self, url: str) -> bool | ssl.SSLContext:
        if not url.startswith("https:"):
            return True
        return tls_context(self._settings.ca_file, self._settings.ca_directory)


class _Sent:
    """A request that is being sent, and its reply; a class and not a generator, which would cost more than the rest of it."""

    __slots__ = ("_connections", "_deadline", "_request", "_response", "_transport")

    def __init__(self, transport: AsyncTransport, request: HttpRequest, *, streamed: bool) -> None:
        self._transport = transport
        self._request = request
        self._connections = transport.connections()
        self._deadline = _Deadline(transport.timeouts, streamed=streamed)

    async def __aenter__(self) -> AsyncReply:
        transport, request, deadline = self._transport, self._request, self._deadline
        deadline.start()
        response: aiohttp.ClientResponse | None = None
        try:
            response = await transport.reply_head(request, self._connections.session, deadline)
            if transport.closed:  # in the moment in which the head arrived
                raise connection_failed("closed", request.url, before_first_byte=True)
            headers = {name.lower(): value for name, value in response.headers.items()}
            decompressor = decompressor_for(headers.get("content-encoding", ""))
        except BaseException:
            if response is not None:
                response.close()
            deadline.stop()
            raise
        self._response = response
        content = response.content
        # aiohttp calls its parser again for every piece that is taken while less than this is left; all are taken at once.
        with contextlib.suppress(AttributeError):
            content._low_water = 1  # pyright: ignore[reportPrivateUsage]
        deadline.begin_body(content)
        # aiohttp would set a timer anew for every piece; the deadline watches the silence between two of them.
        if response.connection is not None and response.connection.protocol is not None:
            response.connection.protocol.read_timeout = None
        self._connections.bodies.add(content)
        if decompressor is None:
            body = _Body(content, request.url, deadline)
        else:
            body = _CompressedBody(content, request.url, deadline, decompressor)
        return AsyncReply(response.status, headers, body, response)

    async def __aexit__(self, *_: object) -> None:
        self._connections.bodies.discard(self._response.content)
        self._response.close()
        self._deadline.stop()


class _Deadline:
    """The time at which a request ends: it cancels the wait for the head, and breaks the body off. One timer for all limits."""

    __slots__ = (
        "_at",
        "_body",
        "_cancellations",
        "_is_over",
        "_silence",
        "_task",
        "_timer",
        "_whole",
        "loop",
        "waits_since",
    )

    def __init__(self, timeouts: Timeouts, *, streamed: bool) -> None:
        self.loop = asyncio.get_running_loop()
        now = self.loop.time()
        self._whole = now + (_NEVER if timeouts.total is None else timeouts.total)
        self._silence = _NEVER if timeouts.read is None else timeouts.read
        first = timeouts.first_event if streamed else None
        self._at = self._whole if first is None else min(now + first, self._whole)
        self._task = asyncio.current_task(self.loop)
        self._cancellations = 0 if self._task is None else self._task.cancelling()
        self._is_over = False
        self._body: aiohttp.StreamReader | None = None
        #: When the wait for the next piece of the body began; zero between two waits.
        self.waits_since = 0.0

    def start(self) -> None:
        """Start the timer."""
        self._timer = self.loop.call_at(self._at, self._check)

    def begin_body(self, body: aiohttp.StreamReader) -> None:
        """The head is there: from now on the deadline ends the body."""
        self._body = body
        if self._silence < self._timer.when() - self.loop.time():
            self._timer.cancel()
            self._timer = self.loop.call_later(self._silence, self._check)

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def extend(self) -> None:
        """The first event is there: from now on the time of the whole request holds."""
        self._at = self._whole

    def has_cancelled(self) -> bool:
        """Whether the task was cancelled because the time is over, and for no other reason."""
        if not self._is_over or self._task is None:
            return False
        return self._task.uncancel() <= self._cancellations

    def _check(self) -> None:
        now = self.loop.time()
        silent_at = (self.waits_since or now) + self._silence
        end = self._at if self._body is None else min(self._at, silent_at)
        if now < end:
            self._timer = self.loop.call_at(end, self._check)
        elif self._body is not None:
            self._body.set_exception(TimeoutError())
        elif self._task is not None:
            self._is_over = True
            self._task.cancel()


class _Body:
    """The pieces of a body; a class and not a generator, to add nothing to the cost of a piece."""

    __slots__ = ("_begun", "_read", "_url", "at_end", "deadline")

    def __init__(self, content: aiohttp.StreamReader, url: str, deadline: _Deadline) -> None:
        self._read = content.readany
        self.deadline = deadline
        self.at_end = content.at_eof
        self._url = url
        self._begun = False

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        deadline = self.deadline
        deadline.waits_since = deadline.loop.time()
        try:
            data = await self._read()
        except _FAILURES as error:
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
        self,
        content: aiohttp.StreamReader,
        url: str,
        deadline: _Deadline,
        decompressor: Decompressor,
    ) -> None:
        super().__init__(content, url, deadline)
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
