"""A real server with real conversations: models are simulated over HTTP, everything else is what users get."""

import socket
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.secrets import MemorySecrets
from multi_llm_chat.service.workspace import Workspace
from multi_llm_chat.testing.simulator import Simulator
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.web.access import Access, Proxy
from multi_llm_chat.web.hub import Hub
from multi_llm_chat.web.serving import Address, make_server

#: Who speaks, and as which provider.
SPEAKERS = {"gemini": "gemini", "chatgpt": "openai", "claude": "anthropic"}

PATIENCE = 20.0


class House:
    """A running server."""

    def __init__(self, hub: Hub, access: Access, simulator: Simulator, port: int) -> None:
        self.hub = hub
        self.access = access
        self.simulator = simulator
        self.url = f"http://127.0.0.1:{port}"

    @property
    def tools(self) -> ToolRegistry:
        return self.hub.workspace.tools

    def says(self, speaker: str, *replies: Any) -> None:
        """What a speaker will say next."""
        self.simulator.script.add(*replies, provider=SPEAKERS[speaker])

    def link(self, path: str = "/") -> str:
        return f"{self.url}{path}?token={self.access.new_link()}"

    @contextmanager
    def visitor(self, **settings: Any) -> Generator[httpx2.Client]:
        """A browser without a screen that is signed in."""
        with httpx2.Client(base_url=self.url, timeout=PATIENCE, **settings) as client:
            page = client.get(self.link(), follow_redirects=True)
            client.headers |= {"x-form-token": form_token(page.text), "origin": self.url}
            yield client


def form_token(html: str) -> str:
    return html.partition('name="form-token" content="')[2].partition('"')[0]


def config_of(simulator: Simulator, speakers: Mapping[str, str]) -> str:
    tables = [
        f'[speakers.{name}]\nprovider = "{provider}"\nbase_url = "{simulator.base_url(provider)}"\nkey = "TEST_KEY"\n'
        for name, provider in speakers.items()
    ]
    return "\n".join(tables)


@contextmanager
def house(
    folder: Path,
    script: Any = (),
    *,
    speakers: Sequence[str] = tuple(SPEAKERS),
    config: str = "",
    proxy: Proxy | None = None,
    password_hash: str | None = None,
    hosts: tuple[str, ...] = (),
) -> Generator[House]:
    """A server in a thread; everything it keeps is below the folder."""
    folders = Folders(folder / "config", folder / "data", folder / "state")
    folders.config.mkdir(parents=True, exist_ok=True)
    with Simulator(script) as simulator:
        chosen = {name: SPEAKERS[name] for name in speakers}
        folders.config_file.write_text(config + config_of(simulator, chosen), encoding="utf-8")
        keys = Keys(
            folders=folders,
            environment={"TEST_KEY": "test-key-of-no-value"},
            secrets=MemorySecrets(),
            working_folder=folder,
        )
        hub = Hub(lambda approve: Workspace(folders, keys=keys, approve=approve))
        access = Access(
            b"secret of this test", proxy=proxy, password_hash=password_hash, hosts=hosts
        )
        listening = socket.create_server(("127.0.0.1", 0))
        server = make_server(hub, access, Address(port=listening.getsockname()[1]))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield House(hub, access, simulator, listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            listening.close()
