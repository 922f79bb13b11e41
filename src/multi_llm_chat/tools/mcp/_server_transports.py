"""The two transports to a server: its standard input and output, and streamable HTTP.

A program on this machine:
1. One line is one message, at most ``RESULT_LIMITS.item_bytes`` with at most ``RESULT_LIMITS.total_values`` JSON values, counted before
   they are decoded. A larger message, or too many lines that are no messages, ends the connection: such a server is unusable, and must not
   fill the memory. A large message is decoded in a thread.
2. Its environment has only those of our variables that the official client considers harmless, and those of its settings.
3. It gets its own process group, which ends with the connection: its input is closed, then it gets SIGTERM, then it is killed. Its
   descendants carry a variable in their environment, by which those that left the group are found (on Linux) and killed.
4. Its error output is passed on, and the last lines are kept to explain its end.

A remote server:
5. A reply, or an event of a stream, above the same limits is not read; it ends with an error, which affects only its call. Compression
   is not asked for; a compressed reply is decompressed in bounded pieces and counted like any other.
6. Headers from the settings go to the configured address alone; redirects to another address are not followed.
7. For a server with a public address no request goes to a private address: an address that it names for signing in could be a service of
   this machine or its network.
8. The connection is closed with the client.
"""

import asyncio
import atexit
import contextlib
import ipaddress
import os
import signal
import sys
import uuid
import zlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from multi_llm_chat.data_limits import (
    MEGABYTE,
    RESULT_LIMITS,
    Decompressor,
    OverLimit,
    check_json,
    decompressor_for,
)
from multi_llm_chat.tools.mcp.server_settings import ServerSettings

# A program on this machine.

#: Messages from this size in bytes are decoded in a thread, because all servers share the loop.
_LARGE: Final = MEGABYTE
#: The environment variable by which descendants of a server are found.
_MARK: Final = "MULTI_LLM_CHAT_SERVER"
#: The most lines that are no messages before the connection is ended.
MOST_GARBAGE: Final = 1_000
_CHUNK: Final = 256 * 1024
_LONGEST_LINE: Final = 2_000
_LAST_LINES: Final = 10
#: Seconds for the program to end by itself, and again after each signal.
_GRACE: Final = 2.0
_KILL: Final = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL

_Incoming = SessionMessage | Exception
_Streams = tuple[MemoryObjectReceiveStream[_Incoming], MemoryObjectSendStream[SessionMessage]]


