"""Everything a program needs, from the user's configuration: speakers, tools, conversations.

Rules:
1. Making a workspace reads the settings and nothing else; each part is opened when it is first used.
2. MCP servers are started once, by ``start_tools``; one that cannot be started is a problem to tell, not a failure.
3. Who closes the workspace closes everything it has opened.
"""

import asyncio
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from multi_llm_chat.config.folders import Folders, program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.reading import read_settings
from multi_llm_chat.config.secrets import open_secrets
from multi_llm_chat.config.values import Settings
from multi_llm_chat.errors import UsageError
from multi_llm_chat.service.chat import ChatService
from multi_llm_chat.service.speakers import Speakers, configured_speakers
from multi_llm_chat.store import Store, open_store
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.approval import ApprovalCallback
from multi_llm_chat.tools.mcp.settings import ReadServers, ServerSettings, read_servers

_TOKENS = "multi_llm_chat-mcp"


class Workspace:
    """The user's speakers, tools and conversations.

    Args:
        folders: Where configuration and data are; the program's own if not given.
        keys: Where keys are found.
        settings: Instead of those in the configuration file.
        place: Where conversations are kept, instead of the configured place.
        approve: Asks the user before a tool runs that needs it.

    Raises:
        UsageError: The configuration file cannot be used.
    """

    def __init__(
        self,
        folders: Folders | None = None,
        *,
        keys: Keys | None = None,
        settings: Settings | None = None,
        place: str | None = None,
        approve: ApprovalCallback | None = None,
    ) -> None:
        self.folders = folders or program_folders()
        self.keys = keys or Keys(folders=self.folders)
        self.settings = settings or read_settings(self.folders.config_file)
        self._place = place
        self._approve = approve
        self._servers: Any = None
        self.problems: list[str] = []
        #: What is to be ended before everything is closed.
        self.endings: list[Callable[[], None]] = []

    @cached_property
    def store(self) -> Store:
        """The conversations."""
        place = self._place or self.settings.store
        if place is None:
            self.folders.data.mkdir(mode=0o700, parents=True, exist_ok=True)
            place = str(self.folders.store_file)
        return open_store(place)

    @cached_property
    def speakers(self) -> Speakers:
        """Who can be asked."""
        return configured_speakers(self.settings, self.keys)

    @cached_property
    def tools(self) -> ToolRegistry:
        """What the models may use; MCP servers' tools are there once they have started."""
        told = self.settings.tools
        rules = dict(told.rules)
        if told.approval is not None:
            rules["*"] = told.approval
        return ToolRegistry(
            timeout=told.timeout, approve=self._approve, disable=told.disabled, rules=rules
        )

    def chat(self, conversation: str | None = None) -> ChatService:
        """A conversation: a new one, or the one of this id."""
        return ChatService(
            self.speakers,
            store=self.store,
            tools=self.tools,
            settings=self.settings,
            conversation=conversation,
        )

    def use_engine(self, address: str) -> Any:
        """Let workers give the answers: they are put into the queue at this address, which is given back.

        Raises:
            UsageError: Something is missing for it.
        """
        if self.store.file is not None:
            raise UsageError("Workers need a database that all reach: --db postgresql://…")
        try:
            # The package is an extra, and takes long to load: only who has workers needs it.
            from multi_llm_chat.durable.dbos_engine import DbosEngine  # noqa: PLC0415
        except ImportError:
            raise UsageError(
                "Workers need more packages: pip install 'multi_llm_chat[scale]'"
            ) from None
        engine = DbosEngine(address)
        self.store.beside["engine"] = engine
        self.endings.append(engine.close)
        return engine

    def configured_servers(self) -> ReadServers:
        """The MCP servers of ``mcp.json``, and our own for the folders that may be read."""
        path = self.folders.servers_file
        try:
            found = read_servers(path.read_bytes())
        except FileNotFoundError:
            found = ReadServers()
        except (OSError, UsageError) as error:
            found = ReadServers(problems=(f"{path}: {error}",))
        return ReadServers((*found.servers, *self._own_server()), found.problems)

    def start_tools(self, **callbacks: Any) -> None:
        """Start the MCP servers; the callbacks are those of ``McpServers``."""
        servers = self._prepared(callbacks)
        if servers is not None:
            servers.start_sync()

    async def astart_tools(self, **callbacks: Any) -> None:
        """Like ``start_tools``, to be awaited."""
        servers = self._prepared(callbacks)
        if servers is not None:
            await servers.start()

    @property
    def servers(self) -> Any:
        """The ``McpServers`` that were started; None if there are none."""
        return self._servers

    def close(self) -> None:
        """Close everything."""
        self._end()
        if self._servers is not None:
            self._servers.stop_sync()
        for part in ("speakers", "store"):
            if part in self.__dict__:
                getattr(self, part).close()

    async def aclose(self) -> None:
        """Like ``close``, to be awaited."""
        await asyncio.to_thread(self._end)
        if self._servers is not None:
            await self._servers.stop()
        if "speakers" in self.__dict__:
            await self.speakers.aclose()
        if "store" in self.__dict__:
            await asyncio.to_thread(self.store.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _end(self) -> None:
        while self.endings:
            self.endings.pop()()

    def _prepared(self, callbacks: dict[str, Any]) -> Any:
        configured = self.configured_servers()
        self.problems += configured.problems
        if not configured.servers or self._servers is not None:
            return None
        try:
            # The package is an extra, and takes long to load: only who has servers needs it.
            from multi_llm_chat.tools.mcp import McpServers  # noqa: PLC0415
        except ImportError:
            self.problems.append(
                "MCP servers need the package mcp. Install it: pip install 'multi_llm_chat[mcp]'"
            )
            return None
        callbacks.setdefault("tokens", open_secrets(self.folders.data / "tokens.json", _TOKENS))
        self._servers = McpServers(configured, self.tools, **callbacks)
        return self._servers

    def _own_server(self) -> tuple[ServerSettings, ...]:
        folders = self.settings.tools.folders
        if not folders:
            return ()
        roots = (str(Path(folder).expanduser()) for folder in folders)
        arguments = ("-m", "multi_llm_chat.tools.filesystem", *roots)
        return (ServerSettings("files", sys.executable, arguments),)
