"""Servers for tests: models are simulated over HTTP, everything else is as for users."""

import multiprocessing
import os
import runpy
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, TextIO

import httpx2
import pytest

from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.secrets import MemorySecrets
from multi_llm_chat.testing.simulator import Simulator
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.web.access import AccessPolicy, Proxy
from multi_llm_chat.web.hub import Hub
from multi_llm_chat.web.server import ServerOptions, make_server

#: The speakers, and the provider of each.
SPEAKERS = {"gemini": "gemini", "chatgpt": "openai", "claude": "anthropic"}

PATIENCE = 20.0
TEST_KEY = "test-key-of-no-value"

# Processes are forked from a server that has imported the needed modules and has no threads or connections.
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [
        "tests.web.server_process",
        "multi_llm_chat.cli.ask",
        "multi_llm_chat.cli.servers",
        "multi_llm_chat.cli.terminal.boards",
        "multi_llm_chat.tools.mcp.servers",
        "multi_llm_chat.http.async_transport",
        "multi_llm_chat.http.sync_transport",
    ]
)


class RunningServer:
    """A running server."""

    def __init__(self, hub: Hub, access: AccessPolicy, simulator: Simulator, port: int) -> None:
        self.hub = hub
        self.access = access
        self.simulator = simulator
        self.url = f"http://127.0.0.1:{port}"

    @property
    def tools(self) -> ToolRegistry:
        return self.hub.workspace.tools

    def add_replies(self, speaker: str, *replies: Any) -> None:
        """Add to the scripted replies of a speaker."""
        self.simulator.script.add(*replies, provider=SPEAKERS[speaker])

    def link(self, path: str = "/") -> str:
        return f"{self.url}{path}?token={self.access.new_link()}"

    @contextmanager
    def signed_in_client(self, **settings: Any) -> Generator[httpx2.Client]:
        """Return an HTTP client that is signed in."""
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
def run_server(
    folder: Path,
    script: Any = (),
    *,
    speakers: Sequence[str] = tuple(SPEAKERS),
    config: str = "",
    proxy: Proxy | None = None,
    password_hash: str | None = None,
    hosts: tuple[str, ...] = (),
    metrics_token: str = "",
    shows_components: bool = False,
    prepare: Callable[[Hub], object] = lambda _hub: None,
    simulator: Mapping[str, Any] | None = None,
    keep_alive: int = 5,
    **limits: Any,
) -> Generator[RunningServer]:
    """Run a server in a thread; its files are below the folder.

    ``prepare`` is called before it serves, ``simulator`` are settings of the simulator, ``keep_alive`` is how many seconds
    a connection may be idle between two requests, ``limits`` are further options.
    """
    folders = Folders(folder / "config", folder / "data", folder / "state")
    folders.config.mkdir(parents=True, exist_ok=True)
    with Simulator(script, **(simulator or {})) as providers:
        chosen = {name: SPEAKERS[name] for name in speakers}
        folders.config_file.write_text(config + config_of(providers, chosen), encoding="utf-8")
        keys = Keys(
            folders=folders,
            environment={"TEST_KEY": TEST_KEY},
            secrets=MemorySecrets(),
            working_folder=folder,
        )
        hub = Hub(lambda approve: Workspace(folders, keys=keys, approve=approve))
        prepare(hub)
        access = AccessPolicy(
            b"secret of this test",
            proxy=proxy,
            password_hash=password_hash,
            hosts=hosts,
            metrics_token=metrics_token,
        )
        listening = socket.create_server(("127.0.0.1", 0))
        options = ServerOptions(
            port=listening.getsockname()[1], shows_components=shows_components, **limits
        )
        server = make_server(hub, access, options)
        server.config.timeout_keep_alive = keep_alive
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield RunningServer(hub, access, providers, listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            listening.close()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "multi_llm_chat", *arguments]


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return kept | {"MULTI_LLM_CHAT_HOME": str(folder), "TEST_KEY": "test-key-of-no-value"} | more


@contextmanager
def mlc_process(folder: Path, *words: str) -> Generator[tuple[BaseProcess, TextIO]]:
    """Run ``mlc`` as a process, and yield it with its output; killed at the end."""
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as printed:
        process = _FORKING.Process(
            target=_run_mlc, args=(words, environment(folder), DupFd(writing)), daemon=True
        )
        process.start()
        os.close(writing)
        try:
            yield process, printed
        finally:
            process.kill()
            process.join()


@contextmanager
def serve_process(folder: Path, port: int = 0) -> Generator[tuple[BaseProcess, str]]:
    """Run ``mlc serve`` as a process, and yield it with the link it prints; killed at the end."""
    with mlc_process(folder, "serve", "--port", str(port), "--no-open") as (process, printed):
        yield process, printed.readline().split()[-1]


def _run_mlc(words: Sequence[str], settings: Mapping[str, str], output: Any) -> None:
    """Run ``mlc`` in this process."""
    os.environ.clear()
    os.environ.update(settings)
    os.dup2(output.detach(), 1)
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1)  # noqa: SIM115  it lives as long as the process
    sys.argv = ["mlc", *words]
    runpy.run_module("multi_llm_chat", run_name="__main__")


def write_config(folder: Path, simulator: Simulator, config: str = "") -> None:
    """Write the settings of a server that runs as a process."""
    (folder / "config").mkdir(parents=True, exist_ok=True)
    text = config + config_of(simulator, SPEAKERS)
    (folder / "config" / "config.toml").write_text(text, encoding="utf-8")


def install_npm_package(config: pytest.Config, package: str) -> Path:
    """Install a package that only tests need into pytest's cache; return its ``node_modules``."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm on this machine")
    cache: pytest.Cache = config.cache
    folder = cache.mkdir(package.replace("@", "-"))
    done = folder / "done"
    if not done.exists():
        options = ("--silent", "--no-audit", "--no-fund", "--prefix", str(folder))
        install = [npm, "install", *options, package]
        if subprocess.run(install, check=False, capture_output=True, timeout=90).returncode:
            pytest.skip(f"{package} cannot be taken from npm here")
        done.touch()
    return folder / "node_modules"
