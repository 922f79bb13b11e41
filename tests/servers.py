"""A small scripted HTTP server on 127.0.0.1 that sends exactly the scripted bytes.

Rules:
1. A script is a list of steps for each request, in the order of the requests; the last repeats.
2. Everything that happens is an event with its own lock: tests wait for events, never
   for time to pass.
"""

import contextlib
import errno
import json
import os
import socket
import ssl
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

#: Long enough for any machine; only a failing test waits this long.
PATIENCE = 20.0


def choose_port() -> int:
    """Return a free port for a program: below the range from which the system assigns ports to others in the meantime."""
    first = 20_000 + os.getpid() % 10_000
    for port in range(first, first + 100):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as failure:
            if failure.errno != errno.EADDRINUSE:
                raise
    raise OSError("no port is free")


@dataclass(frozen=True)
class Send:
    """Send these bytes."""

    data: bytes


@dataclass(frozen=True)
class Reset:
    """Close the socket at once, even in the middle of a reply."""


@dataclass(frozen=True)
class AwaitEnd:
    """Wait until the client closes its side."""


@dataclass(frozen=True)
class Hold:
    """Wait until the test says ``server.release``."""


@dataclass(frozen=True)
class Pause:
    """Send nothing for so many seconds: only for tests of the client's own timeouts."""

    seconds: float


@dataclass(frozen=True)
class Tunnel:
    """Act as a proxy: connect to this port and forward everything in both directions."""

    port: int


Step: TypeAlias = Send | Reset | AwaitEnd | Hold | Pause | Tunnel
Script: TypeAlias = list[Step]


@dataclass
class Received:
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def head(status: int = 200, kind: str = "text/event-stream", **headers: str) -> bytes:
    """Return the head of a reply; underscores in the names of further headers become dashes."""
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def whole(body: bytes | Any, status: int = 200, **headers: str) -> Script:
    """Return a reply with a length; content other than bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = headers.pop("kind", "application/json")
    return [Send(head(status, kind, Content_Length=str(len(data)), **headers) + data)]


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def streamed(pieces: bytes | Iterable[bytes], *, ending: Script | None = None) -> Script:
    """Return a chunked event stream, one chunk for each piece."""
    pieces = [pieces] if isinstance(pieces, bytes) else list(pieces)
    sent: Script = [Send(head(Transfer_Encoding="chunked"))]
    sent += [Send(chunk(piece)) for piece in pieces if piece]
    return sent + ([Send(b"0\r\n\r\n")] if ending is None else ending)


@dataclass
class ScriptedServer:
    """Answers requests from its scripts."""

    scripts: list[Script]
    tls: ssl.SSLContext | None = None
    requests: list[Received] = field(default_factory=list[Received])
    connections: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._next = 0
        self._lock = threading.Lock()
        self.release = threading.Event()
        self.client_gone = threading.Event()
        self.asked = threading.Event()
        self._acceptor = threading.Thread(target=self._accept)
        self._acceptor.start()

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def play(self, *scripts: Script) -> None:
        """Answer the next requests by these scripts."""
        with self._lock:
            self.scripts = list(scripts)
            self._next = 0
            self.requests.clear()

    def close(self) -> None:
        self.release.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join(PATIENCE)
        for connection in self._open:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, self.connections))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)  # wrapping detaches the plain socket
            self._converse(connection, number)
        except OSError:  # the client disconnected early
            self.client_gone.set()
        finally:
            connection.close()

    def _converse(self, connection: socket.socket, number: int) -> None:
        with connection.makefile("rb") as file:
            while request := _read_request(file, number):
                with self._lock:
                    self.requests.append(request)
                    script = self.scripts[min(self._next, len(self.scripts) - 1)]
                    self._next += 1
                self.asked.set()
                for step in script:
                    if not self._do(step, connection):
                        return

    def _do(self, step: Step, connection: socket.socket) -> bool:
        match step:
            case Send(data):
                connection.sendall(data)
            case Reset():
                return False
            case AwaitEnd():
                with contextlib.suppress(OSError):
                    while connection.recv(4096):
                        pass
                self.client_gone.set()
                return False
            case Hold():
                self.release.wait(PATIENCE)
            case Pause(seconds):
                self.release.wait(seconds)
            case Tunnel(port):
                self._tunnel(connection, port)
                return False
        return True

    def _tunnel(self, connection: socket.socket, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as target:
            self._open.append(target)
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            back = threading.Thread(target=_pump, args=(target, connection))
            back.start()
            _pump(connection, target)
            back.join(PATIENCE)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(4096):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def _read_request(file: Any, connection: int) -> Received | None:
    line = file.readline()
    if not line.strip():
        return None
    method, target, _ = line.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := file.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = file.read(int(headers.get("content-length", "0")))
    return Received(method, target, headers, body, connection)


@contextlib.contextmanager
def serving(*scripts: Script, tls: ssl.SSLContext | None = None) -> Generator[ScriptedServer]:
    """Run a server for the duration of a block."""
    server = ScriptedServer(list(scripts), tls)
    try:
        yield server
    finally:
        server.close()
