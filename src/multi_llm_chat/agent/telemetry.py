"""Spans, metrics and log records of model calls, tool calls and runs, by OpenTelemetry's conventions for generative AI.

Rules:
1. One implementation for every path: ``ReplyStream`` and ``AsyncReplyStream`` observe each call of a model, ``RunDriver`` each
   run and each tool. A chain has a span for each provider that got the request.
2. This module does not import OpenTelemetry: it makes spans and metrics if the program has imported it. If neither OpenTelemetry nor a log
   level needs them, a call costs one look-up and creates nothing.
3. Spans, metrics and records hold names, numbers and reasons, never text of a conversation, of arguments or of results.
   ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`` in the environment adds such text to spans only.
4. Each span and record carries the id of its run. Spans of a run's calls are children of the run's span; spans that a tool starts are
   children of the tool's span.
5. Records of the logger ``multi_llm_chat.calls`` have the span's attributes as fields: DEBUG for success, INFO for failures and retries,
   with the reason.

Attribute and metric names: https://opentelemetry.io/docs/specs/semconv/gen-ai/ (v1.41, read 2026-11).
"""

import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import urlsplit

from multi_llm_chat.agent.agent_loop import LoopEnd
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import Usage
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.protocol.providers import is_known, provider_row
from multi_llm_chat.request import ModelRequest

_NAME: Final = "multi_llm_chat"
_LOGGER: Final = logging.getLogger("multi_llm_chat.calls")
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

#: The names of providers in the conventions, if they differ from ours.
_PROVIDERS: Final = {
    "openai-chat": "openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "azure": "azure.ai.openai",
}
#: The duration metric of each operation, and the buckets that the conventions recommend.
_DURATIONS: Final = {
    "execute_tool": "gen_ai.execute_tool.duration",
    "invoke_agent": "gen_ai.invoke_agent.duration",
}
_SECONDS: Final = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
)  # fmt: skip
_TOKENS: Final = tuple(4**power for power in range(14))
#: The attributes of metrics: only those with few distinct values.
_DIMENSIONS: Final = frozenset(
    {
        "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model",
        "gen_ai.tool.name", "gen_ai.agent.name", "server.address", "error.type",
    }
)  # fmt: skip

#: The attributes of every span of the current run.
_RUN: ContextVar[Mapping[str, str] | None] = ContextVar("multi_llm_chat_run", default=None)


class Operation:
    """One observed operation, from start to end: a span, metrics and a log record.

    Args:
        name: The operation's name in the conventions.
        target: The model, the tool or the agent.
        attributes: The attributes that are known at its start.
        kind: The kind of its span.
    """

    def __init__(
        self, name: str, target: str, attributes: Mapping[str, Any], *, kind: str = "INTERNAL"
    ) -> None:
        self._title = f"{name} {target}".strip()
        self._attributes: dict[str, Any] = {
            "gen_ai.operation.name": name,
            **{key: value for key, value in attributes.items() if value not in (None, "", ())},
            **(_RUN.get() or {}),
        }
        self._began = time.monotonic()
        self._is_ended = False
        trace: Any = sys.modules.get("opentelemetry.trace")
        self.span: Any = None
        if trace is not None:
            self.span = trace.get_tracer(_NAME).start_span(
                self._title, kind=trace.SpanKind[kind], attributes=self._attributes
            )

    @property
    def takes_content(self) -> bool:
        """Whether spans may contain text of the conversation."""
        return (
            self.span is not None
            and self.span.is_recording()
            and os.environ.get(_CONTENT, "").lower() in ("true", "1")
        )

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        self._attributes |= attributes
        if self.span is not None:
            for key, value in attributes.items():
                self.span.set_attribute(key, value)

    def set_content(self, key: str, value: object) -> None:
        """Add text of the conversation, to the span only."""
        self.span.set_attribute(key, value if isinstance(value, str) else compact_json(value))

    def end(self, attributes: Mapping[str, Any] = {}, *, error: str = "") -> None:
        """Close the span and record the metrics; a second call does nothing."""
        if self._is_ended:
            return
        self._is_ended = True
        seconds = time.monotonic() - self._began
        self.set({**attributes, **({"error.type": error} if error else {})})
        if self.span is not None:
            if error:
                trace: Any = sys.modules["opentelemetry.trace"]
                self.span.set_status(trace.StatusCode.ERROR)
            self.span.end()
        instruments = _instruments()
        if instruments is not None:
            instruments.record(self._attributes, seconds)
        level = logging.INFO if error else logging.DEBUG
        if _LOGGER.isEnabledFor(level):
            how = f"failed: {error}" if error else "ended"
            fields = {**self._attributes, "seconds": round(seconds, 6)}
            _LOGGER.log(level, "%s %s after %.3f s", self._title, how, seconds, extra=fields)

    def failed(self, failure: BaseException) -> None:
        """The operation ended with an exception."""
        status = failure.status if isinstance(failure, ProviderError) else None
        self.end(
            {} if status is None else {"http.response.status_code": status},
            error=type(failure).__name__,
        )


