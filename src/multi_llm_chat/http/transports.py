"""The connections of one provider object: opened when they are first needed, kept until closed."""

import os
from typing import TYPE_CHECKING

from multi_llm_chat.http import (
    Timeouts,
    TransportSettings,
    open_async,
    open_sync,
    settings_from,
)
from multi_llm_chat.http.endpoint_health import Health
from multi_llm_chat.protocol.breaker import Breaker

if TYPE_CHECKING:  # loaded when a transport is opened
    from multi_llm_chat.http.async_transport import AsyncTransport
    from multi_llm_chat.http.sync_transport import SyncTransport


class Transports:
    """The transport of calls with ``async``, that of calls without, and the health of their endpoints."""

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
        """Close all connections, also those in use; from any thread."""
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
