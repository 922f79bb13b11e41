"""Requests with ``async``, over aiohttp.

Rules:
1. A reply lives as long as its ``async with`` block. Leaving it in any way, also by cancelling,
   closes the socket at once, unless the reply was read to its end: then the connection is kept.
2. Redirects are not followed: a key is sent to the address it belongs to and nowhere else.
3. Every event loop has connections of its own; those of a loop that is closed are dropped.
4. Network failures leave as ``ConnectionFailed``; nothing of aiohttp is seen outside.
5. Compression is not asked for: a compressed stream arrives in lumps.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from io import BytesIO

import aiohttp
from msgspec import Struct
from yarl import URL

from multi_llm_chat.errors import ConnectionFailed, UsageError
from multi_llm_chat.exchange.exchange import HttpRequest
from multi_llm_chat.transport.certificates import tls_context
from multi_llm_chat.transport.failures import connection_failed
from multi_llm_chat.transport.settings import TransportSettings

#: Above this size aiohttp wants a body as a file, to send it in pieces.
_LARGE_BODY = 2**19

#: How long the end of a finished reply is waited for, so that its connection can be used again.
GRACE_SECONDS = 0.5

_FAILURES = (aiohttp.ClientError, OSError)  # a TimeoutError is an OSError


class AsyncReply(Struct, frozen=True):
    """The head of a reply, and its body in the pieces in which it arrives."""

    status: int
    headers: dict[str, str]
    body: "_Body"

    async def finish(self) -> None:
        """Read the little that may follow the last event, if it comes soon."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                async for _ in self.body:
                    pass
        except (TimeoutError, ConnectionFailed):
            return


class AsyncTransport:
    """Sends requests and keeps connections."""

    def __init__(self, settings: TransportSettings) -> None:
        self._settings = settings
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"AsyncTransport({self._settings!r})"

    def __del__(self) -> None:
        for loop, session in self._sessions.items():
            _abandon(loop, session)

    @contextlib.asynccontextmanager
    async def send(self, request: HttpRequest) -> AsyncGenerator[AsyncReply]:
        """Send the request; the block begins when the reply's head is there."""
        if self._closed:
            raise UsageError("This transport is closed")
        url = request.url
        try:
            response = await self._session().request(
                request.method,
                URL(url, encoded=True),
                data=BytesIO(request.body) if len(request.body) > _LARGE_BODY else request.body,
                headers={"Accept-Encoding": "identity"} | request.headers,
                allow_redirects=False,
                proxy=self._settings.proxy_for(url),
                ssl=self._tls(url),
            )
        except aiohttp.ClientHttpProxyError:
            raise connection_failed("proxy", url, before_first_byte=True) from None
        except _FAILURES as error:
            raise connection_failed(error, url, before_first_byte=True) from None
        try:
            headers = {name.lower(): value for name, value in response.headers.items()}
            yield AsyncReply(response.status, headers, _Body(response.content.readany, url))
        finally:
            response.close()

    async def aclose(self) -> None:
        """Close all connections; replies that are being read end with ``ConnectionFailed``."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        here = asyncio.get_running_loop()
        for loop, session in sessions.items():
            if loop is here:
                await session.close()
            else:
                _abandon(loop, session)

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            for other in [loop for loop in self._sessions if loop.is_closed()]:
                _abandon(other, self._sessions.pop(other))
            session = self._sessions[loop] = self._open()
        return session

    def _open(self) -> aiohttp.ClientSession:
        settings, timeouts = self._settings, self._settings.timeouts
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                limit_per_host=settings.connections_per_host,
                keepalive_timeout=settings.idle_seconds,
            ),
            timeout=aiohttp.ClientTimeout(
                total=timeouts.total, sock_connect=timeouts.connect, sock_read=timeouts.read
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "multi_llm_chat"},
        )

    def _tls(self, url: str) -> bool | ssl.SSLContext:
        if not url.startswith("https:"):
            return True
        return tls_context(self._settings.ca_file, self._settings.ca_directory)


class _Body:
    """The pieces of a body; a class and not a generator, to add nothing to the cost of a piece."""

    __slots__ = ("_begun", "_read", "_url")

    def __init__(self, read: Callable[[], Awaitable[bytes]], url: str) -> None:
        self._read = read
        self._url = url
        self._begun = False

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._read()
        except _FAILURES as error:
            raise connection_failed(error, self._url, before_first_byte=not self._begun) from None
        if not data:
            raise StopAsyncIteration
        self._begun = True
        return data


def _abandon(loop: asyncio.AbstractEventLoop, session: aiohttp.ClientSession) -> None:
    """Close the connections of a loop from outside; without this aiohttp complains at the end."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(_close_soon, session)
        return
    # The sockets went with their loop. What is left to do never waits, so that one step is all.
    with contextlib.suppress(StopIteration):
        session.close().send(None)


_CLOSING: set[asyncio.Task[None]] = set()  # a loop holds its tasks weakly


def _close_soon(session: aiohttp.ClientSession) -> None:
    task = asyncio.ensure_future(session.close())
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)
