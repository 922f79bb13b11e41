"""The web application, and the server that runs it.

Rules:
1. Without a password or a proxy that knows its users, the server listens on the loopback interface only.
2. At shutdown streams end first, so that no open page delays it.
3. The head of a request arrives within ``head_seconds``, else its connection is closed.
4. At most ``most_strangers`` connections belong to browsers that are not signed in (strangers); one more closes, a moment later, the oldest
   of them that has no request under way. The cap is far below the limit of descriptors, so idle connections of strangers never keep a user
   out. A connection without data costs little: its protocol is created with its first bytes.
5. The component page exists only with ``ServerOptions.shows_components`` or ``MULTI_LLM_CHAT_COMPONENTS=1``.
"""

import asyncio
import contextlib
import gc
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import h11
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.secrets import FileSecrets, SecretStore
from multi_llm_chat.errors import MultiLLMChatError, ProviderError, StoreError, UsageError
from multi_llm_chat.web.access import AccessPolicy, Proxy, is_loopback, read_password, read_secret
from multi_llm_chat.web.guard import STRANGER_SECONDS, Guard
from multi_llm_chat.web.routes import (
    chat_settings,
    conversations,
    message_search,
    pages,
    settings,
    tools,
    usage,
)
from multi_llm_chat.web.routes.request_context import RequestContext

if TYPE_CHECKING:
    from multi_llm_chat.web.hub import Hub

# The application.

_ASSETS: Final = Path(__file__).parent / "assets"


