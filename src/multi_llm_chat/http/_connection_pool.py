"""Connections without ``async`` that are kept and used again, a bounded number of each host.

Rules:
1. At most ``connections_per_host`` connections with one key are open; a caller that needs one more waits.
2. A connection has one user at a time. It comes back only in good order; a kept one
   that is too old, or on which the server has closed or said something unasked, is closed instead.
3. ``close`` may be called from any thread: it closes what is idle and shuts down what is in use,
   so that a thread that waits for bytes wakes up.
"""

import base64
import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPSConnection
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from multi_llm_chat.http._network_settings import DEFAULT_PORTS, TransportSettings, tls_context


class PoolKey(NamedTuple):
    """The target of a connection; connections with the same key are interchangeable."""

    scheme: str
    host: str
    port: int
    proxy: str | None


class Connection:
    """One connection, with the socket that another thread can shut down."""

    def __init__(self, http: HTTPConnection, key: PoolKey) -> None:
        self.http = http
        self.key = key
        self.socket: socket.socket = http.sock
        self.idle_since = 0.0
        self.stopped = False

    def stop(self) -> None:
        """Wake the thread that uses this connection, from any thread; its user closes it."""
        self.stopped = True
        with contextlib.suppress(OSError):
            # Not the method of an SSL socket: that would take its state from under the reader.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def is_stale(self, oldest: float) -> bool:
        """Return whether it must not be used again."""
        if self.idle_since < oldest:
            return True
        try:
            readable, _, _ = select.select([self.socket], [], [], 0)
        except (OSError, ValueError):  # closed, or a number that select cannot take
            return True
        return bool(readable)


class ConnectionPool:
    """The connections of one transport."""

    def __init__(
        self, settings: TransportSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: dict[PoolKey, list[Connection]] = {}
        self._slots: dict[PoolKey, threading.BoundedSemaphore] = {}
        self._used: set[Connection] = set()
        self.closed = False

    def key_of(self, url: str) -> PoolKey:
        """The key of the connections that lead to this address."""
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        return PoolKey(parts.scheme, parts.hostname or "", port, self._settings.proxy_for(url))

    def take(self, key: PoolKey) -> Connection:
        """A connection that is ready for a request; it must be given back.

        Raises:
            OSError: The server cannot be reached in time.
        """
        slots = self._slots_of(key)
        if not slots.acquire(timeout=self._settings.timeouts.total):
            raise TimeoutError
        try:
            connection = self._kept(key) or self._connect(key)
        except BaseException:
            slots.release()
            raise
        with self._lock:
            self._used.add(connection)
        if self.closed:
            connection.stop()
        return connection

    def give_back(self, connection: Connection, *, reusable: bool) -> None:
        """Keep the connection for the next request, or close it."""
        with self._lock:
            self._used.discard(connection)
            keep = reusable and not self.closed and not connection.stopped
            if keep:
                connection.idle_since = self._clock()
                self._idle.setdefault(connection.key, []).append(connection)
        if not keep:
            connection.http.close()
        self._slots_of(connection.key).release()

    def close(self) -> None:
        """Close everything, also connections that are being read."""
        with self._lock:
            self.closed = True
            idle = [connection for kept in self._idle.values() for connection in kept]
            self._idle.clear()
            used = list(self._used)
        for connection in idle:
            connection.http.close()
        for connection in used:
            connection.stop()

    def _slots_of(self, key: PoolKey) -> threading.BoundedSemaphore:
        with self._lock:
            if key not in self._slots:
                self._slots[key] = threading.BoundedSemaphore(self._settings.connections_per_host)
            return self._slots[key]

    def _kept(self, key: PoolKey) -> Connection | None:
        oldest = self._clock() - self._settings.idle_seconds
        while True:
            with self._lock:
                kept = self._idle.get(key)
                connection = kept.pop() if kept else None
            if connection is None:
                return None
            if not connection.is_stale(oldest):
                return connection
            connection.http.close()

    def _connect(self, key: PoolKey) -> Connection:
        http = self._http(key)
        try:
            http.connect()
        except BaseException:
            http.close()
            raise
        return Connection(http, key)

    def _http(self, key: PoolKey) -> HTTPConnection:
        settings = self._settings
        limit = settings.timeouts.connect
        host, port = key.host, key.port
        if key.proxy is not None:
            proxy = urlsplit(key.proxy)
            host, port = proxy.hostname or "", proxy.port or DEFAULT_PORTS["http"]
        if key.scheme == "http":
            return HTTPConnection(host, port, timeout=limit)
        context: ssl.SSLContext = tls_context(settings.ca_file, settings.ca_directory)
        http = HTTPSConnection(host, port, timeout=limit, context=context)
        if key.proxy is not None:
            http.set_tunnel(key.host, key.port, proxy_headers(key.proxy))
        return http


def proxy_headers(proxy: str) -> dict[str, str]:
    """What a proxy wants to know: the name and password in its address, if there are any."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}
