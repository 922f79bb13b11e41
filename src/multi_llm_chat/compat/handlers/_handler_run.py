"""One run: a reply, its tool calls, and all continuations.

Rules:
1. ``agent_loop`` decides; this module performs its effects, without ``async``.
2. The calls of one turn run at the same time; a failing one does not stop the others.
3. A review that raises cancels the run: the results are kept, and no further request is made.
4. An exception of the application's own functions ends the run with an error; its text is not repeated, because it may contain an address
   with a key.
"""

import concurrent.futures
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from multi_llm_chat.agent.agent_loop import LoopEnd, agent_loop, final_text
from multi_llm_chat.agent.effects import (
    CallModel,
    Cancelled,
    ModelAnswered,
    ModelFailed,
    Outcome,
    RunTools,
    ToolsRan,
)
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.compat.handlers._payloads import Payload, native_messages
from multi_llm_chat.compat.handlers._processor import Listeners, ReplyReader, StreamingProcessor
from multi_llm_chat.compat.handlers._stream_context import (
    Cancellation,
    StreamContext,
    StreamingRequest,
    StreamResult,
    ToolRound,
)
from multi_llm_chat.errors import MultiLLMChatError, ProviderError, UsageError
from multi_llm_chat.events import CompressionNote, Usage
from multi_llm_chat.history.values import JsonObject, Part, ToolCall, ToolResult, Turn
from multi_llm_chat.protocol.conversion import turns_from
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.request import Options, ToolDefinition
from multi_llm_chat.tools.tool_runner import ToolRunner

_LOGGER = logging.getLogger(__name__)


