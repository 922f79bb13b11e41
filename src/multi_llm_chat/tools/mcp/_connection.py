"""The connection to one MCP server, which restarts the server when it ends.

Rules:
1. It runs in the background loop. While the server restarts, its tools stay offered; a call waits for the restart within its own time
   limit.
2. A server that ends is restarted after a pause that grows. After too many failures it is given up: its tools are withdrawn, and the reason
   is reported.
3. Calls in flight when it ends are answered at once: the outcome is unknown.
4. A faulty server affects only its own tools.
5. No message contains the secrets of its settings: headers, variables, the query of its address.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Literal, TypeVar, cast
from urllib.parse import urlsplit

import mcp_types
from mcp.client import Client, IncomingMessage
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from multi_llm_chat.errors import ToolError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.tools.background_loop import through_portal
from multi_llm_chat.tools.mcp._server_requests import (
    CURRENT_CALL,
    Answers,
    Callbacks,
    StartClock,
    holding,
    new_client,
    trust_results,
)
from multi_llm_chat.tools.mcp._server_transports import StdioTransport, http_transport
from multi_llm_chat.tools.mcp._tool_lists import list_all, output_of, tools_from
from multi_llm_chat.tools.mcp.server_messages import (
    Elicitation,
    ListChanged,
    ServerLogged,
    ServerState,
    StateChanged,
)
from multi_llm_chat.tools.mcp.server_settings import ServerSettings
from multi_llm_chat.tools.tool import NotRun, Tool, ToolContext, ToolOutput

#: Seconds before each restart; after this many failures in a row the server is given up.
BACKOFF: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: A server that ran for this many seconds did not fail to start.
STEADY: Final = 60.0
#: The key of a call's id in the request's ``_meta``; the id is the same if an interrupted call is repeated.
KEY_IN_META: Final = "multi-llm-chat/idempotency_key"
_LONGEST_REASON: Final = 1_500
#: Shorter values of settings are not treated as secrets.
_SHORTEST_SECRET: Final = 8
_KINDS: Final[Mapping[type[object], Literal["tools", "resources", "prompts"]]] = {
    mcp_types.ToolListChangedNotification: "tools",
    mcp_types.ResourceListChangedNotification: "resources",
    mcp_types.PromptListChangedNotification: "prompts",
    ToolsListChanged: "tools",
    ResourcesListChanged: "resources",
    PromptsListChanged: "prompts",
}

_Value = TypeVar("_Value")
Publish = Callable[[str, list[Tool]], None]


class ServerConnection:
    """The connection to one server; only ``call`` may be used outside the background loop."""

    def __init__(
        self,
        settings: ServerSettings,
        callbacks: Callbacks,
        publish: Publish,
        sign_in: Callable[[ServerSettings, Answers], Any],
        backoff: tuple[float, ...] = BACKOFF,
    ) -> None:
        self.settings = settings
        self.state: ServerState = "stopped"
        self.message = ""
        self._callbacks = callbacks
        self._publish = publish
        self._sign_in = sign_in
        self._backoff = backoff
        self._answers = Answers(settings, callbacks, self._asking, lambda: tuple(self._active))
        self._active: dict[ToolContext[Any], None] = {}  # in the order in which they began
        self._client: Client | None = None
        self._transport: Any = None
        self._starting: StartClock | None = None
        self._changed = asyncio.Event()
        self._lost = asyncio.Event()
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Lock()

    # Start and end.

    def start(self) -> None:
        """Start the server, or start it again after it was given up."""
        self._wake.set()
        self._answers.reset()
        if self.state == "failed":
            self._enter("starting")
        if self._task is None or self._task.done():
            self._stopping = False
            self._enter("starting")
            self._task = asyncio.ensure_future(self._keep())

    async def stop(self) -> None:
        """End the server, and wait until it has ended."""
        self._stopping = True
        self._wake.set()
        self._lost.set()
        if self._starting is not None:
            self._starting.end()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def settled(self) -> None:
        """Wait until the server is ready or its first start has failed."""
        while self.state == "starting":
            await self._changed.wait()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping:
            began = loop.time()
            reason = await self._live()
            if self._stopping:
                break
            failures = 1 if loop.time() - began > STEADY else failures + 1
            self._wake.clear()
            if failures > len(self._backoff):
                self._publish(self.settings.name, [])
                self._enter("failed", reason)
                await self._wake.wait()
                failures = 0
            else:
                self._enter("restarting", reason)
                await self._pause(self._backoff[failures - 1])
        self._publish(self.settings.name, [])
        self._enter("stopped")

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _live(self) -> str:
        """Connect, run until the connection ends, and return the reason for the end."""
        self._lost = asyncio.Event()
        transport = self._transport = self._new_transport()
        seconds = self.settings.startup_timeout
        watching: asyncio.Task[None] | None = None
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(seconds) as limit:
                    self._starting = StartClock(limit)
                    client = new_client(transport, self._answers, self._callbacks, self._on_message)
                    await stack.enter_async_context(client)
                    await trust_results(client)
                    await self._list_tools(client)
                self._starting = None
                self._client = client
                self._enter("ready")
                watching = asyncio.ensure_future(self._watch(client))
                await self._until_lost(transport)
                await _cancelled(watching)
                self._client = None
        except TimeoutError:
            return f"it did not answer within {seconds:g} seconds (startupTimeout)"
        except Exception as error:  # noqa: BLE001 - whatever a server can cause ends only itself
            return self._explain(error, transport)
        finally:
            self._client = None
            self._starting = None
            self._lost.set()
        return self._explain(None, transport)

    def _new_transport(self) -> Any:
        if self.settings.url:
            return http_transport(self.settings, self._sign_in(self.settings, self._answers))
        return StdioTransport(self.settings, self._on_error_line)

    async def _until_lost(self, transport: Any) -> None:
        ends = [asyncio.ensure_future(self._lost.wait())]
        if isinstance(transport, StdioTransport):
            ends.append(asyncio.ensure_future(transport.closed.wait()))
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    def _explain(self, error: Exception | None, transport: Any) -> str:
        if isinstance(transport, StdioTransport) and transport.closed.is_set():
            words = transport.reason()
        elif error is None:
            words = "the connection was lost"
        else:
            words = _describe(error)
        return self._discreet(words)[:_LONGEST_REASON]

    def _discreet(self, words: str) -> str:
        """The text without the secrets of the settings."""
        settings = self.settings
        secrets = [*settings.headers.values(), *settings.env.values(), urlsplit(settings.url).query]
        for secret in secrets:
            if len(secret) >= _SHORTEST_SECRET:
                words = words.replace(secret, "[hidden]")
        return words

    def _enter(self, state: ServerState, message: str = "") -> None:
        self.state, self.message = state, message
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._callbacks.emit(StateChanged(self.settings.name, state, message))

    # Lists.

    async def _list_tools(self, client: Client) -> None:
        # Under the lock, so that of two concurrent changes the older list is not published last.
        async with self._listening:
            if client.server_capabilities.tools is None:
                self._publish(self.settings.name, [])
                return
            listed, problem = await list_all(
                lambda cursor: client.list_tools(cursor=cursor), lambda page: page.tools
            )
            if problem:
                self._say("warning", f"{problem}; the rest is left out")
            tools = tools_from(
                listed, self.settings, self.call, lambda words: self._say("warning", words)
            )
            self._publish(self.settings.name, tools)

    async def _on_message(self, message: IncomingMessage) -> None:
        client = self._client
        if client is None or isinstance(message, Exception):
            return
        # Newer ones report changes to _watch.
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await self._follow(client, type(message))

    async def _watch(self, client: Client) -> None:
        """Subscribe to the changes of a server of the newer protocol, which reports them only to subscribers."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        offers = client.server_capabilities
        tools, resources, prompts = (
            offer is not None and bool(offer.list_changed)
            for offer in (offers.tools, offers.resources, offers.prompts)
        )
        if not (tools or resources or prompts):
            return
        try:
            async with client.listen(
                tools_list_changed=tools,
                resources_list_changed=resources,
                prompts_list_changed=prompts,
            ) as changes:
                async for change in changes:
                    await self._follow(client, type(change))
        except Exception as error:  # noqa: BLE001 - a server may refuse, or the stream end
            self._say("info", f"changes are no longer followed: {_describe(error)}")

    async def _follow(self, client: Client, kind: type[object]) -> None:
        changed = _KINDS.get(kind)
        if changed is None:
            return
        if changed == "tools":
            try:
                await self._list_tools(client)
            except Exception as error:  # noqa: BLE001 - the old list stays
                self._say(
                    "warning", f"its changed list of tools cannot be read: {_describe(error)}"
                )
        self._callbacks.emit(ListChanged(self.settings.name, changed))

    # Use.

    async def call(self, name: str, arguments: JsonObject, context: ToolContext[Any]) -> ToolOutput:
        """Run a tool of the server, from any event loop."""
        return await through_portal(self._call(name, arguments, context))

    async def _call(
        self, name: str, arguments: JsonObject, context: ToolContext[Any]
    ) -> ToolOutput:
        client = await self._connected()
        self._active[context] = None
        CURRENT_CALL.set(context)
        try:
            result = await self._while_alive(self._called(client, name, arguments, context))
        except ValidationError as error:
            raise ToolError(
                f"the server's answer is not as the protocol demands: {error}"
            ) from error
        finally:
            self._active.pop(context, None)
        return output_of(result)

    async def use(self, work: Callable[[Client], Awaitable[_Value]]) -> _Value:
        """Make another request than a tool call.

        Raises:
            ToolError: The server answered with an error.
        """
        client = await self._connected()
        try:
            return await self._while_alive(work(client))
        except (MCPError, ValidationError) as error:
            raise ToolError(f"MCP server {self.settings.name!r}: {_describe(error)}") from error

    async def _called(
        self, client: Client, name: str, arguments: JsonObject, context: ToolContext[Any]
    ) -> mcp_types.CallToolResult:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, message or "")

        listener = on_progress if context.wants_progress else None
        key = context.idempotency_key
        meta: mcp_types.RequestParamsMeta | None = None if key is None else {KEY_IN_META: key}
        try:
            return await client.call_tool(name, arguments, progress_callback=listener, meta=meta)
        except MCPError as error:
            if error.code != mcp_types.URL_ELICITATION_REQUIRED:
                raise
            await self._visit(UrlElicitationRequiredError.from_error(error.error))
        return await client.call_tool(name, arguments, progress_callback=listener, meta=meta)

    async def _visit(self, required: UrlElicitationRequiredError) -> None:
        """Ask the user to visit the URLs that the server requires."""
        for wanted in required.elicitations:
            question = Elicitation(self.settings.name, wanted.message, "url", url=wanted.url)
            answer = await self._answers.ask(question)
            if answer.action != "accept":
                raise NotRun(
                    f"The server {self.settings.name!r} wants the user to visit a web page first, "
                    "and the user did not agree."
                )

    async def _while_alive(self, work: Awaitable[_Value]) -> _Value:
        """Wait for the work to finish or the server to end."""
        lost, transport = self._lost, self._transport
        doing = asyncio.ensure_future(work)
        ending = asyncio.ensure_future(lost.wait())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
        except MCPError as error:
            if error.code != mcp_types.CONNECTION_CLOSED:
                raise
            lost.set()
        finally:
            ending.cancel()
            await _cancelled(doing)
        raise NotRun(
            f"The server {self.settings.name!r} ended before it had answered; whether the call had "
            f"an effect is unknown. Reason: {self._explain(None, transport)}"
        )

    async def _connected(self) -> Client:
        while True:
            if self._client is not None and not self._lost.is_set():
                return self._client
            if self.state in {"failed", "stopped"}:
                raise NotRun(f"The server {self.settings.name!r} is not running: {self.message}")
            await self._changed.wait()

    # Events.

    def _asking(self) -> Any:
        """Stop the clocks of all calls that may wait for the answer, because servers of the older protocol do not name the call."""
        starting = () if self._starting is None else (self._starting,)
        return holding((*self._active, *starting))

    def _on_error_line(self, line: str) -> None:
        self._callbacks.emit(
            ServerLogged(self.settings.name, "info", self._discreet(line), "stderr")
        )

    def _say(self, level: str, words: str) -> None:
        self._callbacks.emit(ServerLogged(self.settings.name, level, self._discreet(words)))


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _describe(error: BaseException) -> str:
    """The text of the innermost error, without the groups in which task groups wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    words = str(error)
    if isinstance(error, MCPError):
        return words
    if isinstance(error, FileNotFoundError):
        return f"the program or folder was not found: {error.filename}"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