class ModelCall(Operation):
    """One request to one provider, with its retries."""

    def __init__(self, provider: str, model: str, request: ModelRequest) -> None:
        options = request.options
        place = request.base_url or (
            provider_row(provider).base_url if is_known(provider) else None
        )
        super().__init__(
            "chat",
            model,
            {
                **provider_attributes(provider, model, place),
                "gen_ai.request.stream": request.stream or None,
                "gen_ai.request.max_tokens": options.max_tokens,
                "gen_ai.request.temperature": options.temperature,
                "gen_ai.request.top_p": options.top_p,
                "gen_ai.request.seed": options.seed,
                "gen_ai.request.stop_sequences": options.stop,
                "gen_ai.output.type": None if options.schema is None else "json",
            },
            kind="CLIENT",
        )
        self._is_streamed = request.stream
        self._is_answering = False
        self._retries = 0
        if self.takes_content:
            self.set_content("gen_ai.input.messages", _messages(request.turns))
            if request.system_prompt:
                instructions = [{"type": "text", "content": request.system_prompt}]
                self.set_content("gen_ai.system_instructions", instructions)

    def received(self) -> None:
        """Note that events have arrived."""
        if self._is_answering:
            return
        self._is_answering = True
        if self._is_streamed:
            self.set({"gen_ai.response.time_to_first_chunk": time.monotonic() - self._began})

    def retried(self, failure: ProviderError, seconds: float, reason: str) -> None:
        """Note a retry after a failure."""
        self._retries += 1
        kind = type(failure).__name__
        fields: dict[str, Any] = {
            "error.type": kind,
            "multi_llm_chat.retry.attempt": self._retries,
            "multi_llm_chat.retry.reason": reason,
            "multi_llm_chat.retry.wait": seconds,
        }
        if failure.status is not None:
            fields["http.response.status_code"] = failure.status
        if self.span is not None:
            self.span.add_event("multi_llm_chat.retry", fields)
        instruments = _instruments()
        if instruments is not None:
            instruments.retries.add(1, _dimensions({**self._attributes, "error.type": kind}))
        if _LOGGER.isEnabledFor(logging.INFO):
            _LOGGER.info("%s %s", self._title, reason, extra={**self._attributes, **fields})

    def answered(self, reply: Reply) -> None:
        """The reply is complete."""
        if self.takes_content:
            self.set_content("gen_ai.output.messages", _messages([reply.turn]))
        rules = dict.fromkeys(note.rule for note in reply.notes if note.rule)
        self.end(
            {
                "gen_ai.response.model": reply.turn.model or "",
                "gen_ai.response.finish_reasons": [reply.finish.reason],
                **usage_attributes(reply.usage),
                **({"multi_llm_chat.repairs": list(rules)} if rules else {}),
                **({"multi_llm_chat.retries": self._retries} if self._retries else {}),
            }
        )


def is_observed() -> bool:
    """Whether the program uses spans, metrics or log records."""
    modules = sys.modules
    return (
        "opentelemetry.trace" in modules
        or "opentelemetry.metrics" in modules
        or _LOGGER.isEnabledFor(logging.INFO)
    )


def begin_call(provider: str, model: str, request: ModelRequest) -> ModelCall | None:
    """Observe a call of a model; None if nothing records it."""
    return ModelCall(provider, model, request) if is_observed() else None


@contextmanager
def observed_run(
    labels: Mapping[str, str], ending: Callable[[], LoopEnd | None]
) -> Generator[None]:
    """Observe a run; operations that start inside become its children.

    Args:
        labels: Its ``run``, ``conversation``, ``agent``, ``provider`` and ``model``.
        ending: Returns how the run ended; called after its end.
    """
    if not is_observed():
        yield
        return
    ids = {
        "multi_llm_chat.run.id": labels["run"],
        "gen_ai.conversation.id": labels["conversation"],
    }
    token = _RUN.set({key: value for key, value in ids.items() if value})
    known = {
        "gen_ai.agent.name": labels["agent"],
        **provider_attributes(labels["provider"], labels["model"]),
    }
    operation = Operation("invoke_agent", labels["agent"], known)
    try:
        with _observed(operation):
            yield
            end = ending()
            if end is not None:
                found = {"multi_llm_chat.stop_reason": end.reason, **usage_attributes(end.usage)}
                operation.end(found, error=type(end.error).__name__ if end.error else "")
    finally:
        with suppress(ValueError):  # closed by the garbage collector, in another context
            _RUN.reset(token)