class HandlerRun:
    """A run on an application's payload; ``follow`` is called once."""

    def __init__(
        self,
        payload: Payload,
        tools: ToolRunner | None,
        listeners: Listeners,
        request: StreamingRequest,
        standard_response: JsonObject,
        context: StreamContext,
        *,
        cancellation: Cancellation,
        build: "BuildPayload | None" = None,
        provider: LLMProvider | None = None,
        logger: logging.Logger = _LOGGER,
    ) -> None:
        self._cancellation = cancellation
        self._logger = logger
        self._build = build
        self._provider = provider
        self._compressions: list[CompressionNote] = []
        self._last_payload = request.payload
        self._payload = payload
        self._tools = tools
        self._listeners = listeners
        self._request = request
        self._response = standard_response
        self._context = context
        self._started = time.monotonic()
        self._sent = 0
        self._offered: Sequence[ToolDefinition] = tools.definitions() if tools is not None else ()
        self._exchange: Exchange = payload.exchange((), self._offered, payload.thinking)

    def native_calls(self, outcome: Outcome) -> list[JsonObject]:
        """The calls of a reply in the provider's own form."""
        if not isinstance(outcome, ModelAnswered):
            return []
        calls = [part for part in outcome.turn.parts if isinstance(part, ToolCall)]
        if calls:
            self._logger.info("%s response has %d tool calls", self._payload.row.name, len(calls))
        return [self._payload.form.call(call) for call in calls]

    def follow(self, outcome: Outcome, limits: LoopLimits) -> StreamResult:
        """Continue from the first reply until there is an answer."""
        if self._tools is None and isinstance(outcome, ModelAnswered):
            return self._result(LoopEnd((outcome.turn,), "answered", 1, outcome.usage))
        loop = agent_loop((), options=Options(thinking=self._payload.thinking), limits=limits)
        next(loop)
        while True:
            try:
                effect = loop.send(outcome)
            except StopIteration as stop:
                return self._result(stop.value)
            if isinstance(effect, CallModel):
                outcome = self._ask(effect)
            else:
                self._logger.info("Tool iteration %d/%d", effect.iteration, limits.iterations)
                outcome = self._use(effect)

    def read(self, response: object) -> Outcome:
        """Read a response, and fill ``standard_response`` with it."""
        processor = StreamingProcessor(
            payload=self._payload,
            exchange=self._exchange,
            listeners=self._listeners,
            cancellation=self._cancellation,
        )
        try:
            turn = processor.process(response)
        except ProviderError as error:
            partial = error.partial if isinstance(error.partial, Turn) else None
            if self._cancellation.is_set:
                return Cancelled(partial or processor.turn, (), self._elapsed)
            if partial is not None:
                processor.update_response(self._response)
            return ModelFailed(error, partial, self._elapsed)
        processor.update_response(self._response)
        return ModelAnswered(turn, processor.finish.reason, processor.usage, self._elapsed)

    def take_calls(self, tool_calls: Sequence[Any]) -> Outcome:
        """Use calls that the application has read, with the text of ``standard_response`` around them."""
        messages = self._payload.form.calls(list(tool_calls))
        turns = turns_from(messages, self._payload.row.dialect)
        calls = [part for turn in turns for part in turn.parts if isinstance(part, ToolCall)]
        if not calls:
            raise UsageError("There is no tool call in the list")
        said = self.read(dict(self._response)) if self._response else None
        around = said.turn.parts if isinstance(said, ModelAnswered) else ()
        parts = (*(part for part in around if not isinstance(part, ToolCall)), *calls)
        turn = Turn(self._payload.row.speaker, parts, model=self._payload.model)
        return ModelAnswered(turn, "tool_calls", Usage(), self._elapsed)

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _ask(self, effect: CallModel) -> Outcome:
        """Let the application send the next request, and read its reply."""
        if self._cancellation.is_set:
            return Cancelled(None, (), self._elapsed)
        body, self._exchange, note = self._payload.continued(effect, self._offered)
        if note is not None:
            self._compressions.append(note)
            _LOGGER.info(
                "a request was compressed from %d to %d tokens",
                note.tokens_before,
                note.tokens_after,
            )
        if self._build is not None:
            body = self._build(
                self._last_payload, self._response, written_results(effect.history[-1].parts)
            )
        self._last_payload = body
        self._sent += 1
        request = msgspec.structs.replace(
            self._request, request_id=f"{self._request.request_id}.{self._sent}", payload=body
        )
        if self._provider is not None and self._context.make_request is None:
            return self._ask_provider(self._provider, effect)
        try:
            if self._context.make_request is None:
                raise UsageError("StreamContext.make_request is needed to continue")
            response = self._context.make_request(request)
        except Exception as error:  # noqa: BLE001 - whatever the application's function raises
            return ModelFailed(_not_made(error), None, self._elapsed)
        return self.read(response)

    def ask_provider(self, provider: LLMProvider) -> Outcome:
        """Send the payload unchanged to the provider."""
        return self._ask_provider(
            provider, CallModel((), True, Options(thinking=self._payload.thinking), 1)
        )

    def _ask_provider(self, provider: LLMProvider, effect: CallModel) -> Outcome:
        turns, note = self._payload.fitted(effect.history, self._offered)
        self._compressions += [note] if note else []
        tools = self._offered if effect.offer_tools else ()
        request = provider.request(
            turns, self._payload.system_text(), tools, options=effect.options
        )
        try:
            with provider.ask_sync(request) as stream:
                self._cancellation.on_cancel(stream.stop)
                reader = ReplyReader(self._listeners)
                for event in stream:
                    reader.take([event])
                reply = stream.reply
        except ProviderError as error:
            partial = error.partial if isinstance(error.partial, Turn) else None
            if self._cancellation.is_set:
                return Cancelled(partial, (), self._elapsed)
            return ModelFailed(error, partial, self._elapsed)
        own = msgspec.structs.replace(reply.turn, role=self._payload.row.speaker)
        messages = native_messages(self._payload, own)
        self._response.update(self._payload.form.reply(messages, reply.finish, reply.usage))
        return ModelAnswered(reply.turn, reply.finish.reason, reply.usage, self._elapsed)

    def _use(self, effect: RunTools) -> Outcome:
        assert self._tools is not None
        if self._cancellation.is_set:
            return Cancelled(None, (), self._elapsed)
        for call in effect.calls:
            if call.error is not None:
                self._logger.error("Invalid tool arguments JSON: %s: %s", call.name, call.error)
        results = self._run_together(self._tools, effect.calls)
        if self._cancellation.is_set:
            return Cancelled(None, tuple(results.values()), self._elapsed)
        done = ToolRound(effect.calls, results, self._tools, self._context.conversation)
        if self._context.review is not None:
            try:
                self._context.review(done)
            except Exception:
                _LOGGER.warning("a review failed: the run is cancelled", exc_info=True)
                return Cancelled(None, done.results, self._elapsed)
        return ToolsRan(done.results, self._elapsed)

    def _run_together(self, tools: ToolRunner, calls: Sequence[ToolCall]) -> dict[str, ToolResult]:
        running: dict[concurrent.futures.Future[ToolResult], ToolCall] = {}
        results: dict[str, ToolResult] = {}
        try:
            for call in calls:
                future = tools.submit(call, conversation=self._context.conversation)
                running[future] = call
                self._cancellation.on_cancel(future.cancel)
            for future in concurrent.futures.as_completed(running):
                result = _result_of(future)
                if result is not None:  # the loop adds a result for a call without one
                    results[running[future].tool_call_id] = result
                    self._tell(running[future], result)
        finally:
            for future in running:
                future.cancel()
        return results

    def _tell(self, call: ToolCall, result: ToolResult) -> None:
        if result.is_error and call.error is None:
            # Without the tool's error text, which may contain an address with a key.
            self._logger.error("Tool execution failed: %s", call.name)
        fields = {
            "tool_name": call.name,
            "tool_id": call.tool_call_id,
            "tool_result": result.content,
        }
        self._listeners.notify([{"type": "tool_result", **fields}])

    def _result(self, end: LoopEnd) -> StreamResult:
        return StreamResult(
            success=end.reason != "error",
            response=self._response,
            text=final_text(end.delta),
            turns=end.delta,
            stop_reason=end.reason,
            iterations=end.iterations,
            usage=end.usage,
            error=end.error,
            compressions=tuple(self._compressions),
        )


#: Makes the payload of a continuation from the payload sent last, its reply, and the results as messages.
BuildPayload: TypeAlias = Callable[[JsonObject, JsonObject, list[JsonObject]], JsonObject]


def written_results(parts: Sequence[Part]) -> list[JsonObject]:
    """The results among the parts, in the seeds' form."""
    return [
        {
            "tool_call_id": part.tool_call_id,
            "role": "tool",
            "name": part.name,
            "content": part.content,
        }
        for part in parts
        if isinstance(part, ToolResult)
    ]


def _result_of(future: "concurrent.futures.Future[ToolResult]") -> ToolResult | None:
    if future.cancelled():
        return None
    failure = future.exception()
    if failure is None:
        return future.result()
    _LOGGER.warning("a tool gave no result", exc_info=failure)
    return None


def _not_made(error: Exception) -> ProviderError:
    if isinstance(error, ProviderError):
        return error
    failure = ProviderError(
        f"The application could not make the next request: {type(error).__name__}"
    )
    failure.__cause__ = error
    return failure


def failed(error: Exception, standard_response: JsonObject) -> StreamResult:
    """The result of a run that ended with an unexpected exception."""
    _LOGGER.warning("a stream could not be followed", exc_info=error)
    failure = error
    if not isinstance(failure, MultiLLMChatError):
        failure = MultiLLMChatError(f"The stream could not be followed: {type(error).__name__}")
        failure.__cause__ = error
    return StreamResult(False, standard_response, stop_reason="error", error=failure)
