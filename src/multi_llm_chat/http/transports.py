"""The connections of one provider object, and the health of the endpoints they lead to.

Rules:
1. Transports are opened when they are first needed and kept until closed.
2. Only an endpoint's own failures count against it: overloaded or failing servers, lost connections.
   A rejected request or a bad key shows that the server answers.
3. ``threshold`` failures in a row open the circuit breaker for ``pause`` seconds. Then one request may try:
   until it ends (``trying``), the others are still refused; its outcome closes the breaker or opens it again.
4. A ``Breaker`` is an immutable value. The caller passes the time as a number; only differences matter.
"""

import os
from collections.abc import Generator, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.data_limits import Limits, in_megabytes
from multi_llm_chat.errors import ConnectionFailed, Overloaded, ProviderError
from multi_llm_chat.http import (
    Timeouts,
    TransportSettings,
    open_async,
    open_sync,
    settings_from,
)

if TYPE_CHECKING:
    from multi_llm_chat.http.async_transport import AsyncTransport
    from multi_llm_chat.http.sync_transport import SyncTransport
    from multi_llm_chat.protocol.exchange import HttpRequest


class Fetched(Protocol):
    """Something that is fetched with one or several requests, each of them retried as ``failed`` decides."""

    def requests(self) -> "Generator[HttpRequest]":
        """The requests to send, one after the other; yields a failed request again."""
        ...

    def receive(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Read a reply; raise ``ProviderError`` if it is a failure."""
        ...

    def failed(self, failure: ProviderError, *, jitter: float) -> float:
        """The seconds to wait before the request is sent again; raises the failure if it is not retried."""
        ...


# The circuit breaker of one endpoint.

_OWN_FAILURES = (Overloaded, ConnectionFailed)


class Breaker(Struct, frozen=True):
    """The circuit breaker of an endpoint: its failures in a row, and until when no request may be sent."""

    failures: int = 0
    paused_until: float | None = None
    threshold: int = 8
    pause: float = 20.0

    def allows(self, now: float) -> bool:
        """Whether a request may be sent."""
        return self.paused_until is None or now >= self.paused_until

    def waiting_time(self, now: float) -> float:
        """The seconds until a request may be sent."""
        return 0.0 if self.paused_until is None else max(0.0, self.paused_until - now)

    def trying(self, now: float) -> "Breaker":
        """The breaker while an allowed request is in progress."""
        if self.paused_until is None:
            return self
        return replace(self, paused_until=now + self.pause)

    def after(self, outcome: ProviderError | None, now: float) -> "Breaker":
        """The breaker after an outcome: a failure, or ``None`` for an answer."""
        if not isinstance(outcome, _OWN_FAILURES):
            return replace(self, failures=0, paused_until=None)
        failures = self.failures + 1
        opened = failures >= self.threshold
        return replace(self, failures=failures, paused_until=now + self.pause if opened else None)


# The breakers of one client.


class Health:
    """The circuit breakers of all failing endpoints.

    Threads may share it without a lock: each step reads or writes a single dict entry.
    """

    def __init__(self, first: Breaker | None = None) -> None:
        self._first = first or Breaker()
        self._breakers: dict[str, Breaker] = {}

    def admit(self, url: str, now: float) -> None:
        """Check whether a request may be sent now.

        Raises:
            Overloaded: The endpoint has failed too often; its circuit breaker is open.
        """
        if not self._breakers:
            return
        place = urlsplit(url).netloc
        breaker = self._breakers.get(place, self._first)
        if not breaker.allows(now):
            seconds = breaker.waiting_time(now)
            raise Overloaded(
                f"{place} has failed {breaker.failures} times in a row and is left alone "
                f"for {seconds:.0f} more seconds.",
                code="circuit_open",
                retry_after=seconds,
            )
        if breaker.paused_until is not None:
            self._breakers[place] = breaker.trying(now)

    def record(self, url: str, outcome: ProviderError | None, now: float) -> None:
        """Record how a request ended."""
        if outcome is None and not self._breakers:
            return
        place = urlsplit(url).netloc
        breaker = self._breakers.get(place, self._first)
        after = breaker.after(outcome, now)
        if after.failures:
            self._breakers[place] = after
        else:
            self._breakers.pop(place, None)  # only failing endpoints have an entry


# Bodies that are not streamed.


class BoundedBody:
    """Collects the pieces of a body that is not streamed, up to a limit."""

    def __init__(self, limits: Limits, url: str) -> None:
        self._limit = self._left = limits.total_bytes
        self._url = url
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        """Add a piece.

        Raises:
            ConnectionFailed: The body is larger than allowed.
        """
        self._left -= len(piece)
        if self._left < 0:
            raise ConnectionFailed(
                f"{urlsplit(self._url).netloc} sent more than {in_megabytes(self._limit)}; it is read no further.",
                before_first_byte=False,
                code="too_large",
            )
        self._pieces.append(piece)

    def joined(self) -> bytes:
        """The whole body."""
        return b"".join(self._pieces)


# The connections of one provider object.


class Transports:
    """A provider object's transports, one for calls with ``async`` and one for calls without, and its endpoints' health."""

    def __init__(
        self,
        *,
        timeouts: Timeouts | None = None,
        connections_per_host: int | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self.health = Health(breaker)
        self._timeouts = timeouts
        self._limit = connections_per_host
        self._sync: SyncTransport | None = None
        self._async: AsyncTransport | None = None

    def for_sync(self) -> "SyncTransport":
        """The transport of calls without ``async``."""
        if self._sync is None:
            self._sync = open_sync(self._settings())
        return self._sync

    def for_async(self) -> "AsyncTransport":
        """The transport of calls with ``async``."""
        if self._async is None:
            self._async = open_async(self._settings())
        return self._async

    def close(self) -> None:
        """Close all connections, also those in use; any thread may call this."""
        if self._sync is not None:
            self._sync.close()
            self._sync = None
        if self._async is not None:
            self._async.close()
            self._async = None

    async def aclose(self) -> None:
        """Like ``close``; returns when the connections of this event loop are closed."""
        transport, self._async = self._async, None
        self.close()
        if transport is not None:
            await transport.aclose()

    def _settings(self) -> TransportSettings:
        return settings_from(os.environ, timeouts=self._timeouts, connections_per_host=self._limit)


# ``Retry-After`` dates are converted to seconds here, because ``protocol`` has no clock.


def with_seconds(headers: Mapping[str, str], now: float) -> Mapping[str, str]:
    """The headers of a reply (lower-case names), with ``retry-after`` in seconds.

    Args:
        headers: The headers; returned unchanged if ``retry-after`` is not a date.
        now: The time as seconds since 1970.
    """
    value = headers.get("retry-after")
    if value is None or value.strip()[:1].isdecimal():
        return headers
    try:
        moment = parsedate_to_datetime(value).timestamp()
    except ValueError:
        return headers
    return {**headers, "retry-after": f"{max(0.0, moment - now):.3f}"}
