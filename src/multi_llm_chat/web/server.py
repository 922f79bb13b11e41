"""Run the web app on an address.

Rules:
1. Without a password or a proxy that knows its users, it listens on this machine alone.
2. When it ends, streams end first: no open page holds it up.
"""

import socket
from typing import Any

import uvicorn
from msgspec import Struct

from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.secrets import FileSecrets, SecretStore
from multi_llm_chat.errors import UsageError
from multi_llm_chat.web.access import Access, Proxy, is_loopback, read_password, read_secret
from multi_llm_chat.web.app import make_app
from multi_llm_chat.web.hub import Hub


class Address(Struct, frozen=True):
    """Where to listen, and how browsers are let in."""

    host: str = "127.0.0.1"
    port: int = 8765
    hosts: tuple[str, ...] = ()
    proxy: Proxy | None = None
    is_encrypted: bool = False
    figures_token: str = ""


class Server(uvicorn.Server):
    """A server that ends its streams before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the server."""
        self._hub.hang_up()
        await super().shutdown(sockets)


def web_secrets(folders: Folders) -> SecretStore:
    """Where the password's hash and the secret of sessions are kept."""
    return FileSecrets(folders.data / "web.json")


def open_access(address: Address, kept: SecretStore) -> Access:
    """Who may come in at an address.

    Raises:
        UsageError: Others could reach it, and nothing would hold them off.
    """
    password = read_password(kept)
    if not is_loopback(address.host) and password is None and address.proxy is None:
        raise UsageError(
            f"{address.host} can be reached by others: set a password first (mlc serve --set-password), "
            "or name the header by which your proxy tells users (--auth-header)"
        )
    return Access(
        read_secret(kept),
        password_hash=password,
        proxy=address.proxy,
        hosts=address.hosts,
        is_encrypted=address.is_encrypted,
        figures_token=address.figures_token,
    )


def make_server(hub: Hub, access: Access, address: Address, **settings: Any) -> Server:
    """The server, ready to run."""
    config = uvicorn.Config(
        make_app(hub, access),
        host=address.host,
        port=address.port,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=3,
        **settings,
    )
    return Server(config, hub)
