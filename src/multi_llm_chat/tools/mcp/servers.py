"""Several MCP servers at once, their tools in one registry.

Rules:
1. All servers start at the same time; tools are registered in the order of the configuration, so that their names do not depend on the
   speed of the servers.
2. ``start`` returns when every server is ready or its first attempt has failed; each attempt has the limit of
   its own ``startup_timeout``. After ``notice_after`` seconds ``on_waiting`` receives the names of the servers
   that are still starting, and again whenever there are fewer. ``missing`` names those that did not start.
   With ``patience`` it returns earlier: models get later tools with their next request, which a single question never makes.
3. The connections run in the background loop, whichever thread uses them. Code without an event loop starts and ends them with ``with``,
   and runs any other method with ``wait_for``.
4. A server that cannot be started is reported in ``states`` and as an event, and does not affect the others.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from mcp.client import Client

from multi_llm_chat.config.secrets import MemorySecrets, SecretStore
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import Media, Text, Turn
from multi_llm_chat.tools.background_loop import through_portal, wait_for
from multi_llm_chat.tools.mcp._connection import BACKOFF, ServerConnection
from multi_llm_chat.tools.mcp._oauth import sign_in
from multi_llm_chat.tools.mcp._server_requests import Answers, Callbacks
from multi_llm_chat.tools.mcp._tool_lists import content_parts, list_all, resource_part
from multi_llm_chat.tools.mcp.server_messages import (
    ElicitationCallback,
    EventCallback,
    Prompt,
    PromptArgument,
    Resource,
    SamplingCallback,
    StateChanged,
    WaitingCallback,
)
from multi_llm_chat.tools.mcp.server_settings import ReadServers, ServerSettings, read_servers
from multi_llm_chat.tools.registry import ToolRegistry
from multi_llm_chat.tools.tool import Tool

#: Seconds of a start after which the user sees which servers it waits for.
NOTICE_AFTER: Final = 2.0
_Value = TypeVar("_Value")


class McpServers:
    """The servers of a configuration.

    Args:
        servers: The result of ``read_servers``, or the ``mcpServers`` JSON itself.
        registry: Where the tools are registered.
        elicit: Called for servers' questions to the user, and with the addresses for signing in.
        sample: Called for sampling requests of servers whose settings allow it.
        on_event: Called with states, logs and changes, in the background loop's thread.
        on_waiting: Called with the names of the servers that are still starting, in the background loop's thread.
        roots: The folders that servers may know.
        tokens: Where sign-in tokens are stored; in memory if not given (see ``config.secrets.open_secrets``).
        redirect_port: The port to which a browser returns after a sign-in; any free one when 0.
        backoff: Seconds before each restart of a server that ended.
        patience: Seconds after which ``start`` returns although servers are still starting; their tools are
            registered when they arrive. ``None`` waits until each has started or failed.
        notice_after: Seconds before ``on_waiting`` is called.
    """

    def __init__(
        self,
        servers: ReadServers | str | bytes | Mapping[str, Any],
        registry: ToolRegistry,
        *,
        elicit: ElicitationCallback | None = None,
        sample: SamplingCallback | None = None,
        on_event: EventCallback | None = None,
        on_waiting: WaitingCallback | None = None,
        roots: Sequence[Path] = (),
        tokens: SecretStore | None = None,
        redirect_port: int = 0,
        backoff: tuple[float, ...] = BACKOFF,
        patience: float | None = None,
        notice_after: float = NOTICE_AFTER,
    ) -> None:
        read = servers if isinstance(servers, ReadServers) else read_servers(servers)
        self.problems = read.problems
        self.registry = registry
        self._callbacks = Callbacks(
            elicit=elicit, sample=sample, on_event=on_event, on_waiting=on_waiting, roots=roots
        )
        self._tokens = MemorySecrets() if tokens is None else tokens
        self._port = redirect_port
        self._patience = patience
        self._notice_after = notice_after
        self._early: dict[str, list[Tool]] | None = {}
        self._connections = {
            settings.name: ServerConnection(
                settings, self._callbacks, self._publish, self._sign_in, backoff
            )
            for settings in read.servers
            if not settings.disabled
        }

    # Start and end.

    async def begin(self) -> None:
        """Start all servers without waiting for them; ``start`` waits."""
        await through_portal(self._begin())

    async def start(self) -> None:
        """Start all servers and wait until each is ready or has failed."""
        await through_portal(self._start())

    def start_sync(self) -> None:
        """``start`` for code without an event loop."""
        wait_for(self._start())

    async def stop(self) -> None:
        """End all servers."""
        await through_portal(self._stop())

    def stop_sync(self) -> None:
        """``stop`` for code without an event loop."""
        wait_for(self._stop())

    async def restart(self, server: str) -> None:
        """Restart a server, whether it runs or was given up."""
        await through_portal(self._restart(self._connection(server)))

    async def remove(self, server: str) -> None:
        """End and remove a server; its tools are withdrawn."""
        connection = self._connection(server)
        await through_portal(connection.stop())
        self._connections.pop(server, None)
        self.registry.replace_source(server, [])

    async def __aenter__(self) -> "McpServers":
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def __enter__(self) -> "McpServers":
        self.start_sync()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_sync()

    def states(self) -> list[StateChanged]:
        """The state of each server."""
        return [
            StateChanged(name, connection.state, connection.message)
            for name, connection in self._connections.items()
        ]

    def starting(self) -> tuple[str, ...]:
        """The servers that have neither started nor failed yet."""
        return tuple(state.server for state in self.states() if state.state == "starting")

    def missing(self) -> list[str]:
        """A sentence for each server whose tools are missing, with the reason."""
        return [
            f'The MCP server "{state.server}" {_why(state)}. Its tools are not available.'
            for state in self.states()
            if state.state != "ready"
        ]

    # Resources and prompts.

    async def resources(self, server: str) -> list[Resource]:
        """The resources and resource templates of a server."""
        return await self._use(server, lambda client: _resources(server, client))

    async def read_resource(self, server: str, uri: str) -> list[Text | Media]:
        """A resource's content."""

        async def read(client: Client) -> list[Text | Media]:
            result = await client.read_resource(uri)
            return [resource_part(content) for content in result.contents]

        return await self._use(server, read)

    async def prompts(self, server: str) -> list[Prompt]:
        """The prompts of a server."""
        return await self._use(server, lambda client: _prompts(server, client))

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> list[Turn]:
        """A prompt with its arguments filled in; its turns have the roles ``user`` and ``assistant``."""

        async def get(client: Client) -> list[Turn]:
            result = await client.get_prompt(name, dict(arguments or {}))
            return [
                Turn(message.role, tuple(content_parts([message.content])))
                for message in result.messages
            ]

        return await self._use(server, get)

    # Within the background loop.

    async def _begin(self) -> None:
        for connection in self._connections.values():
            connection.start()

    async def _start(self) -> None:
        await self._begin()
        settling = {
            name: asyncio.ensure_future(connection.settled())
            for name, connection in self._connections.items()
        }
        if settling:
            notices = asyncio.ensure_future(self._announce(settling))
            try:
                await asyncio.wait(settling.values(), timeout=self._patience)
            finally:
                for task in (notices, *settling.values()):
                    task.cancel()
        early, self._early = self._early or {}, None
        for name in self._connections:
            if name in early:
                self.registry.replace_source(name, early[name])

    async def _announce(self, settling: Mapping[str, "asyncio.Future[None]"]) -> None:
        """Report the servers that are still starting, until there are none; ``_start`` cancels it."""
        await asyncio.sleep(self._notice_after)
        while slow := self.starting():
            self._callbacks.waiting(slow)
            await asyncio.wait(
                [settling[name] for name in slow], return_when=asyncio.FIRST_COMPLETED
            )

    async def _stop(self) -> None:
        await asyncio.gather(*(connection.stop() for connection in self._connections.values()))

    async def _restart(self, connection: ServerConnection) -> None:
        if connection.state == "ready":
            await connection.stop()
        connection.start()
        await connection.settled()
        name = connection.settings.name
        if self._early is not None and name in self._early:  # others are still starting
            self.registry.replace_source(name, self._early.pop(name))

    def _publish(self, server: str, tools: list[Tool]) -> None:
        if self._early is not None:
            self._early[server] = tools
        else:
            self.registry.replace_source(server, tools)

    def _sign_in(self, settings: ServerSettings, answers: Answers) -> Any:
        self._port = self._port or _free_port()
        return sign_in(settings, answers, self._tokens, self._port)

    def _connection(self, server: str) -> ServerConnection:
        if server not in self._connections:
            raise UsageError(f"there is no MCP server named {server!r}")
        return self._connections[server]

    async def _use(self, server: str, work: Callable[[Client], Awaitable[_Value]]) -> _Value:
        return await through_portal(self._connection(server).use(work))


async def _resources(server: str, client: Client) -> list[Resource]:
    listed, _ = await list_all(
        lambda cursor: client.list_resources(cursor=cursor), lambda page: page.resources
    )
    templates, _ = await list_all(
        lambda cursor: client.list_resource_templates(cursor=cursor),
        lambda page: page.resource_templates,
    )
    return [
        Resource(server, str(item.uri), item.name, item.description or "", item.mime_type)
        for item in listed
    ] + [
        Resource(server, item.uri_template, item.name, item.description or "", item.mime_type, True)
        for item in templates
    ]


async def _prompts(server: str, client: Client) -> list[Prompt]:
    listed, _ = await list_all(
        lambda cursor: client.list_prompts(cursor=cursor), lambda page: page.prompts
    )
    return [
        Prompt(
            server,
            item.name,
            item.description or "",
            tuple(
                PromptArgument(blank.name, blank.description or "", bool(blank.required))
                for blank in item.arguments or ()
            ),
        )
        for item in listed
    ]


def _why(state: StateChanged) -> str:
    if state.state == "starting":
        return "is still starting"
    if state.state == "stopped":
        return "was stopped"
    return f"did not start: {state.message}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
