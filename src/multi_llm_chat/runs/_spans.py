"""OpenTelemetry spans of model and tool calls, by its conventions for generative AI.

Rules:
1. This module does not import OpenTelemetry: it makes spans if the program has imported it.
2. Spans carry names, numbers and reasons, never text of a conversation, of arguments or of results.
3. Every span carries the id of its run.
"""

import sys
from typing import Any

from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import ToolCall

_NAME = "multi_llm_chat"


class Spans:
    """The spans of one run."""

    def __init__(self, run: str, conversation: str, provider: str, model: str) -> None:
        self._common = {"multi_llm_chat.run.id": run, "gen_ai.conversation.id": conversation}
        self._provider = provider
        self._model = model
        self._asking: Any = None
        self._tools: dict[str, Any] = {}

    def model_started(self) -> None:
        """A request to the model starts."""
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider,
            "gen_ai.request.model": self._model,
        }
        self._asking = self._span(f"chat {self._model}", "CLIENT", attributes)

    def model_ended(self, usage: Usage | None, finish: str, *, is_whole: bool) -> None:
        """The request has ended, with a whole turn or without."""
        span, self._asking = self._asking, None
        if span is None:
            return
        if usage is not None:
            span.set_attribute("gen_ai.usage.input_tokens", usage.input_tokens)
            span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)
        span.set_attribute("gen_ai.response.finish_reasons", [finish if is_whole else "error"])
        span.end()

    def tool_started(self, call: ToolCall) -> None:
        """A tool starts."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.tool_call_id,
        }
        span = self._span(f"execute_tool {call.name}", "INTERNAL", attributes)
        if span is not None:
            self._tools[call.tool_call_id] = span

    def tool_ended(self, call: ToolCall, *, is_error: bool) -> None:
        """A tool has its result."""
        span = self._tools.pop(call.tool_call_id, None)
        if span is None:
            return
        if is_error:
            span.set_attribute("error.type", "tool_error")
        span.end()

    def close(self) -> None:
        """The run is over: end the open spans."""
        for span in [self._asking, *self._tools.values()]:
            if span is not None:
                span.set_attribute("error.type", "interrupted")
                span.end()
        self._asking, self._tools = None, {}

    def _span(self, name: str, kind: str, attributes: dict[str, Any]) -> Any:
        trace: Any = sys.modules.get("opentelemetry.trace")
        if trace is None:
            return None
        tracer = trace.get_tracer(_NAME)
        return tracer.start_span(
            name, kind=trace.SpanKind[kind], attributes=attributes | self._common
        )
