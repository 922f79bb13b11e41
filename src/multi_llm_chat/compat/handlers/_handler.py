"""Tools for applications that make their own requests: payload in, payload out (seeds 003 and 004).

Rules:
1. The application sends the requests; a handler prepares payloads, reads replies, runs tools and asks for the next request.
2. ``process_stream`` always returns a ``StreamResult``, which also reports errors.
3. ``agent_loop`` decides: calls of one turn run at the same time, each gets exactly one result, every continuation contains all earlier
   rounds, and at the limit there is one more request, without tools.
4. Without tools a handler only reads: the payload is not changed, and calls are left to the application.
5. Any number of runs may be active at once; ``cancel`` ends those of this handler.
6. A subclass may replace ``convert_tool_definition``, ``handle_tool_calls`` and ``build_continuation_payload`` (or the seeds' names,
   with an underscore before them): a run calls them at these steps.
7. If the application passes no response and no ``make_request``, a handler with an ``LLMProvider`` sends the request through it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from multi_llm_chat.agent.effects import CallModel, Outcome
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.compat.handlers._event_system import EventSystem, event_system_of
from multi_llm_chat.compat.handlers._event_tools import EventTools, tools_of
from multi_llm_chat.compat.handlers._forms import FORMS
from multi_llm_chat.compat.handlers._handler_run import HandlerRun, failed, written_results
from multi_llm_chat.compat.handlers._payloads import joined_tools, payload_of
from multi_llm_chat.compat.handlers._processor import Listeners, StreamingProcessor
from multi_llm_chat.compat.handlers._response_bytes import close_response
from multi_llm_chat.compat.handlers._stream_context import (
    Cancellation,
    StreamContext,
    StreamingRequest,
    StreamResult,
    stream_context_of,
    streaming_request_of,
)
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject, Text, ToolCall, ToolResult, Turn
from multi_llm_chat.protocol.conversion import turns_from
from multi_llm_chat.protocol.providers import is_known, provider_row
from multi_llm_chat.protocol.rendered_request import render
from multi_llm_chat.request import Options, ToolDefinition
from multi_llm_chat.schema.tool_definitions import read_tools
from multi_llm_chat.tools.tool_runner import ToolRunner

#: Seed 003's limit.
HANDLER_LIMITS: Final = LoopLimits(iterations=5)


class StreamHandler:
    """Prepares payloads and processes replies of one provider, which the subclasses name.

    Args:
        event_system: Receives ``tool_start`` and ``tool_result``, and runs the tools if ``tools`` is not given. The application's own bus
            is accepted, too, if it has ``subscribe``, and ``emit_event`` or ``publish``.
        logger: Receives the rounds of tools, failing tools and listeners.
        tools: Runs the tools, such as a ``ToolRegistry``.
        provider: Another provider of the same dialect, or an ``LLMProvider``, which then sends the requests.
        limits: The limits of a run.
    """

    default_provider: ClassVar[str] = "openai-chat"

    def __init__(
        self,
        event_system: object = None,
        logger: logging.Logger | None = None,
        *,
        tools: ToolRunner | None = None,
        provider: str | LLMProvider | None = None,
        limits: LoopLimits = HANDLER_LIMITS,
    ) -> None:
        self._asked = provider if isinstance(provider, LLMProvider) else None
        name = provider.name if isinstance(provider, LLMProvider) else provider
        known = (
            name if name is None or is_known(name) else "openai-chat"
        )  # a plug-in has no dialect
        self.provider = provider_row(known or self.default_provider).name
        self._events = None if event_system is None else event_system_of(event_system)
        self._logger = logger
        self._limits = limits
        self._tools = tools
        if tools is None and self._events is not None:
            self._tools = EventTools(self._events)
        self._running: set[Cancellation] = set()

    @property
    def event_system(self) -> EventSystem | None:
        """The event system, if there is one."""
        return self._events

    @property
    def logger(self) -> logging.Logger:
        """Where the rounds of tools, failing tools and listeners are logged."""
        return self._logger or logging.getLogger(__name__)

    def supports_tools(self) -> bool:
        """Always True: tools can be used."""
        return True

    def supports_thinking(self) -> bool:
        """Whether thinking is kept and limited over the requests of a run."""
        return provider_row(self.provider).dialect != "openai_chat"

    def prepare_payload(
        self,
        payload: JsonObject,
        tool_definitions: Iterable[Any] | None = None,
        tools_system_prompt: str | None = None,
        *,
        model: str | None = None,
    ) -> JsonObject:
        """Add the enabled tools to this payload, in addition to its own, and return it.

        Without enabled tools, nothing is changed.

        Args:
            payload: The application's request.
            tool_definitions: The tools to offer, in any form; the enabled ones if not given.
            tools_system_prompt: Added to the payload's system prompt if tools are offered.
            model: The model, if the payload does not name it.
        """
        if tool_definitions is not None:
            tools: Sequence[ToolDefinition] = read_tools(list(tool_definitions)).definitions
        else:
            tools = self._tools.definitions() if self._tools is not None else ()
        if not tools:
            return payload
        found = payload_of(payload, self.provider, model)
        if self._replaced("convert_tool_definition"):
            known = {tool.name for tool in read_tools(payload.get("tools")).definitions}
            payload["tools"] = list(as_list(payload.get("tools")) or [])
            for tool in tools:
                if tool.name not in known:
                    added = self._hook("convert_tool_definition")(_anthropic_form(tool))
                    payload["tools"] = joined_tools(payload["tools"], [added])
        else:
            payload.update(found.offering(tools))
        if tools_system_prompt and tools_system_prompt.strip():
            payload.update(
                payload_of(payload, self.provider, model).instructed(tools_system_prompt)
            )
        return payload

    def convert_tool_definition(self, definition: object) -> JsonObject:
        """A definition of any form in the form of this provider.

        Raises:
            UsageError: It is not a definition, or has no name.
        """
        opening = [Turn("user", (Text("."),))]
        tools = render(opening, self.provider, tools=[definition]).body.get("tools")
        if not tools:
            raise UsageError("This is no tool that can be offered: it has no name")
        function = as_object(tools[0].get("function"))
        # As in the seeds, where Chat Completions' form always has a description.
        if function is not None:
            tools[0]["function"] = {"name": function["name"], "description": ""} | function
        return tools[0]

    def process_stream(
        self,
        response: object,
        request: StreamingRequest,
        standard_response: JsonObject,
        context: StreamContext,
    ) -> StreamResult:
        """Read a reply, run its tool calls, and continue until there is an answer.

        Args:
            response: The provider's reply to the request; ``open_response`` lists the accepted forms.
            request: The request that was sent; any object with ``payload`` is accepted.
            standard_response: Filled with the last reply, whole and in the provider's own form.
            context: How to continue; any object with the attributes of ``StreamContext`` is accepted.
        """
        context = stream_context_of(context)
        try:
            request = streaming_request_of(request)
        except UsageError as error:
            return failed(error, standard_response)
        asked = self._asked
        if response is None and asked is not None:
            return self._follow(
                request, standard_response, context, lambda run: run.ask_provider(asked)
            )
        if context.cancellation is None:
            context = replace(context, cancellation=Cancellation())
        try:
            return self._follow(request, standard_response, context, lambda run: run.read(response))
        finally:
            close_response(response, context.cancellation)

    def cancel(self) -> None:
        """End all runs of this handler, also while a reply streams or a tool runs; any thread may call it."""
        for each in tuple(self._running):
            each.cancel()

    def handle_tool_calls(
        self,
        tool_calls: Sequence[Any],
        standard_response: JsonObject,
        context: StreamContext,
    ) -> StreamResult:
        """Run the calls of a reply that the application has read, and continue until there is an answer.

        Args:
            tool_calls: The calls in the provider's own form.
            standard_response: Becomes the last reply.
            context: How to go on; ``original_payload`` is what was sent.
        """
        context = stream_context_of(context)
        request = StreamingRequest("", context.original_payload or {})
        return self._follow(
            request,
            standard_response,
            context,
            lambda run: run.take_calls(tool_calls),
            is_hook=True,
        )

    def build_continuation_payload(
        self,
        original_payload: JsonObject,
        assistant_response: JsonObject,
        tool_results: Sequence[JsonObject],
    ) -> JsonObject:
        """The payload that continues after a reply and its results; the original one is not changed.

        Args:
            original_payload: The payload that was sent.
            assistant_response: The reply to it, in the provider's own form.
            tool_results: ``{"tool_call_id": …, "name": …, "content": …}`` for each call.
        """
        payload = payload_of(original_payload, self.provider)
        processor = StreamingProcessor(payload=payload)
        turn = processor.process(dict(assistant_response))
        results = tuple(
            ToolResult(
                as_text(one.get("name")), one.get("content"), as_text(one.get("tool_call_id"))
            )
            for one in tool_results
        )
        asked = CallModel(
            (turn, Turn("tool", results)), True, Options(thinking=payload.thinking), 1
        )
        return payload.continued(asked, ())[0]

    def _follow(
        self,
        request: StreamingRequest,
        standard_response: JsonObject,
        context: StreamContext,
        first: Callable[[HandlerRun], Outcome],
        *,
        is_hook: bool = False,
    ) -> StreamResult:
        cancellation = context.cancellation or Cancellation()
        self._running.add(cancellation)
        tools = self._tools or tools_of(context.tool_registry)
        try:
            payload = payload_of(request.payload, self.provider, context.model)
            listeners = Listeners(self._events, context.emit_stream_output, request, self._logger)
            replaced = self._replaced("build_continuation_payload")
            run = HandlerRun(
                payload,
                tools,
                listeners,
                request,
                standard_response,
                context,
                cancellation=cancellation,
                build=self._hook("build_continuation_payload") if replaced else None,
                provider=self._asked,
                logger=self.logger,
            )
            outcome = first(run)
            calls = run.native_calls(outcome)
            if calls and tools is not None and not is_hook and self._replaced("handle_tool_calls"):
                own = replace(context, original_payload=context.original_payload or request.payload)
                result: object = self._hook("handle_tool_calls")(calls, standard_response, own)
                return _as_result(result, standard_response)
            return run.follow(outcome, self._limits)
        except Exception as error:  # noqa: BLE001 - whatever it is, the application receives it
            return failed(error, standard_response)
        finally:
            self._running.discard(cancellation)

    # The seeds' names of the hooks.

    def _convert_tool_definition(self, anthropic_tool: object) -> JsonObject:
        return self.convert_tool_definition(anthropic_tool)

    def _handle_tool_calls(
        self, tool_calls: Sequence[Any], standard_response: JsonObject, context: StreamContext
    ) -> StreamResult:
        return self.handle_tool_calls(tool_calls, standard_response, context)

    def _build_continuation_payload(
        self,
        original_payload: JsonObject,
        assistant_response: JsonObject,
        tool_results: Sequence[JsonObject],
    ) -> JsonObject:
        return self.build_continuation_payload(original_payload, assistant_response, tool_results)

    def _request_tool_definitions(self) -> list[JsonObject]:
        """The enabled tools, in Anthropic's form."""
        tools = self._tools.definitions() if self._tools is not None else ()
        return [_anthropic_form(tool) for tool in tools]

    def _execute_tool_via_event(self, tool_name: str, tool_input: JsonObject) -> Any:
        """Run one tool; return its output, or the error that the model would read."""
        if self._tools is None:
            raise UsageError("The handler has no tools")
        return self._tools.submit(ToolCall(tool_name, tool_input, "")).result().content

    def _execute_tools(self, tool_calls: Sequence[Any], context: StreamContext) -> list[JsonObject]:
        """Run calls in the provider's own form; their results as messages."""
        context = stream_context_of(context)
        tools = self._tools or tools_of(context.tool_registry)
        if tools is None:
            raise UsageError("The handler has no tools")
        row = provider_row(self.provider)
        turns = turns_from(FORMS[row.dialect].calls(list(tool_calls)), row.dialect)
        calls = [part for turn in turns for part in turn.parts if isinstance(part, ToolCall)]
        running = [tools.submit(call, conversation=context.conversation) for call in calls]
        return written_results([future.result() for future in running])

    def _on_tool_execution_response(self, data: JsonObject) -> None:
        """Pass on an answer that the application has received itself."""
        self._take_answer("tool_execution_response", data)

    def _on_enabled_tools_response(self, data: JsonObject) -> None:
        """Pass on an answer that the application has received itself."""
        self._take_answer("enabled_tools_response", data)

    def _take_answer(self, name: str, data: JsonObject) -> None:
        if self._events is not None:
            self._events.emit(name, data)

    def _replaced(self, hook: str) -> bool:
        own, base = type(self), StreamHandler
        return any(getattr(own, name) is not getattr(base, name) for name in (hook, f"_{hook}"))

    def _hook(self, hook: str) -> Callable[..., Any]:
        """The method with which a subclass replaces a hook, under either name."""
        is_public = getattr(type(self), hook) is not getattr(StreamHandler, hook)
        return getattr(self, hook if is_public else f"_{hook}")


def _anthropic_form(tool: ToolDefinition) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.schema}


def _as_result(result: object, standard_response: JsonObject) -> StreamResult:
    """The value that a subclass's ``handle_tool_calls`` returned: a result, or the last response as in the seeds."""
    if isinstance(result, StreamResult):
        return result
    response = as_object(result)
    return StreamResult(success=response is not None, response=response or standard_response)


class GptHandler(StreamHandler):
    """OpenAI: payloads of Chat Completions, and of Responses (those with ``input``).

    Other servers that speak Chat Completions are named by ``provider``.
    """


class ClaudeHandler(StreamHandler):
    """Anthropic's Messages."""

    default_provider = "anthropic"


class GeminiHandler(StreamHandler):
    """Google's generateContent; ``StreamContext.model`` names the model, because payloads do not."""

    default_provider = "gemini"
