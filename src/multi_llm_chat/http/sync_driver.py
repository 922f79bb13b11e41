"""Performs requests without ``async``.

Rules:
1. ``Attempts`` makes all decisions; this module only sends, reads and waits.
2. Events are yielded in lists, one list for each piece of the reply that completed any events.
3. Closing the generator closes the socket at once; so does ``Stop.stop``, from any thread, also
   while no data arrives or the driver waits for the next attempt.
4. After a reply's ``Finish`` event, the end of the body is not waited for: a server may leave it open.
5. ``fetch`` reads at most what its ``limits`` allow.
"""

import random
import threading
import time
from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING

from multi_llm_chat.data_limits import Limits
from multi_llm_chat.errors import ConnectionFailed, ProviderError
from multi_llm_chat.events import Event, Finish
from multi_llm_chat.http.transports import BoundedBody, Fetched, Health, with_seconds

if TYPE_CHECKING:  # types only; the HTTP library is loaded when a transport is opened
    from multi_llm_chat.http.sync_transport import SyncConnection, SyncTransport
    from multi_llm_chat.protocol.attempts import Attempts
    from multi_llm_chat.protocol.exchange import HttpRequest


class Stop:
    """Ends a reply from another thread; the part that arrived before is in ``StreamBroken.partial``."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._connection: SyncConnection | None = None

    @property
    def stopped(self) -> bool:
        """Whether ``stop`` was called."""
        return self._event.is_set()

    def stop(self) -> None:
        """End the reply now."""
        with self._lock:
            self._event.set()
            if self._connection is not None:
                self._connection.stop()

    def watch(self, connection: "SyncConnection | None") -> None:
        """Set the connection that ``stop`` closes; None when the reply has ended."""
        with self._lock:
            self._connection = connection
            if connection is not None and self._event.is_set():
                connection.stop()

    def wait(self, seconds: float) -> bool:
        """Wait this time, or until ``stop`` is called; return whether to continue."""
        return not self._event.wait(seconds)


def answer(
    attempts: "Attempts", transport: "SyncTransport", health: Health, stop: Stop
) -> Generator[list[Event]]:
    """Send the request until it is answered; yield the reply's events as they arrive.

    Raises:
        ProviderError: The request failed and is not retried.
    """
    while True:
        exchange = attempts.next()
        request = exchange.request()
        health.admit(request.url, time.monotonic())
        loss: ConnectionFailed | None = None
        try:
            with transport.send(request, watch=stop.watch, streamed=exchange.streams) as reply:
                attempts.begin(reply.status, with_seconds(reply.headers, time.time()))
                try:
                    for piece in reply.body:
                        events = exchange.receive(piece)
                        if events:
                            reply.start()
                            yield attempts.read(events)
                            if type(events[-1]) is Finish:
                                reply.finish()
                                break
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
            if not stop.wait(seconds):
                raise


def fetch(request: "HttpRequest", transport: "SyncTransport", limits: Limits) -> tuple[int, bytes]:
    """Send one request; return the status and the whole body.

    Raises:
        ConnectionFailed: The body is larger than ``limits`` allow, or the network failed.
    """
    body = BoundedBody(limits, request.url)
    with transport.send(request) as reply:
        for piece in reply.body:
            body.add(piece)
        return reply.status, body.joined()


def fetch_all(source: Fetched, transport: "SyncTransport", health: Health, limits: Limits) -> None:
    """Send requests one after the other, each until it is answered or not retried.

    Raises:
        ProviderError: A request failed and is not retried.
    """
    with closing(source.requests()) as requests:
        for request in requests:
            health.admit(request.url, time.monotonic())
            try:
                body = BoundedBody(limits, request.url)
                with transport.send(request) as reply:
                    headers = with_seconds(reply.headers, time.time())
                    for piece in reply.body:
                        body.add(piece)
                source.receive(reply.status, headers, body.joined())
                health.record(request.url, None, time.monotonic())
            except ProviderError as failure:
                health.record(request.url, failure, time.monotonic())
                seconds = source.failed(failure, jitter=random.random())  # noqa: S311  no secret
                time.sleep(seconds)
