"""Signing in to a remote server that demands it.

Rules:
1. The user is shown the address and decides; nothing is opened here. Without a user to ask there is no sign-in.
2. The code comes back to a listener on this machine, which exists only while it is waited for, takes
   requests from this machine alone, and answers one page. The official client checks ``state`` and issuer.
3. Tokens and registrations are kept for the server's address, and nowhere else.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, ValidationError

from multi_llm_chat.config.secrets import SecretStore
from multi_llm_chat.tools.mcp._server_requests import Answers
from multi_llm_chat.tools.mcp.server_messages import Elicitation
from multi_llm_chat.tools.mcp.server_settings import ServerSettings
from multi_llm_chat.tools.threads import in_thread

_HOST: Final = "127.0.0.1"
_PATH: Final = "/callback"
_PAGE: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Security-Policy: default-src 'none'\r\n\r\nDone. You can close this page."
)
_NOT_FOUND: Final = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"
#: Seconds a person has to sign in.
_PATIENCE: Final = 600.0


def sign_in(
    settings: ServerSettings, answers: Answers, tokens: SecretStore, port: int
) -> httpx2.Auth | None:
    """What signs the requests; None where the settings bring their own authorization or want none.

    Args:
        settings: The server.
        answers: Asks the user.
        tokens: Where tokens are kept.
        port: The port to which the browser returns.
    """
    if not settings.oauth or any(name.lower() == "authorization" for name in settings.headers):
        return None
    visit = _Visit(settings, answers, port)
    return OAuthClientProvider(
        settings.url,
        OAuthClientMetadata(
            client_name="multi_llm_chat",
            redirect_uris=[AnyUrl(f"http://{_HOST}:{port}{_PATH}")],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="none",  # noqa: S106 - a method's name; this is a public client
        ),
        StoredTokens(settings.url, tokens),
        redirect_handler=visit.begin,
        callback_handler=visit.finish,
    )


class StoredTokens:
    """One server's tokens, in the form the official client wants; a keyring may take its time."""

    def __init__(self, address: str, tokens: SecretStore) -> None:
        self._tokens = tokens
        self._token_key = f"{address} token"
        self._client_key = f"{address} client"

    async def get_tokens(self) -> OAuthToken | None:
        """The kept token; one that cannot be read is none."""
        text = await in_thread(lambda: self._tokens.read(self._token_key), "tokens")
        with contextlib.suppress(ValidationError):
            return None if text is None else OAuthToken.model_validate_json(text)
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep a token."""
        text = tokens.model_dump_json(exclude_none=True)
        await in_thread(lambda: self._tokens.write(self._token_key, text), "tokens")

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The kept registration; one that cannot be read is none."""
        text = await in_thread(lambda: self._tokens.read(self._client_key), "tokens")
        with contextlib.suppress(ValidationError):
            return None if text is None else OAuthClientInformationFull.model_validate_json(text)
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a registration."""
        text = client_info.model_dump_json(exclude_none=True)
        await in_thread(lambda: self._tokens.write(self._client_key, text), "tokens")


class _Visit:
    """The user's way to the sign-in page and back."""

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
    """The code from the request line, the error in it, or None for something else."""
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
