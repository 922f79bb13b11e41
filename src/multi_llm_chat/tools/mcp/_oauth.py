"""OAuth sign-in to a remote server that requires it.

Rules:
1. The user sees the address and decides; this module opens nothing. Without a callback for questions there is no sign-in.
2. The code returns to a listener on this machine, which exists only during the sign-in, accepts only requests from this machine, and serves
   one page. The official client checks ``state`` and issuer.
3. Tokens and registrations are stored by the server's address, together with the expiry of the token and the place of its renewal, so that
   a restart needs no new sign-in.
4. A registration in the settings (id and secret) is used unchanged. A client-id metadata document replaces a registration if the server
   supports that; otherwise the program registers itself.
5. Before a request to another origin than the server's, the user is asked; allowed origins are stored with the tokens. Otherwise a server
   could make this program send requests to any address.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Set
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from msgspec import Struct
from pydantic import AnyUrl, ValidationError

from multi_llm_chat.config.secrets import SecretStore
from multi_llm_chat.tools.mcp._server_requests import Answers
from multi_llm_chat.tools.mcp.server_messages import Elicitation
from multi_llm_chat.tools.mcp.server_settings import OAuthClient, ServerSettings
from multi_llm_chat.tools.threads import in_thread

_HOST: Final = "127.0.0.1"
_PATH: Final = "/callback"
_PAGE: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Security-Policy: default-src 'none'\r\n\r\nDone. You can close this page."
)
_NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"
#: Seconds that the user has to sign in.
_PATIENCE: Final = 600.0


def sign_in(
    settings: ServerSettings, answers: Answers, tokens: SecretStore, port: int
) -> httpx2.Auth | None:
    """The authentication of the requests; None if the settings have their own authorization or want none.

    Args:
        settings: The server.
        answers: Asks the user.
        tokens: Where tokens are kept.
        port: The port to which the browser returns.
    """
    if not settings.oauth or any(name.lower() == "authorization" for name in settings.headers):
        return None
    visit = _Visit(settings, answers, port)
    client = settings.client or OAuthClient()
    described = OAuthClientMetadata(
        client_name="multi_llm_chat",
        redirect_uris=[AnyUrl(f"http://{_HOST}:{port}{_PATH}")],
        grant_types=["authorization_code", "refresh_token"],
        # These are names of methods, not secrets; without a secret this is a public client.
        token_endpoint_auth_method="client_secret_post" if client.client_secret else "none",
        scope=client.scope or None,
    )
    known = None
    if client.client_id:
        known = OAuthClientInformationFull(
            client_id=client.client_id,
            client_secret=client.client_secret or None,
            **described.model_dump(),
        )
    kept = StoredTokens(settings.url, tokens, known)
    return _KeptSignIn(
        _Origins(settings, answers, kept),
        settings.url,
        described,
        kept,
        redirect_handler=visit.begin,
        callback_handler=visit.finish,
        client_metadata_url=client.client_metadata_url or None,
    )


class _Origins:
    """The origins to which the sign-in to a server may send requests."""

    def __init__(self, settings: ServerSettings, answers: Answers, kept: "StoredTokens") -> None:
        self._settings = settings
        self._answers = answers
        self._kept = kept
        self._allowed: set[str] | None = None

    async def require(self, address: str) -> None:
        """Ask the user about an origin that is neither the server's nor allowed before.

        Raises:
            OAuthFlowError: The user does not allow the origin.
        """
        origin, own = _origin(address), _origin(self._settings.url)
        if origin == own:
            return
        if self._allowed is None:
            self._allowed = await self._kept.read_origins()
        if origin in self._allowed:
            return
        question = Elicitation(
            self._settings.name,
            f"The server {self._settings.name!r} ({own}) wants you to sign in at another address: {origin}. "
            "Continue if you trust it.",
            "form",
            schema={"type": "object", "properties": {}},
        )
        if (await self._answers.ask(question)).action != "accept":
            raise OAuthFlowError(f"the sign-in at {origin} was not allowed")
        self._allowed.add(origin)
        await self._kept.write_origins(self._allowed)


def _origin(address: str) -> str:
    parts = urlsplit(address)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{parts.hostname}:{port}"


class _KeptSignIn(OAuthClientProvider):
    """The official client, extended: it asks about other origins, and keeps the expiry and renewal of its token over a restart."""

    def __init__(self, origins: _Origins, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._origins = origins

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with contextlib.aclosing(super()._auth_flow(request)) as flow:
            wanted = await anext(flow)
            while True:
                await self._origins.require(str(wanted.url))
                response = yield wanted
                try:
                    wanted = await flow.asend(response)
                except StopAsyncIteration:
                    return

    async def _exchange_token_authorization_code(
        self, auth_code: str, code_verifier: str
    ) -> httpx2.Request:
        self._choose_method()
        return await super()._exchange_token_authorization_code(auth_code, code_verifier)

    async def _refresh_token(self) -> httpx2.Request:
        self._choose_method()
        return await super()._refresh_token()

    def _choose_method(self) -> None:
        """Send the secret of the settings in the way that the authorization server supports.

        A server that names no method supports ``client_secret_basic`` (RFC 8414, section 2).
        """
        client, metadata = self.context.client_info, self.context.oauth_metadata
        kept = self.context.storage
        assert isinstance(kept, StoredTokens)
        if client is None or not kept.is_given or not client.client_secret or metadata is None:
            return
        supported = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
        known = ("client_secret_post", "client_secret_basic")
        method = next((each for each in known if each in supported), None)
        client.token_endpoint_auth_method = method or client.token_endpoint_auth_method

    async def _initialize(self) -> None:
        await super()._initialize()
        kept = self.context.storage
        assert isinstance(kept, StoredTokens)
        kept.metadata = lambda: self.context.oauth_metadata
        expires, metadata = await kept.read_state()
        self.context.token_expiry_time = expires
        self.context.oauth_metadata = self.context.oauth_metadata or metadata


class StoredTokens:
    """One server's tokens, in the form that the official client needs. Reading a keyring may take long."""

    def __init__(
        self, address: str, tokens: SecretStore, known: OAuthClientInformationFull | None = None
    ) -> None:
        self._tokens = tokens
        self._known = known
        self._token_key = f"{address} token"
        self._client_key = f"{address} client"
        self._state_key = f"{address} state"
        self._origins_key = f"{address} origins"
        #: The metadata of the authorization server.
        self.metadata: Callable[[], OAuthMetadata | None] = lambda: None

    async def read_state(self) -> tuple[float | None, OAuthMetadata | None]:
        """When the stored token expires, and the metadata of the authorization server."""
        text = await in_thread(lambda: self._tokens.read(self._state_key), "tokens")
        with contextlib.suppress(ValidationError, msgspec.DecodeError):
            state = msgspec.json.decode(text or "{}", type=_State)
            found = state.metadata and OAuthMetadata.model_validate_json(state.metadata)
            return state.expires, found or None
        return None, None

    @property
    def is_given(self) -> bool:
        """Whether the registration comes from the settings."""
        return self._known is not None

    async def read_origins(self) -> set[str]:
        """The other origins that the user has allowed."""
        text = await in_thread(lambda: self._tokens.read(self._origins_key), "tokens")
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(text or "[]", type=set[str])
        return set()

    async def write_origins(self, origins: Set[str]) -> None:
        """Store the other origins that the user has allowed."""
        written = msgspec.json.encode(sorted(origins)).decode()
        await in_thread(lambda: self._tokens.write(self._origins_key, written), "tokens")

    async def get_tokens(self) -> OAuthToken | None:
        """The stored token; None if there is none or it cannot be read."""
        text = await in_thread(lambda: self._tokens.read(self._token_key), "tokens")
        with contextlib.suppress(ValidationError):
            return None if text is None else OAuthToken.model_validate_json(text)
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store a token."""
        text = tokens.model_dump_json(exclude_none=True)
        metadata = self.metadata()
        state = _State(
            None if tokens.expires_in is None else time.time() + tokens.expires_in,
            "" if metadata is None else metadata.model_dump_json(exclude_none=True),
        )
        await in_thread(lambda: self._tokens.write(self._token_key, text), "tokens")
        written = msgspec.json.encode(state).decode()
        await in_thread(lambda: self._tokens.write(self._state_key, written), "tokens")

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The registration of the settings, or the stored one; None if it cannot be read."""
        if self._known is not None:
            return self._known
        text = await in_thread(lambda: self._tokens.read(self._client_key), "tokens")
        with contextlib.suppress(ValidationError):
            return None if text is None else OAuthClientInformationFull.model_validate_json(text)
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a registration."""
        text = client_info.model_dump_json(exclude_none=True)
        await in_thread(lambda: self._tokens.write(self._client_key, text), "tokens")


class _State(Struct):
    """The data stored with a token."""

    expires: float | None = None
    metadata: str = ""


class _Visit:
    """One visit of the user to the sign-in page, and the listener for the way back."""

    def __init__(self, settings: ServerSettings, answers: Answers, port: int) -> None:
        self._settings = settings
        self._answers = answers
        self._port = port
        self._url = ""

    async def begin(self, url: str) -> None:
        self._url = url

    async def finish(self) -> AuthorizationCodeResult:
        question = Elicitation(
            self._settings.name,
            f"The server {self._settings.name!r} wants you to sign in. Open this address if you "
            "trust it.",
            "url",
            url=self._url,
        )
        async with _listener(self._port) as arrived:
            answer = await self._answers.ask(question)
            if answer.action != "accept":
                raise OAuthFlowError("the server demands a sign-in, and no user agreed to it")
            async with asyncio.timeout(_PATIENCE):
                return await arrived


@contextlib.asynccontextmanager
async def _listener(port: int) -> AsyncGenerator["asyncio.Future[AuthorizationCodeResult]"]:
    arrived: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                line = (await reader.readline()).decode("latin-1")
                while (await reader.readline()).strip():
                    continue
            result = _read_redirect(line)
            writer.write(_NOT_FOUND if result is None else _PAGE)
            await writer.drain()
            if result is not None and not arrived.done():
                _settle(arrived, result)
        except (OSError, TimeoutError, ValueError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, _HOST, port, limit=16_384)
    try:
        yield arrived
    finally:
        server.close()


def _settle(
    arrived: "asyncio.Future[AuthorizationCodeResult]", result: AuthorizationCodeResult | str
) -> None:
    if isinstance(result, str):
        arrived.set_exception(OAuthFlowError(f"the sign-in was refused: {result}"))
    else:
        arrived.set_result(result)


def _read_redirect(line: str) -> AuthorizationCodeResult | str | None:
    """The code or the error in the request line; None for any other request."""
    words = line.split()
    if len(words) < 2 or words[0] != "GET":
        return None
    target = urlsplit(words[1])
    if target.path != _PATH:
        return None
    query = {key: values[0] for key, values in parse_qs(target.query).items()}
    if "code" in query:
        return AuthorizationCodeResult(
            code=query["code"], state=query.get("state"), iss=query.get("iss")
        )
    return query.get("error")
