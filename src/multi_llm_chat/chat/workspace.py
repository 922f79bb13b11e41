"""The workspace of a program, built from the user's configuration: speakers, tools, store, host.

Rules:
1. Creating a workspace reads the settings and nothing else; each part is opened when it is first used.
2. ``start_tools`` starts the MCP servers once. A server that fails to start raises no error: ``problems`` names unusable configuration,
   ``servers.missing()`` the servers that did not start.
3. Closing the workspace closes everything it has opened.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.planner import Planner
from multi_llm_chat.chat.run_resolver import RunResolver, Scoped, as_they_are
from multi_llm_chat.chat.speakers import Speakers, configured_speakers
from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.folders import Folders, program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.secrets import SecretStore, open_secrets
from multi_llm_chat.config.settings import Approval, Settings
from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.runs.leases import LEASE, RunHost, RunQueue, report_unsaved
from multi_llm_chat.runs.recovery import resume_runs
from multi_llm_chat.store import RunInfo, Store, open_store
from multi_llm_chat.store.records import RunStatus
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.approval import ApprovalCallback
from multi_llm_chat.tools.mcp.server_settings import ReadServers, ServerSettings, read_servers

_TOKENS = "multi_llm_chat-mcp"


class Workspace:
    """The user's speakers, tools and conversations.

    Args:
        folders: The folders of configuration and data; the program's own if not given.
        keys: Finds the providers' keys.
        settings: Used instead of the configuration file.
        place: Path or address of the conversations, instead of the configured one.
        approve: Called to ask the user before a tool that needs approval runs.
        lease: Seconds for which a run belongs to this process without a renewal.

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
        lease: float = LEASE,
    ) -> None:
        self.folders = folders or program_folders()
        self.keys = keys or Keys(folders=self.folders)
        self.settings = settings or read_settings(self.folders.config_file)
        self._place = place
        self._approve = approve
        self._lease = lease
        self._servers: Any = None
        self.problems: list[str] = []
        #: Functions that ``close`` calls before anything else, in reverse order.
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
    def host(self) -> RunHost:
        """The ``RunHost`` of this process, shared by all conversations of the workspace."""
        return RunHost(self.store, lease=self._lease)

    @cached_property
    def speakers(self) -> Speakers:
        """The speakers."""
        return configured_speakers(self.settings, self.keys)

    @cached_property
    def tools(self) -> ToolRegistry:
        """The tools; those of an MCP server are added when it has started."""
        configured = self.settings.tools
        return ToolRegistry(
            timeout=configured.timeout,
            approve=self._approve,
            disable=configured.disabled,
            rules=approval_rules(self.settings),
        )

    def chat(self, conversation: str | None = None) -> ChatService:
        """A conversation: a new one, or the one with this id."""
        return ChatService(
            self.speakers,
            store=self.store,
            tools=self.tools,
            settings=self.settings,
            conversation=conversation,
            host=self.host,
        )

    def use_queue(self, address: str) -> RunQueue:
        """Let workers drive new runs, through the queue at this address; return the queue.

        Raises:
            UsageError: The store is a file, or a package is missing.
        """
        if self.store.file is not None:
            raise UsageError("Workers need a database that all reach: --db postgresql://…")
        try:
            # An extra that takes long to import; only programs with workers need it.
            from multi_llm_chat.runs.dbos_queue import DbosQueue  # noqa: PLC0415
        except ImportError:
            raise UsageError(
                "Workers need more packages: pip install 'multi_llm_chat[scale]'"
            ) from None
        queue = DbosQueue(address)
        self.host.queue = queue
        self.endings.append(queue.close)
        return queue

    async def aresume_runs(
        self,
        *,
        on_found: Callable[[RunInfo], object] = lambda _info: None,
        scoped: Scoped = as_they_are,
    ) -> dict[str, RunStatus | None]:
        """Resume all interrupted runs, with separate connections; return how each ended.

        Start the tools first. If there is a queue, its workers resume the runs, and this method does nothing.
        """
        if self.host.queue is not None:
            return {}
        speakers = configured_speakers(self.settings, self.keys)
        planner = Planner(self.settings, speakers, self.tools)
        try:
            return await resume_runs(self.host, RunResolver(planner, scoped), on_found=on_found)
        finally:
            await speakers.aclose()

    def resume_in_background(
        self,
        after: Callable[[], object] = lambda: None,
        *,
        on_found: Callable[[RunInfo], object] = lambda _info: None,
    ) -> threading.Thread:
        """Run ``aresume_runs`` in a thread, after ``after`` (for instance a wait for the tools) has returned.

        Closing the workspace stops it; the next start resumes the runs that it has not finished.
        """
        ready: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
        is_ending = threading.Event()

        async def resume() -> None:
            task = asyncio.current_task()
            assert task is not None
            ready.append((asyncio.get_running_loop(), task))
            if not is_ending.is_set():
                await self.aresume_runs(on_found=on_found)

        def work() -> None:
            after()
            try:
                asyncio.run(resume())
            except (asyncio.CancelledError, StoreError):
                return  # the next start resumes the other runs

        thread = threading.Thread(target=work, name="multi_llm_chat resume", daemon=True)

        def end() -> None:
            is_ending.set()
            for loop, task in ready:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(task.cancel)
            thread.join()

        self.endings.append(end)
        thread.start()
        return thread

    def configured_servers(self) -> ReadServers:
        """The MCP servers of ``mcp.json``, and our own filesystem server for the configured folders."""
        path = self.folders.servers_file
        try:
            found = read_servers(path.read_bytes())
        except FileNotFoundError:
            found = ReadServers()
        except (OSError, UsageError) as error:
            found = ReadServers(problems=(f"{path}: {error}",))
        return ReadServers((*found.servers, *self._own_server()), found.problems)

    def server_tokens(self) -> SecretStore:
        """Where sign-in tokens of MCP servers are kept."""
        return open_secrets(self.folders.data / "tokens.json", _TOKENS)

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
        """Close everything.

        Raises:
            StoreError: The store accepted no writes for five seconds; the text says how many steps are not saved.
        """
        self._end()
        if self._servers is not None:
            self._servers.stop_sync()
        if "speakers" in self.__dict__:
            self.speakers.close()
        unsaved = self.host.close() if "host" in self.__dict__ else 0
        if "store" in self.__dict__:
            self.store.close()
        report_unsaved(unsaved)

    async def aclose(self) -> None:
        """Like ``close``, to be awaited."""
        await asyncio.to_thread(self._end)
        if self._servers is not None:
            await self._servers.stop()
        if "speakers" in self.__dict__:
            await self.speakers.aclose()
        unsaved = await asyncio.to_thread(self.host.close) if "host" in self.__dict__ else 0
        if "store" in self.__dict__:
            await asyncio.to_thread(self.store.close)
        report_unsaved(unsaved)

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
            # An extra that takes long to import; only programs with MCP servers need it.
            from multi_llm_chat.tools.mcp import McpServers  # noqa: PLC0415
        except ImportError:
            self.problems.append(
                "MCP servers need the package mcp. Install it: pip install 'multi_llm_chat[mcp]'"
            )
            return None
        callbacks.setdefault("tokens", self.server_tokens())
        self._servers = McpServers(configured, self.tools, **callbacks)
        return self._servers

    def _own_server(self) -> tuple[ServerSettings, ...]:
        folders = self.settings.tools.folders
        if not folders:
            return ()
        roots = (str(Path(folder).expanduser()) for folder in folders)
        arguments = ("-m", "multi_llm_chat.tools.filesystem", *roots)
        return (
            ServerSettings("files", sys.executable, arguments, trusted=True),
        )  # our own program


def approval_rules(settings: Settings) -> dict[str, Approval]:
    """The approval rules of the settings; the rule for all other tools comes last."""
    tools = settings.tools
    return {**tools.rules, **({} if tools.approval is None else {"*": tools.approval})}
