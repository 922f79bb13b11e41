"""Tools for applications that make their own requests: payload in, payload out (seeds 003 and 004).

Rules:
1. The application sends; a handler prepares payloads, reads replies, runs tools and asks for the next request.
2. ``process_stream`` always gives a ``StreamResult``: whatever goes wrong is in it.
3. Decisions are those of ``agent_loop``: calls of one turn run at the same time, each gets exactly one
   result, every continuation contains all earlier rounds, and at the limit the model is asked once more, without tools.
4. Without tools a handler only reads: the payload stays as it is, and calls are left to the application.
5. A handler holds nothing of a run: any number may run at once.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from multi_llm_chat.agent.effects import Outcome
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.compat.handlers._event_system import EventSystem
from multi_llm_chat.compat.handlers._event_tools import EventTools
from multi_llm_chat.compat.handlers._handler_run import HandlerRun, failed
from multi_llm_chat.compat.handlers._payloads import payload_of
from multi_llm_chat.compat.handlers._processor import Listeners
from multi_llm_chat.compat.handlers._response_bytes import close_response
from multi_llm_chat.compat.handlers._stream_context import (
    StreamContext,
    StreamingRequest,
    StreamResult,
)
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import JsonObject, Text, Turn
from multi_llm_chat.protocol.providers import provider_row
from multi_llm_chat.protocol.rendered_request import render
from multi_llm_chat.tools.tool_runner import ToolRunner

#: Seed 003's limit.
HANDLER_LIMITS: Final = LoopLimits(iterations=5)


class StreamHandler:
    """Prepares payloads and follows replies of one provider; the subclasses name it.

    Args:
        event_system: Receives ``tool_start`` and ``tool_result``, and is asked for tools where ``tools`` is not given.
        logger: Where a listener's failure is noted.
        tools: Who runs the tools, such as a ``ToolRegistry``.
        provider: Another provider of the same dialect.
        limits: How far a run may go.
    """

    default_provider: ClassVar[str] = "openai-chat"

    def __init__(
        self,
        event_system: EventSystem | None = None,
        logger: logging.Logger | None = None,
        *,
        tools: ToolRunner | None = None,
        provider: str | None = None,
        limits: LoopLimits = HANDLER_LIMITS,
    ) -> None:
        self.provider = provider_row(provider or self.default_provider).name
        self._events = event_system
        self._logger = logger
        self._limits = limits
        self._tools = tools
        if tools is None and event_system is not None:
            self._tools = EventTools(event_system)

    def supports_tools(self) -> bool:
        """Whether tools can be used: yes."""
        return True

    def supports_thinking(self) -> bool:
        """Whether thinking is kept and rationed over the calls of a run."""
        return provider_row(self.provider).dialect != "openai_chat"

    def prepare_payload(self, payload: JsonObject, *, model: str | None = None) -> JsonObject:
        """Offer the enabled tools: put them into this payload, with its own, and return it.

        Where no tools are enabled nothing is changed.
        """
        tools = self._tools.definitions() if self._tools is not None else ()
        if tools:
            payload.update(payload_of(payload, self.provider, model).offering(tools))
        return payload

    def convert_tool_definition(self, definition: object) -> JsonObject:
        """A definition of any form in the form of this provider.

        Raises:
            UsageError: It is no definition, or has no name.
        """
        opening = [Turn("user", (Text("."),))]
        tools = render(opening, self.provider, tools=[definition]).body.get("tools")
        if not tools:
            raise UsageError("This is no tool that can be offered: it has no name")
        return tools[0]

    def process_stream(
        self,
        response: object,
        request: StreamingRequest,
        standard_response: JsonObject,
        context: StreamContext,
    ) -> StreamResult:
        """Read a reply, run the tools it asks for, and go on until there is an answer.

        Args:
            response: The provider's reply to the request; see ``open_response`` for what is taken.
            request: What was sent.
            standard_response: Becomes the last reply, whole and in the provider's own form.
            context: How to go on.
        """
        try:
            return self._follow(request, standard_response, context, lambda run: run.read(response))
        finally:
            close_response(response)

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
        request = StreamingRequest("", context.original_payload or {})
        return self._follow(
            request, standard_response, context, lambda run: run.take_calls(tool_calls)
        )

    def _follow(
        self,
        request: StreamingRequest,
        standard_response: JsonObject,
        context: StreamContext,
        first: Callable[[HandlerRun], Outcome],
    ) -> StreamResult:
        try:
            payload = payload_of(request.payload, self.provider, context.model)
            listeners = Listeners(self._events, context.emit_stream_output, request, self._logger)
            run = HandlerRun(payload, self._tools, listeners, request, standard_response, context)
            return run.follow(first, self._limits)
        except Exception as error:  # noqa: BLE001 - whatever it is, the application receives it
            return failed(error, standard_response)


class GptHandler(StreamHandler):
    """OpenAI: payloads of Chat Completions, and of Responses (those with ``input``).

    Other servers that speak Chat Completions are named by ``provider``.
    """


class ClaudeHandler(StreamHandler):
    """Anthropic's Messages."""

    default_provider = "anthropic"


class GeminiHandler(StreamHandler):
    """Google's generateContent; ``StreamContext.model`` names the model, for payloads do not name it."""

    default_provider = "gemini"
