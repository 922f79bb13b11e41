"""The simulator itself: a server on the loopback, in a thread of its own.

Rules:
1. It listens from the moment ``start`` (or ``with``) returns until ``stop``.
2. It listens on the loopback only.
3. ``stop`` ends every connection and every task; no socket and no thread is left.
4. What a rule raises is raised again when the ``with`` statement ends.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from multi_llm_chat.errors import UsageError
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator.answerer import Answerer
from multi_llm_chat.testing.simulator.connection import SimulatorConnection
from multi_llm_chat.testing.simulator.http import Prebuilt, RawRequest
from multi_llm_chat.testing.simulator.plan import PATIENCE, Plan
from multi_llm_chat.testing.simulator.request_log import RecordedRequest, RequestLog
from multi_llm_chat.testing.simulator.routes import base_path
from multi_llm_chat.testing.simulator.script import Script, ScriptLike

_HOST = "127.0.0.1"
_VERSIONS = ("/v1beta", "/v1")
#: For so many rounds of the loop, ``stop`` waits for connections and tasks to end.
_ROUNDS = 1000


class Simulator:
    """Every provider, on this machine.

    Args:
        script: What is answered: replies in order, a rule, or replies for each provider.
        key: The only key that is accepted; None accepts any and none.
        port: Where to listen; 0 chooses a free port.
        models: The models that a provider lists, instead of its default one.
        prebuilt: Replies by path that are sent whatever the request contains.
    """

    def __init__(
        self,
        script: ScriptLike = (),
        *,
        key: str | None = None,
        port: int = 0,
        models: Mapping[str, list[str]] | None = None,
        prebuilt: Mapping[str, Prebuilt] | None = None,
    ) -> None:
        self.script = Script.of(script)
        self.requests = RequestLog()
        self.connections: set[SimulatorConnection] = set()
        self.prebuilt: Mapping[str, Prebuilt] = dict(prebuilt or {})
        self._answerer = Answerer(self.script, key, dict(models or {}))
        self._numbers = itertools.count()
        self._wanted_port = port
        self._port: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"Simulator(port {self._port}, {len(self.requests)} requests)"

    @property
    def port(self) -> int:
        """Where it listens."""
        if self._port is None:
            raise UsageError("The simulator is not running: use it in a with statement.")
        return self._port

    @property
    def url(self) -> str:
        """The address of the server, without any path."""
        return f"http://{_HOST}:{self.port}"

    def base_url(self, provider: str) -> str:
        """The address to use in place of the provider's own base URL."""
        if provider not in ROWS:
            raise UsageError(f"Unknown provider {provider!r}; known are: {', '.join(ROWS)}")
        return f"{self.url}/{provider}{base_path(provider)}"

    def sdk_url(self, provider: str) -> str:
        """The base URL for the provider's own SDK; Anthropic's and Google's add the version."""
        base = self.base_url(provider)
        if provider not in {"anthropic", "gemini"}:
            return base
        version = next(version for version in _VERSIONS if base.endswith(version))
        return base.removesuffix(version)

    def take(self, raw: RawRequest) -> tuple[RecordedRequest, Plan]:
        """Record a request and plan its reply."""
        request = self._answerer.record(raw, next(self._numbers))
        plan = self._answerer.answer(request)
        request.status = plan.status
        self.requests.add(request)
        return request, plan

    def fail(self, failure: BaseException) -> None:
        """Keep the first error of a rule, to be raised in the test's own thread."""
        if self._failure is None:
            self._failure = failure

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def start(self) -> Self:
        """Begin to listen."""
        if self._thread is not None:
            raise UsageError("The simulator is running already.")
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="simulator", daemon=True
        )
        self._thread.start()
        ready.wait()
        if self._failure is not None:
            self.stop()
            self._raise_failure()
        return self

    def stop(self) -> None:
        """End every connection and stop listening."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._loop is not None and self._stopping is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(PATIENCE)
        self._port = None

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(ready))
        except OSError as error:  # the port is taken
            self._failure = error
        finally:
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await self._loop.create_server(
            lambda: SimulatorConnection(self), _HOST, self._wanted_port, backlog=1024
        )
        async with server:
            self._port = server.sockets[0].getsockname()[1]
            ready.set()
            await self._stopping.wait()
            await self._end_connections()
            server.close()

    async def _end_connections(self) -> None:
        """Abort all connections, also those that are accepted just now, each in a task of the loop.

        Such a task fails if the server is closed already, and Python complains about the socket that it leaves open.
        """
        this = {asyncio.current_task()}
        for _ in range(_ROUNDS):
            if not self.connections and asyncio.all_tasks() == this:
                return
            for connection in list(self.connections):
                connection.abort()
            await asyncio.sleep(0)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if error is None:
            self._raise_failure()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)
        if error is None:
            self._raise_failure()
