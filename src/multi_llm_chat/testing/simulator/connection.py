"""One connection: requests in, replies out, and notice of a client that goes away.

Rules:
1. Requests of one connection are answered one after the other.
2. A client that closes before its reply is complete ends that reply at once and is recorded.
3. Nothing is sent after a break; nothing is buffered beyond what the transport asks for.
4. A path with a prebuilt reply is answered without being judged or recorded.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from typing import Protocol

from multi_llm_chat.testing.simulator.http import (
    LAST_CHUNK,
    BadHttp,
    Prebuilt,
    RawRequest,
    RequestReader,
    write_chunk,
    write_head,
)
from multi_llm_chat.testing.simulator.plan import Await, Break, Pause, Plan, Stall
from multi_llm_chat.testing.simulator.request_log import RecordedRequest

_LINGER_NOT = struct.pack("ii", 1, 0)
_BAD = write_head(400, {"content-length": "0", "connection": "close"})


class Desk(Protocol):
    """Where a connection hands in its requests."""

    prebuilt: Mapping[str, Prebuilt]
    connections: set[SimulatorConnection]

    def take(self, raw: RawRequest) -> tuple[RecordedRequest, Plan]:
        """Record a request and plan its reply."""
        ...

    def fail(self, failure: BaseException) -> None:
        """Keep what went wrong on the server's side, for the test to see."""
        ...


class SimulatorConnection(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._reader = RequestReader()
        self._transport: asyncio.Transport | None = None
        self._current: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._desk.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: what is being sent has no reader."""
        del exc  # whether it said goodbye or vanished, it is gone
        self._desk.connections.discard(self)
        self._give_up()

    def eof_received(self) -> bool | None:
        """The client will send no more; these APIs' clients do so only when they go."""
        self._give_up()
        return None

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        self._reader.feed(data)
        if self._current is None:
            self._serve_next()

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _give_up(self) -> None:
        if self._current is not None:
            self._current.cancel()

    def _serve_next(self) -> None:
        while self._current is None:
            try:
                raw = self._reader.next_request()
            except BadHttp:
                self._send(_BAD)
                self._close()
                return
            if raw is None or self._transport is None or self._transport.is_closing():
                return
            prebuilt = self._desk.prebuilt.get(raw.path) if self._desk.prebuilt else None
            if prebuilt is not None:
                self._transport.writelines(prebuilt.pieces)
                continue
            self._current = asyncio.get_running_loop().create_task(self._serve(raw))
            self._current.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._current = None
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:  # a rule of the test went wrong
            self._desk.fail(failure)
            self.abort()
            return
        self._serve_next()

    async def _serve(self, raw: RawRequest) -> None:
        request, plan = self._desk.take(raw)
        request.status = plan.status
        try:
            complete = await self._play(plan, request, raw.keeps_alive)
        except asyncio.CancelledError:
            request.finish(complete=False)
            raise
        request.finish(complete=True)
        if not (complete and raw.keeps_alive):
            self._close()

    async def _play(self, plan: Plan, request: RecordedRequest, keeps_alive: bool) -> bool:
        """Send a reply; return whether the connection can be used again."""
        chunked = plan.length is None
        if plan.status:
            self._send(write_head(plan.status, _framing(plan, keeps_alive)))
        for step in plan.steps:
            match step:
                case bytes():
                    self._send(write_chunk(step) if chunked else step)
                    request.frames_sent += 1
                    await self._writable.wait()
                    # Others have their turn, and a client that went away is noticed.
                    await asyncio.sleep(0)
                case Pause():
                    await asyncio.sleep(step.seconds)
                case Await():
                    step.reached.give()
                    await step.opened.arrived()
                case Stall():
                    await asyncio.get_running_loop().create_future()
                case Break():
                    self._break(step)
                    return False
        if chunked:
            self._send(LAST_CHUNK)
        return True

    def _send(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._transport.write(data)

    def _break(self, step: Break) -> None:
        if self._transport is None:
            return
        if step.reset:
            found = self._transport.get_extra_info("socket")
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _framing(plan: Plan, keeps_alive: bool) -> dict[str, str]:
    framing = {"transfer-encoding": "chunked"}
    if plan.length is not None:
        framing = {"content-length": str(plan.length)}
    if not keeps_alive:
        framing["connection"] = "close"
    return {**plan.headers, **framing}
