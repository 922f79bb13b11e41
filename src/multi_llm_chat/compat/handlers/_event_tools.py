"""Tools behind an event system: the side that runs them, and the side that calls them.

Rules:
1. ``serve_tools`` answers every request for tools with the registry's result, once.
2. ``EventTools`` returns exactly one result for a call: the answer, or an error if none arrives in time.
3. A call whose arguments could not be parsed is never sent.
4. Definitions are sent in Anthropic's form, as in the seeds, with their full schema.
"""

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from multi_llm_chat.compat.handlers._event_system import (
    ABANDONED,
    ANSWERS,
    DEFAULT_TIMEOUT,
    EXECUTE_TOOL,
    GET_TOOLS,
    EventSystem,
    event_system_of,
)
from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_text
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.schema.tool_definitions import read_tools
from multi_llm_chat.tools.background_loop import submit
from multi_llm_chat.tools.registry import DEFAULT_OUTPUT
from multi_llm_chat.tools.threads import in_thread
from multi_llm_chat.tools.tool_output import content_of
from multi_llm_chat.tools.tool_runner import ToolRunner

_LOGGER = logging.getLogger(__name__)


def serve_tools(tools: ToolRunner, events: object) -> Callable[[], None]:
    """Let the tools answer the requests of an event system, or of an application's own bus; the returned function ends this."""
    return _serve(tools, event_system_of(events))


def _serve(tools: ToolRunner, events: EventSystem) -> Callable[[], None]:
    running: dict[str, concurrent.futures.Future[ToolResult]] = {}
    lock = threading.Lock()

    def tell_definitions(asked: JsonObject) -> None:
        definitions = [_written(definition) for definition in tools.definitions()]
        answer = {"request_id": asked["request_id"], "tool_definitions": definitions}
        events.emit(ANSWERS[GET_TOOLS], answer)

    def execute(asked: JsonObject) -> None:
        request_id = asked["request_id"]
        arguments, raw, error = parse_arguments(asked.get("tool_input"))
        name, identifier = as_text(asked.get("tool_name")), as_text(asked.get("tool_call_id"))
        call = ToolCall(name, arguments, identifier, raw, error)
        future = tools.submit(call, conversation=asked.get("conversation"))
        with lock:
            running[request_id] = future
        future.add_done_callback(lambda done: answer(request_id, done))

    def answer(request_id: str, done: "concurrent.futures.Future[ToolResult]") -> None:
        with lock:
            running.pop(request_id, None)
        events.emit(ANSWERS[EXECUTE_TOOL], {"request_id": request_id, **_outcome(done)})

    def abandon(asked: JsonObject) -> None:
        with lock:
            future = running.get(asked["request_id"])
        if future is not None:
            future.cancel()

    handlers = {GET_TOOLS: tell_definitions, EXECUTE_TOOL: execute, ABANDONED: abandon}
    endings = [events.subscribe(name, handler) for name, handler in handlers.items()]

    def stop() -> None:
        for end in endings:
            end()

    return stop


def _written(definition: ToolDefinition) -> JsonObject:
    return {
        "name": definition.name,
        "description": definition.description,
        "input_schema": definition.schema,
    }


def _outcome(done: "concurrent.futures.Future[ToolResult]") -> JsonObject:
    if done.cancelled():
        return {"result": None, "success": False, "error": "The tool was cancelled."}
    failure = done.exception()
    if failure is not None:
        error = f"The tool could not be run: {type(failure).__name__}."
        return {"result": None, "success": False, "error": error}
    result = done.result()
    content = content_of(result.content, DEFAULT_OUTPUT) if result.is_error else None
    return {"result": result.content, "success": not result.is_error, "error": content}


class EventTools:
    """Tools that are called through events; the loop and the handlers can use them like a registry.

    Args:
        events: Where requests are sent: an event system, or an application's own bus.
        timeout: Seconds that an answer may take. With ``None`` there is no limit: suitable for a registry behind ``serve_tools``, which has
            its own limits and always answers.
    """

    def __init__(self, events: object, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        self._events = event_system_of(events)
        self._timeout = timeout

    def definitions(self) -> Sequence[ToolDefinition]:
        """The tools on offer; empty if no answer arrives in time. Blocks, also in an event loop."""
        try:
            answer = self._events.request(GET_TOOLS, timeout=self._timeout)
            return read_tools(answer.get("tool_definitions")).definitions
        except (ToolError, UsageError) as error:
            _LOGGER.warning("no tools are offered: %s", error)
            return ()

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Request the call; return its one result."""
        if call.error is not None:
            return _failed(call, f"The arguments could not be used: {call.error}.")
        asked = {
            "tool_name": call.name,
            "tool_input": call.arguments,
            "tool_call_id": call.tool_call_id,
            "conversation": conversation,
        }
        try:
            answer = await self._events.arequest(EXECUTE_TOOL, asked, timeout=self._timeout)
        except ToolError as error:
            return _failed(call, f"The tool {call.name!r} gave no result: {error}")
        return _result(call, answer)

    def submit(
        self, call: ToolCall, *, conversation: str | None = None
    ) -> "concurrent.futures.Future[ToolResult]":
        """Request the call in the background; cancelling the future abandons it."""
        return submit(self.execute(call, conversation=conversation))


def _result(call: ToolCall, answer: JsonObject) -> ToolResult:
    """The result of an answer; an answer without ``success`` counts as successful unless it has an error."""
    error = answer.get("error")
    if answer.get("success", error is None):
        return ToolResult(call.name, _content(answer.get("result")), call.tool_call_id)
    content = error if error is not None else answer.get("result")
    return ToolResult(call.name, _content(content), call.tool_call_id, is_error=True)


def _content(value: Any) -> Any:
    return content_of(value, DEFAULT_OUTPUT)


def _failed(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.name, text, call.tool_call_id, is_error=True, synthetic=True)


class NamedTools:
    """Tools behind ``execute_tool(name, input)``, the method of the seeds' registries; the payload defines the tools."""

    def __init__(self, registry: Any) -> None:
        self._registry = registry

    def definitions(self) -> Sequence[ToolDefinition]:
        """No definitions, because the application puts them into its payload."""
        return ()

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        """Run the call in its own thread; return its one result."""
        del conversation
        if call.error is not None:
            return _failed(call, f"The arguments could not be used: {call.error}.")
        try:
            value: Any = await in_thread(
                lambda: self._registry.execute_tool(call.name, call.arguments), call.name
            )
        except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model reads it
            return _failed(call, f"Error: {error}")
        return ToolResult(call.name, _content(value), call.tool_call_id)

    def submit(
        self, call: ToolCall, *, conversation: str | None = None
    ) -> "concurrent.futures.Future[ToolResult]":
        """Run the call in the background."""
        return submit(self.execute(call, conversation=conversation))


def tools_of(registry: object) -> ToolRunner | None:
    """The ``StreamContext.tool_registry`` itself, or a runner around it."""
    if registry is None:
        return None
    # Check the class, because a mock of the seeds' registry seems to have every method.
    is_runner = hasattr(type(registry), "submit")
    return cast("ToolRunner", registry) if is_runner else NamedTools(registry)