class StdioTransport:
    """Starts the program when entered; ``closed`` is set when the connection has ended."""

    def __init__(self, settings: ServerSettings, on_error_line: Callable[[str], None]) -> None:
        self.closed = asyncio.Event()
        self._settings = settings
        self._on_error_line = on_error_line
        self._reason = ""
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._garbage = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._owner = os.getpid()
        self._mark = uuid.uuid4().hex

    async def __aenter__(self) -> _Streams:
        settings = self._settings
        self._process = await asyncio.create_subprocess_exec(
            settings.command,
            *settings.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=get_default_environment() | settings.env | {_MARK: self._mark},
            cwd=settings.cwd,
            start_new_session=True,
        )
        _running.add(self)
        self._incoming, receive = anyio.create_memory_object_stream[_Incoming](0)
        send, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._ours = (receive, send)
        reading = asyncio.ensure_future(self._read())
        reading.add_done_callback(self._on_end)
        self._tasks = [
            reading,
            asyncio.ensure_future(self._write()),
            asyncio.ensure_future(self._listen()),
        ]
        return receive, send

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Neither a cancelled caller nor a cancelled scope may leave the process behind.
        with anyio.CancelScope(shield=True):
            await asyncio.shield(asyncio.ensure_future(self._shut_down()))

    def reason(self) -> str:
        """Why the connection ended, as text, with the last lines of the server's error output."""
        code = self._process.returncode
        ended = "" if code is None else f"the program ended with code {code}"
        words = self._reason or ended or "the program closed its output"
        said = "\n".join(self._last_lines)
        return f"{words}; it said:\n{said}" if said else words

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        pending: list[bytes] = []
        size = 0
        try:
            while chunk := await stdout.read(_CHUNK):
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    pending.append(line)
                    await self._deliver(b"".join(pending))
                    pending, size = [], 0
                pending.append(rest)
                size += len(rest)
                if size > RESULT_LIMITS.item_bytes:
                    self._reason = (
                        f"it sent a message of more than {RESULT_LIMITS.item_bytes:,} bytes"
                    )
                    return
                if self._garbage > MOST_GARBAGE:
                    self._reason = "it writes something other than messages to its output"
                    return
            await self._see_end()
        except OverLimit as excess:
            self._reason = f"it sent a message with {excess}"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return  # the client has closed its streams
        finally:
            self._incoming.close()

    def _on_end(self, reading: "asyncio.Task[None]") -> None:
        if not reading.cancelled():  # cancelled by ourselves otherwise
            self.closed.set()

    async def _see_end(self) -> None:
        """Wait up to ``_GRACE`` seconds for the exit code and the last error output."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await self._process.wait()
                await asyncio.wait(self._tasks[2:])

    async def _deliver(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            if len(line) > _LARGE:
                message = await asyncio.to_thread(_read_message, line)
            else:
                message = _read_message(line)
        except ValueError:
            # Programs print to their output by mistake; report the first line, then only count.
            self._garbage += 1
            if self._garbage == 1:
                self._tell(f"[not a message: {line[:200].decode(errors='replace')}]")
            return
        await self._incoming.send(SessionMessage(message))

    async def _write(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            async for message in self._outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
        except OSError:
            return  # the program has ended; reading its output reports that
        finally:
            self._outgoing.close()

    async def _listen(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        rest = b""
        while chunk := await stderr.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-_LONGEST_LINE:]
            for line in lines:
                self._tell(line[:_LONGEST_LINE].decode(errors="replace"))
        if rest:
            self._tell(rest.decode(errors="replace"))

    def _tell(self, line: str) -> None:
        self._last_lines.append(line)
        self._on_error_line(line)

    async def _shut_down(self) -> None:
        for stream in (*self._ours, self._incoming, self._outgoing):
            stream.close()
        await _cancel(self._tasks)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.close()
        # A full pipe must not keep the program from ending.
        drains = [asyncio.ensure_future(_drain(pipe)) for pipe in (process.stdout, process.stderr)]
        for number in (None, signal.SIGTERM, _KILL):
            if number is not None:
                self._signal(number)
            elif self._reason:
                continue  # it violates the protocol: do not wait for it to end by itself
            if await self._ended():
                break
        self._signal(_KILL)  # kill processes that it may have left in its group
        await asyncio.to_thread(_kill_marked, self._mark)
        await _cancel(drains)
        # A grandchild outside the group may hold the pipes open; close our ends anyway.
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()
        _running.discard(self)

    def kill(self) -> None:
        """Kill the program; does nothing in a forked copy of the process that started it."""
        if self._owner == os.getpid():
            self._signal(_KILL)

    async def _ended(self) -> bool:
        # ``wait`` also waits for the end of the pipes, which may never come, so check the exit code.
        waiting = asyncio.ensure_future(self._process.wait())
        await asyncio.wait({waiting}, timeout=_GRACE)
        await _cancel([waiting])
        return self._process.returncode is not None

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.terminate()
            else:
                os.killpg(self._process.pid, number)


def _read_message(line: bytes) -> mcp_types.JSONRPCMessage:
    check_message(line)
    return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)


def check_message(line: bytes) -> None:
    """Count the JSON values of a message.

    Raises:
        OverLimit: There are too many.
    """
    if len(line) > RESULT_LIMITS.surely_allowed:
        check_json(line, values=RESULT_LIMITS.total_values, depth=RESULT_LIMITS.depth)


def _kill_marked(mark: str) -> None:
    """Kill the processes with the mark in their environment, which have left the group of their server."""
    wanted = f"{_MARK}={mark}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError, ValueError):
            if wanted in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), _KILL)


#: The transports whose program may still run.
_running: "set[StdioTransport]" = set()


@atexit.register
def _kill_running() -> None:
    """Kill the programs that are left after an interrupted shutdown: a second Ctrl-C does not wait for ``_shut_down``."""
    for transport in tuple(_running):
        transport.kill()


async def _cancel(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _drain(pipe: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await pipe.read(_CHUNK):
            continue


# A remote server.

_TIMEOUT: Final = httpx2.Timeout(30.0, read=300.0)
_EVENT_STREAM: Final = "text/event-stream"


def http_transport(
    settings: ServerSettings, auth: httpx2.Auth | None
) -> AbstractAsyncContextManager[Any]:
    """The transport for the client."""
    return _opened(settings, auth)


@asynccontextmanager
async def _opened(settings: ServerSettings, auth: httpx2.Auth | None) -> AsyncGenerator[Any]:
    client = httpx2.AsyncClient(
        headers={"Accept-Encoding": "identity"} | settings.headers,
        timeout=_TIMEOUT,
        auth=auth,
        transport=LimitedTransport(
            httpx2.AsyncHTTPTransport(), urlsplit(settings.url).hostname or ""
        ),
    )
    async with (
        client,
        streamable_http_client(
            settings.url, http_client=client, max_sse_event_size=RESULT_LIMITS.item_bytes
        ) as streams,
    ):
        yield streams


async def is_private(host: str) -> bool:
    """Whether the name or address leads to this machine or its network; false for an unknown name."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except OSError:
        return False
    return any(
        not ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_global for entry in found
    )