def make_app(
    hub: "Hub",
    access: AccessPolicy,
    *,
    shows_components: bool = False,
    stranger_seconds: float = STRANGER_SECONDS,
) -> Starlette:
    """Make the application that shows the conversations of a hub to the users that ``access`` admits."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        hub.start()
        yield
        await hub.close()

    app = Starlette(
        routes=[*_routes(), *(_DEVELOPMENT if shows_components else ())],
        middleware=[Middleware(Guard, access=access, stranger_seconds=stranger_seconds)],
        exception_handlers={
            MultiLLMChatError: _render_error,
            ValueError: _render_error,
            404: _render_missing,
        },
        lifespan=lifespan,
    )
    app.state.hub = hub
    return app


def _routes() -> list[Route | Mount]:
    get, post = ["GET"], ["POST"]
    conversation = "/c/{conversation}"
    media = f"{conversation}/media/{{turn}}"
    artifact = f"{conversation}/artifacts/{{turn}}/{{number:int}}"
    return [
        Route("/", pages.new_page, methods=get),
        Route(conversation, pages.conversation_page, methods=get),
        Route(f"{conversation}/view", pages.view, methods=get),
        Route(f"{conversation}/total", pages.spent_total, methods=get),
        Route(f"{conversation}/earlier", pages.earlier, methods=get),
        Route(f"{conversation}/source", pages.source, methods=get),
        Route(f"{conversation}/estimate", pages.estimate, methods=get),
        Route(f"{conversation}/people", chat_settings.people, methods=get),
        Route(f"{conversation}/parameters", chat_settings.parameters, methods=get),
        Route(f"{conversation}/parameters", chat_settings.set_parameters, methods=post),
        Route(f"{conversation}/model", chat_settings.choose_model, methods=post),
        Route(f"{conversation}/events", pages.events, methods=get),
        Route(f"{conversation}/export", conversations.export, methods=get),
        Route(f"{media}/{{position:int}}", conversations.media, methods=get),
        Route(f"{media}/{{position:int}}/{{number:int}}", conversations.media, methods=get),
        Route(artifact, conversations.artifact, methods=get),
        Route(f"{artifact}/document", conversations.artifact_document, methods=get),
        Route(f"{conversation}/messages", conversations.send_message, methods=post),
        Route(f"{conversation}/{{action}}", conversations.run_action, methods=post),
        Route("/sidebar", pages.sidebar, methods=get),
        Route("/models", chat_settings.models, methods=get),
        Route("/find", message_search.find, methods=get),
        Route(f"{conversation}/preview", message_search.preview, methods=get),
        Route("/export", conversations.export, methods=get),
        Route("/import", conversations.import_file, methods=post),
        Route("/tools", tools.panel, methods=get),
        Route("/tools/toggle", tools.toggle, methods=post),
        Route("/tools/add", tools.add, methods=post),
        Route("/tools/restart", tools.restart, methods=post),
        Route("/tools/edit", tools.edit, methods=post),
        Route("/tools/remove", tools.remove, methods=post),
        Route("/tools/rule", tools.rule, methods=post),
        Route("/prompts", tools.prompts, methods=get),
        Route("/prompts", tools.prompt, methods=post),
        Route("/settings", settings.first_page, methods=get),
        Route("/settings/general", settings.general_page, methods=get),
        Route("/settings/appearance", settings.appearance_page, methods=get),
        Route("/settings/models", settings.models_page, methods=get),
        Route("/settings/personas", settings.personas_page, methods=get),
        Route("/settings/personas/{name}", settings.personas_page, methods=get),
        Route("/settings/tools", tools.page, methods=get),
        Route("/settings/tools/{server}", tools.page, methods=get),
        Route("/settings/usage", usage.page, methods=get),
        Route("/settings/data", settings.data_page, methods=get),
        Route("/settings/account", settings.account_page, methods=get),
        Route("/settings/general", settings.general, methods=post),
        Route("/settings/speaker", settings.speaker, methods=post),
        Route("/settings/key", settings.key, methods=post),
        Route("/settings/check", settings.check, methods=post),
        Route("/settings/persona", settings.persona, methods=post),
        Route("/settings/group", settings.group, methods=post),
        Route("/preferences", pages.preferences, methods=post),
        Route("/login", pages.login_page, methods=get),
        Route("/login", pages.login, methods=post),
        Route("/logout", pages.logout, methods=post),
        Route("/sessions", pages.sessions, methods=get),
        Route("/sessions/end", pages.end_session, methods=post),
        Route("/link", pages.new_link, methods=post),
        Route("/health", pages.health, methods=get),
        *(Route(path, pages.probe, methods=get) for path in ("/healthz", "/readyz", "/metrics")),
        Mount("/assets", GZipMiddleware(StaticFiles(directory=_ASSETS))),
    ]


_DEVELOPMENT: Final = (Route("/components", pages.components, methods=["GET"]),)


async def _render_missing(request: Request, _error: Exception) -> Response:
    """A page for people; programs get plain text."""
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse("Not Found", 404)
    context = RequestContext(request)
    return HTMLResponse(context.renderer.render("missing.html", theme=context.theme), 404)


async def _render_error(_request: Request, error: Exception) -> Response:
    """Render an error as JSON with its HTTP status."""
    return JSONResponse({"error": str(error)}, _status_of(error))


def _status_of(error: Exception) -> int:
    match error:
        case StoreError() if error.reason == "missing":
            return 404
        case StoreError():
            return 503
        case ProviderError():
            return 502
        case UsageError() | ValueError():
            return 400
        case _:
            return 500


# The server.

#: Seconds for the first bytes of a connection to arrive and be read; no stranger is closed earlier, unless there are ``MOST_ARRIVING``
#: times as many as the cap.
ARRIVING_SECONDS: Final = 0.25
MOST_ARRIVING: Final = 4

#: How many connections of strangers are closed in one step of the event loop, and the seconds between two such steps.
CLOSED_AT_ONCE: Final = 25
CLOSING_PAUSE: Final = 0.005

#: How many connections the event loop accepts in one step, and how many may wait in the system meanwhile. asyncio has one number for both:
#: accepting thousands at once would delay every user for a tenth of a second.
ACCEPTED_AT_ONCE: Final = 4
MOST_WAITING: Final = 2_048

#: The interpreter's switch interval: how long a thread may compute while the event loop waits. An answer changes threads about twenty times
#: before its first text: during an import, Python's default of 5 ms adds up to a tenth of a second, and 0.5 ms still doubles the wait.
SWITCH_SECONDS: Final = 0.0001

#: The most bytes of a body that are read after its request was answered without it, so that the connection can be reused; above, the
#: connection is closed.
MOST_LEFT_OF_BODY: Final = 1_000_000

#: How many open files a server requests from the system.
MOST_FILES: Final = 16_384

#: The thresholds of the garbage collector: new objects between two collections, and collections of one generation between those of the
#: next. They block the event loop: 100,000 objects, the second generation, take about 20 ms.
GC_THRESHOLDS: Final = (20_000, 5, 50)


class ServerOptions(Struct, frozen=True):
    """Where to listen, and how browsers sign in."""

    host: str = "127.0.0.1"
    port: int = 8765
    hosts: tuple[str, ...] = ()
    proxy: Proxy | None = None
    is_encrypted: bool = False
    metrics_token: str = ""
    shows_components: bool = False
    head_seconds: float = 10.0
    most_strangers: int = 512


class Strangers:
    """The connections whose user is unknown, the oldest first; closes those above a cap."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made_at: dict[Arrival | BoundedProtocol, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: "Arrival") -> None:
        """Add a new connection; if there are too many, close old ones soon."""
        loop = connection.loop
        self._made_at[connection] = loop.time()
        if len(self._made_at) > MOST_ARRIVING * self._most:
            self._make_room(connection, loop.time(), CLOSED_AT_ONCE)
        elif len(self._made_at) > self._most and self._timer is None:
            # A loop that accepts hundreds of connections at once has not read yet what users have sent in theirs.
            self._timer = loop.call_later(ARRIVING_SECONDS, self._on_timer, loop)

    def replace(self, arrival: "Arrival", connection: "BoundedProtocol") -> None:
        """Replace an ``Arrival`` by its protocol after its first bytes; the age of the connection stays."""
        made_at = self._made_at.pop(arrival, None)
        if made_at is not None:
            self._made_at[connection] = made_at

    def discard(self, connection: "Arrival | BoundedProtocol") -> None:
        """Forget a connection."""
        self._made_at.pop(connection, None)

    def close(self) -> None:
        """Close the connections that have sent nothing; the server closes the others."""
        for connection in list(self._made_at):
            if isinstance(connection, Arrival):
                connection.transport.abort()

    def _on_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        closed = self._make_room(None, loop.time() - ARRIVING_SECONDS, CLOSED_AT_ONCE)
        if len(self._made_at) > self._most:  # some have only just arrived
            pause = ARRIVING_SECONDS if closed < CLOSED_AT_ONCE else CLOSING_PAUSE
            self._timer = loop.call_later(pause, self._on_timer, loop)

    def _make_room(self, spared: "Arrival | None", arrived: float, most: int) -> int:
        """Close the oldest strangers above the cap, and take connections of users off the list; return how many were removed."""
        surplus = min(len(self._made_at) - self._most, most)
        left = 0
        for connection, made_at in list(self._made_at.items()):
            if left >= surplus or made_at > arrived:
                break
            if connection.is_known:
                del self._made_at[connection]
                left += 1
            elif connection is not spared and not connection.is_answering:
                del self._made_at[connection]
                left += 1
                connection.transport.abort()
        return left


