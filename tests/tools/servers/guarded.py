"""A server that requires a sign-in, with its own authorization server that accepts everyone."""

import secrets
import socket
import threading
import time
from urllib.parse import urlencode

import mcp_types
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl


class Guard(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Clients, codes and tokens, in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshing: dict[str, RefreshToken] = {}
        self.renewals = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        assert client.client_id is not None
        code = secrets.token_urlsafe(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return f"{params.redirect_uri}?{urlencode({'code': code, 'state': params.state or ''})}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(authorization_code.client_id, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.renewals += 1
        return self._issue(refresh_token.client_id, None)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _issue(self, client_id: str, resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.tokens[access] = AccessToken(
            token=access, client_id=client_id, scopes=[], resource=resource
        )
        self.refreshing[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=[])
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=3600)


class GuardedServer:
    """Runs in a thread of the test, so that the test can inspect its tokens."""

    def __init__(self, issuing_host: str = "127.0.0.1") -> None:
        self.guard = Guard()
        self._socket = socket.create_server(("127.0.0.1", 0))
        port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/mcp"
        #: Where users sign in: a different origin if the host's name differs.
        self.issuer = f"http://{issuing_host}:{port}"
        server = MCPServer(
            "guarded",
            auth_server_provider=self.guard,
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(self.issuer),
                resource_server_url=AnyHttpUrl(self.url),
                client_registration_options=ClientRegistrationOptions(enabled=True),
                validate_token_resource=False,
            ),
            log_level="ERROR",
        )

        @server.tool(annotations=mcp_types.ToolAnnotations(read_only_hint=True))
        def treasure() -> str:
            """What is guarded."""
            return "gold"

        del treasure
        settings = uvicorn.Config(server.streamable_http_app(), log_level="error", ws="none")
        self._uvicorn = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._uvicorn.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._uvicorn.should_exit = True
        self._thread.join()
        self._socket.close()