async def observed_tool(call: ToolCall, running: Awaitable[ToolResult]) -> ToolResult:
    """Observe a running tool; operations that start inside become its children."""
    if not is_observed():
        return await running
    known = {
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.tool_call_id,
        "gen_ai.tool.type": "function",
    }
    operation = Operation("execute_tool", call.name, known)
    if operation.takes_content:
        operation.set_content("gen_ai.tool.call.arguments", call.arguments)
    with _observed(operation):
        result = await running
        if operation.takes_content:
            operation.set_content("gen_ai.tool.call.result", result.content)
        operation.end(error="tool_error" if result.is_error else "")
        return result


def provider_attributes(provider: str, model: str, base_url: str | None = None) -> JsonObject:
    """The attributes of the provider, the model and the server."""
    known: JsonObject = {
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
    }
    place = urlsplit(base_url or "")
    if place.hostname:
        known["server.address"] = place.hostname
        known["server.port"] = place.port or (443 if place.scheme == "https" else 80)
    return known


def usage_attributes(usage: Usage) -> JsonObject:
    """The tokens of a reply or of a run."""
    known = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cache_read_tokens:
        known["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        known["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
    if usage.thinking_tokens:
        known["gen_ai.usage.reasoning.output_tokens"] = usage.thinking_tokens
    return known


@contextmanager
def _observed(operation: Operation) -> Generator[None]:
    """Make the operation's span the parent of spans that start inside; end the operation also if an exception is raised."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    try:
        if operation.span is None:
            yield
            return
        with trace.use_span(
            operation.span, end_on_exit=False, record_exception=False, set_status_on_exception=False
        ):
            yield
    except BaseException as error:
        operation.failed(error)
        raise
    finally:
        operation.end(error="interrupted")


# Metrics.


class _Instruments:
    """The metrics of one meter provider."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        meter = provider.get_meter(_NAME)

        def histogram(name: str, unit: str, words: str, buckets: tuple[float, ...]) -> Any:
            return meter.create_histogram(
                name, unit=unit, description=words, explicit_bucket_boundaries_advisory=buckets
            )

        duration = "gen_ai.client.operation.duration"
        self._seconds = {
            name: histogram(name, "s", words, _SECONDS)
            for name, words in (
                (duration, "Duration of a model call"),
                (_DURATIONS["execute_tool"], "Duration of a tool call"),
                (_DURATIONS["invoke_agent"], "Duration of a run"),
            )
        }
        self._first = histogram(
            "gen_ai.client.operation.time_to_first_chunk", "s", "Time to the first event", _SECONDS
        )
        self._tokens = histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens of model calls", _TOKENS
        )
        self.retries: Any = meter.create_counter(
            "multi_llm_chat.retries", unit="{request}", description="Requests that were sent again"
        )

    def record(self, attributes: Mapping[str, Any], seconds: float) -> None:
        """Record an operation that has ended."""
        operation = attributes["gen_ai.operation.name"]
        dimensions = _dimensions(attributes)
        name = _DURATIONS.get(operation, "gen_ai.client.operation.duration")
        self._seconds[name].record(seconds, dimensions)
        if operation == "invoke_agent":
            return  # the model calls of the run have recorded the tokens
        first = attributes.get("gen_ai.response.time_to_first_chunk")
        if first is not None:
            self._first.record(first, dimensions)
        for kind in ("input", "output"):
            tokens = attributes.get(f"gen_ai.usage.{kind}_tokens")
            if tokens is not None:
                self._tokens.record(tokens, {**dimensions, "gen_ai.token.type": kind})


_made: _Instruments | None = None


def _instruments() -> _Instruments | None:
    """The metrics of the program's meter provider; None if OpenTelemetry's metrics are not imported."""
    global _made
    metrics: Any = sys.modules.get("opentelemetry.metrics")
    if metrics is None:
        return None
    provider = metrics.get_meter_provider()
    made = _made
    if made is None or made.provider is not provider:
        made = _made = _Instruments(provider)
    return made


def _dimensions(attributes: Mapping[str, Any]) -> JsonObject:
    return {key: value for key, value in attributes.items() if key in _DIMENSIONS}


# Content, if the environment asks for it.


def _messages(turns: Iterable[Turn]) -> list[JsonObject]:
    return [
        {"role": _role(turn.role), "parts": [_part(part) for part in turn.parts]} for turn in turns
    ]


def _role(role: str) -> str:
    return role if role in ("user", "system", "tool") else "assistant"


def _part(part: Part) -> JsonObject:
    match part:
        case Text():
            return {"type": "text", "content": part.content}
        case Thinking():
            return {"type": "reasoning", "content": part.content}
        case ToolCall():
            return {
                "type": "tool_call",
                "id": part.tool_call_id,
                "name": part.name,
                "arguments": part.arguments,
            }
        case ToolResult():
            return {
                "type": "tool_call_response",
                "id": part.tool_call_id,
                "response": part.content,
            }
        case Media():  # without its bytes
            return {"type": "file", "mime_type": part.mime, "modality": part.mime.split("/")[0]}
        case _:
            return {"type": "native"}
