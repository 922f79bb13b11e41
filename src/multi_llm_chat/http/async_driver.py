"""Performs requests with ``async``.

Rules:
1. ``Attempts`` makes all decisions; this module only sends, reads and waits.
2. Events are yielded in lists, one list for each piece of the reply that completed any events, so that no event
   costs an ``await`` of its own.
3. Closing the generator, or cancelling the task that runs it, closes the socket at once.
4. After a reply's ``Finish`` event, the end of the body is not waited for: a server may leave it open.
5. ``fetch`` reads at most what its ``limits`` allow.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import closing
from typing import TYPE_CHECKING

from multi_llm_chat.data_limits import Limits
from multi_llm_chat.errors import ConnectionFailed, ProviderError
from multi_llm_chat.events import Event, Finish
from multi_llm_chat.http.transports import BoundedBody, Fetched, Health, with_seconds

if TYPE_CHECKING:  # types only; the HTTP library is loaded when a transport is opened
    from multi_llm_chat.http.async_transport import AsyncTransport
    from multi_llm_chat.protocol.attempts import Attempts
    from multi_llm_chat.protocol.exchange import HttpRequest


async def answer(
    attempts: "Attempts",
    transport: "AsyncTransport",
    health: Health,
    pace: Callable[[], float] = float,
) -> AsyncGenerator[list[Event]]:
    """Send the request until it is answered; yield the reply's events as they arrive, with ``pace()`` seconds between two reads.

    Raises:
        ProviderError: The request failed and is not retried.
    """
    while True:
        exchange = attempts.next()
        request = exchange.request()
        health.admit(request.url, time.monotonic())
        loss: ConnectionFailed | None = None
        try:
            async with transport.send(request, streamed=exchange.streams) as reply:
                attempts.begin(reply.status, with_seconds(reply.headers, time.time()))
                try:
                    async for piece in reply.body:
                        events = exchange.receive(piece)
                        if events:
                            reply.start()
                            yield attempts.read(events)
                            if type(events[-1]) is Finish:
                                await reply.finish()
                                break
                            if seconds := pace():
                                await reply.rest(seconds)
                        if exchange.finished:
                            break
                except ConnectionFailed as error:
                    loss = error
            events = attempts.end(loss)
            health.record(request.url, None, time.monotonic())
            if events:
                yield attempts.read(events)
            return
        except ProviderError as failure:
            health.record(request.url, failure, time.monotonic())
            seconds = attempts.failed(failure, jitter=random.random())  # noqa: S311  no secret
        await asyncio.sleep(seconds)


async def fetch(
    request: "HttpRequest", transport: "AsyncTransport", limits: Limits
) -> tuple[int, bytes]:
    """Send one request; return the status and the whole body.

    Raises:
        ConnectionFailed: The body is larger than ``limits`` allow, or the network failed.
    """
    body = BoundedBody(limits, request.url)
    async with transport.send(request) as reply:
        async for piece in reply.body:
            body.add(piece)
        return reply.status, body.joined()


async def fetch_all(
    source: Fetched, transport: "AsyncTransport", health: Health, limits: Limits
) -> None:
    """Send requests one after the other, each until it is answered or not retried.

    Raises:
        ProviderError: A request failed and is not retried.
    """
    with closing(source.requests()) as requests:
        for request in requests:
            health.admit(request.url, time.monotonic())
            try:
                body = BoundedBody(limits, request.url)
                async with transport.send(request) as reply:
                    headers = with_seconds(reply.headers, time.time())
                    async for piece in reply.body:
                        body.add(piece)
                source.receive(reply.status, headers, body.joined())
                health.record(request.url, None, time.monotonic())
            except ProviderError as failure:
                health.record(request.url, failure, time.monotonic())
                seconds = source.failed(failure, jitter=random.random())  # noqa: S311  no secret
                await asyncio.sleep(seconds)