class LimitedTransport(httpx2.AsyncBaseTransport):
    """Counts the received data after decompression: a reply as a whole, a stream of events line by line."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, server: str) -> None:
        self._inner = inner
        self._server = server

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        if host != self._server and await is_private(host) and not await is_private(self._server):
            raise httpx2.ConnectError(f"{host} is an address of this network; it is not fetched")
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.pop("content-encoding", "identity")
        unpacking = decompressor_for(encoding)
        if unpacking is None and encoding.lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("the reply is compressed in a way that was not asked for")
        response.stream = _LimitedStream(
            cast("httpx2.AsyncByteStream", response.stream),
            unpacking,
            endless=response.headers.get("content-type", "").startswith(_EVENT_STREAM),
        )
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LimitedStream(httpx2.AsyncByteStream):
    """Yields whole lines, after counting their JSON values; a reply without newlines is one line."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, unpacking: Decompressor | None, *, endless: bool
    ) -> None:
        self._inner = inner
        self._unpacking = unpacking
        self._endless = endless

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held: list[bytes] = []
        size = 0
        async for chunk in self._plain():
            size += len(chunk)
            if size > RESULT_LIMITS.item_bytes:
                message = f"the reply has more than {RESULT_LIMITS.item_bytes:,} bytes"
                raise httpx2.ReadError(message)
            lines, newline, rest = chunk.rpartition(b"\n")
            held.append(lines)
            if newline:
                yield _counted(b"".join(held)) + newline
                held = [rest]
                size = len(rest) if self._endless else size
            else:
                held[-1] = rest
        yield _counted(b"".join(held))

    async def _plain(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if self._unpacking is None:
                yield chunk
                continue
            try:
                for piece in self._unpacking.pieces(chunk):
                    yield piece
            except zlib.error:
                raise httpx2.ReadError("the compressed reply is damaged") from None

    async def aclose(self) -> None:
        await self._inner.aclose()


def _counted(lines: bytes) -> bytes:
    try:
        for line in lines.split(b"\n"):
            check_message(line)
    except OverLimit as excess:
        raise httpx2.ReadError(f"the reply has {excess}") from None
    return lines