class Arrival(asyncio.Protocol):
    """A connection that has sent nothing yet."""

    is_known = is_answering = False

    def __init__(self, strangers: Strangers, head_seconds: float, **settings: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        #: The time limit of its first head.
        self.due = self.loop.time() + head_seconds
        self._strangers = strangers
        self._head_seconds = head_seconds
        self._settings = settings

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection, and wait for its first bytes."""
        self.transport = cast("asyncio.Transport", transport)
        self._strangers.add(self)
        self._timer = self.loop.call_at(self.due, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Create the protocol, and pass the connection on to it."""
        self._timer.cancel()
        protocol = BoundedProtocol(self, self._strangers, self._head_seconds, **self._settings)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        protocol.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the list."""
        del exc
        self._timer.cancel()
        self._strangers.discard(self)


class BoundedProtocol(H11Protocol):
    """One connection, with a time limit for each head; it counts as a stranger until its user is known."""

    def __init__(
        self, arrival: Arrival, strangers: Strangers, head_seconds: float, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self._arrival = arrival
        self._strangers = strangers
        self._head_seconds = head_seconds
        self._head: asyncio.TimerHandle | None = None
        self._left_of_body = 0  # bytes that arrived after the answer

    @property
    def is_known(self) -> bool:
        """Whether its last request was one of a user who is signed in (``Guard`` notes it in the scope)."""
        state: Any = self.scope.get("state") if self.scope else None
        return bool(state and state.get("user"))

    @property
    def is_answering(self) -> bool:
        """Whether a request is under way."""
        return bool(self.cycle) and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Replace the ``Arrival``, and wait for the first head."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._strangers.replace(self._arrival, self)
        self._head = self.loop.call_at(self._arrival.due, self._close_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the list."""
        self._strangers.discard(self)
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; the time limit ends with the head."""
        super().data_received(data)
        if self.is_answering:
            self._stop_waiting()
            self._left_of_body = 0
        elif self.conn.their_state is h11.SEND_BODY:
            self._left_of_body += len(data)
            if self._left_of_body > MOST_LEFT_OF_BODY:
                self.transport.close()
        elif self._head is None and not self.transport.is_closing():
            self._wait_for_head()

    def on_response_complete(self) -> None:
        """Continue with the next request; a part of its head may have arrived already, and has the same time limit."""
        super().on_response_complete()
        is_free = not self.is_answering and not self.transport.is_closing()
        if self._head is None and is_free and self.conn.trailing_data[0]:
            self._wait_for_head()

    def _wait_for_head(self) -> None:
        self._head = self.loop.call_later(self._head_seconds, self._close_slow)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _close_slow(self) -> None:
        self._head = None
        if not self.is_answering:
            self.transport.abort()


def stranger_cap(wanted: int) -> int:
    """The cap on connections of strangers: a quarter of the descriptors at most."""
    if sys.platform == "win32":
        return wanted
    import resource  # noqa: PLC0415  not on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(8, min(wanted, soft // 4))


def raise_file_limit() -> None:
    """Allow as many open files as the system does, up to ``MOST_FILES``: a page and its answer need one each."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415  not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS refuses more than the kernel has
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class WebServer(uvicorn.Server):
    """A server that ends its streams before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, hub: "Hub", strangers: Strangers) -> None:
        super().__init__(config)
        self._hub = hub
        self._strangers = strangers

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; exclude the objects loaded so far from garbage collection.

        With hundreds of open conversations, the collector's default thresholds cost a fifth of the server's time
        (https://docs.python.org/3/library/gc.html#gc.freeze).
        """
        await super().startup(sockets)
        for listening in (each for server in self.servers for each in server.sockets):
            with listening.dup() as same:
                same.listen(MOST_WAITING)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then shut down."""
        self._hub.close_streams()
        self._strangers.close()
        await super().shutdown(sockets)


def web_secrets(folders: Folders) -> SecretStore:
    """The store of the password's hash and the secret that signs sessions."""
    return FileSecrets(folders.data / "web.json")


def open_access(options: ServerOptions, secret_store: SecretStore) -> AccessPolicy:
    """Make the access policy of a server.

    Raises:
        UsageError: Other machines could reach the server without a password or a proxy.
    """
    password = read_password(secret_store)
    if not is_loopback(options.host) and password is None and options.proxy is None:
        raise UsageError(
            f"Other machines can reach {options.host}: set a password first (mlc serve --set-password), "
            "or name the header in which your proxy names the user (--auth-header)"
        )
    return AccessPolicy(
        read_secret(secret_store),
        password_hash=password,
        proxy=options.proxy,
        hosts=options.hosts,
        is_encrypted=options.is_encrypted,
        metrics_token=options.metrics_token,
        sessions=secret_store,
    )


def make_server(hub: "Hub", access: AccessPolicy, options: ServerOptions) -> WebServer:
    """Make the server, ready to run."""
    shows_components = (
        options.shows_components or os.environ.get("MULTI_LLM_CHAT_COMPONENTS") == "1"
    )
    raise_file_limit()
    strangers = Strangers(stranger_cap(options.most_strangers))
    protocol = partial(Arrival, strangers, options.head_seconds)
    config = uvicorn.Config(
        make_app(
            hub,
            access,
            shows_components=shows_components,
            stranger_seconds=options.head_seconds,
        ),
        http=cast("type[asyncio.Protocol]", protocol),
        host=options.host,
        port=options.port,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=3,
    )
    return WebServer(config, hub, strangers)
