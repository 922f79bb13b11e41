"""A remote server, spoken to over streamable HTTP.

Rules:
1. No reply of more than ``MESSAGE_LIMIT`` bytes is read: it ends with an error, and only that call does.
2. Headers from the settings go to the configured address alone; redirects elsewhere are not followed.
3. The connection is closed with the client.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client

from multi_llm_chat.tools.mcp.server_settings import ServerSettings

#: Bytes of one reply, or of one event of a stream.
MESSAGE_LIMIT: Final = 32 * 1024 * 1024
_TIMEOUT: Final = httpx2.Timeout(30.0, read=300.0)
_EVENT_STREAM: Final = "text/event-stream"


def http_transport(
    settings: ServerSettings, auth: httpx2.Auth | None
) -> AbstractAsyncContextManager[Any]:
    """The transport to hand to the client."""
    return _opened(settings, auth)


@asynccontextmanager
async def _opened(settings: ServerSettings, auth: httpx2.Auth | None) -> AsyncGenerator[Any]:
    client = httpx2.AsyncClient(
        headers=settings.headers,
        timeout=_TIMEOUT,
        auth=auth,
        transport=_LimitedTransport(httpx2.AsyncHTTPTransport()),
    )
    async with (
        client,
        streamable_http_client(
            settings.url, http_client=client, max_sse_event_size=MESSAGE_LIMIT
        ) as streams,
    ):
        yield streams


class _LimitedTransport(httpx2.AsyncBaseTransport):
    """Counts what arrives; streams of events are counted event by event elsewhere."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if not response.headers.get("content-type", "").startswith(_EVENT_STREAM):
            response.stream = _LimitedStream(cast("httpx2.AsyncByteStream", response.stream))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MESSAGE_LIMIT:
                message = f"the reply has more than {MESSAGE_LIMIT:,} bytes"
                raise httpx2.ReadError(message)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
