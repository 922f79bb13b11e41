"""Reads one streamed reply while it arrives.

Rules:
1. An ``Exchange`` does all parsing; this module passes the results to the application.
2. ``process`` reads the response to its end and closes it. It raises only ``ProviderError``: an exception of the response itself ends the
   reply, and the parts received so far are kept.
3. A call appears in ``get_tool_calls`` only when it is complete.
4. An exception of a listener is logged and ignored.
"""

import logging
from collections.abc import Callable, Sequence
from typing import ClassVar

from multi_llm_chat.compat.handlers._event_system import EventSystem, event_system_of
from multi_llm_chat.compat.handlers._payloads import Payload, native_messages, payload_of
from multi_llm_chat.compat.handlers._response_bytes import (
    close_response,
    open_response,
    until_cancelled,
)
from multi_llm_chat.compat.handlers._stream_context import Cancellation, Output, StreamingRequest
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.events import (
    Event,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallStart,
    Usage,
)
from multi_llm_chat.history.values import JsonObject, ToolCall, Turn
from multi_llm_chat.protocol.exchange import Exchange

_LOGGER = logging.getLogger(__name__)


class Listeners:
    """The receivers of events: an event system, functions, or none."""

    def __init__(
        self,
        events: EventSystem | None = None,
        output: Output | None = None,
        request: StreamingRequest | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._events = events
        self._logger = logger or _LOGGER
        self._output = output
        self._progress = request.progress_callback if request is not None else None

    def notify(self, chunks: Sequence[JsonObject]) -> None:
        """Pass on events in order; tools also through the event system."""
        if chunks and self._output is not None:
            self._guarded(self._output, chunks)
        for chunk in chunks:
            if self._progress is not None:
                self._guarded(self._progress, chunk)
            if self._events is not None and chunk["type"] in ("tool_start", "tool_result"):
                fields = {key: value for key, value in chunk.items() if key != "type"}
                self._guarded(self._events.emit, chunk["type"], fields)

    def _guarded(self, listener: Callable[..., object], *arguments: object) -> None:
        """Call a listener; log its exceptions, which must affect neither the reply nor other listeners."""
        try:
            listener(*arguments)
        except Exception:
            self._logger.warning("a listener failed", exc_info=True)


class ReplyReader:
    """Passes the events of a reply on to listeners, and notes how it ended."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self.finish = Finish("other")
        self.usage = Usage()

    def take(self, events: list[Event]) -> None:
        """Pass events on."""
        chunks: list[JsonObject] = []
        for event in events:
            match event:
                case TextDelta():
                    chunks.append({"type": "text", "content": event.text})
                case ThinkingDelta():
                    chunks.append({"type": "thinking", "content": event.text})
                case ToolCallStart():
                    chunks.append(
                        {
                            "type": "tool_start",
                            "tool_name": event.name,
                            "tool_id": event.tool_call_id,
                        }
                    )
                case Usage():
                    self.usage = event
                case Finish():
                    self.finish = event
                case _:
                    pass
        self._listeners.notify(chunks)


class StreamingProcessor:
    """Reads replies of one provider, which the subclasses name.

    Args:
        event_system: Receives ``tool_start`` as soon as a call begins; the application's own bus is accepted, too.
        logger: Logs failures of listeners; this module's logger if not given.
        payload: The request of the reply; optional.
        exchange: The exchange that reads the reply, if there is one already.
        listeners: The receivers, instead of the event system alone.
        cancellation: Ends the reply, also while it waits for the next piece.
    """

    provider: ClassVar[str] = "openai-chat"

    def __init__(
        self,
        event_system: object = None,
        logger: logging.Logger | None = None,
        *,
        payload: Payload | None = None,
        exchange: Exchange | None = None,
        listeners: Listeners | None = None,
        cancellation: Cancellation | None = None,
    ) -> None:
        self._cancellation = cancellation
        self._payload = payload or payload_of({}, self.provider)
        self._exchange = exchange or self._payload.exchange()
        events = None if event_system is None else event_system_of(event_system)
        self._reader = ReplyReader(listeners or Listeners(events, logger=logger))

    def process(self, response: object) -> Turn:
        """Read the whole response; return the model's turn.

        Raises:
            ProviderError: The reply is an error, is broken or cannot be read.
        """
        cause: Exception | None = None
        try:
            self._receive(response)
        except ProviderError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the application's response raises
            cause = error
        finally:
            close_response(response, self._cancellation)
        try:
            self._take(self._exchange.end())
        except ProviderError as failure:
            raise failure from cause
        return self.turn

    @property
    def finish(self) -> Finish:
        """How the reply ended."""
        return self._reader.finish

    @property
    def usage(self) -> Usage:
        """The tokens of the reply."""
        return self._reader.usage

    @property
    def turn(self) -> Turn:
        """The finished parts of the reply so far."""
        return self._exchange.turn

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The complete calls, in order."""
        return tuple(part for part in self.turn.parts if isinstance(part, ToolCall))

    def has_tool_calls(self) -> bool:
        """Whether the reply has tool calls."""
        return bool(self.calls)

    def get_tool_calls(self) -> list[JsonObject]:
        """The complete calls in the provider's own form."""
        return [self._payload.form.call(call) for call in self.calls]

    def update_response(self, standard_response: JsonObject) -> None:
        """Fill a response with the whole reply, in the provider's own form."""
        messages = native_messages(self._payload, self.turn)
        standard_response.update(self._payload.form.reply(messages, self.finish, self.usage))

    def cleanup(self) -> None:
        """Reset the state, for another reply."""
        self._exchange = self._payload.exchange()
        self._reader.finish, self._reader.usage = Finish("other"), Usage()

    def _receive(self, response: object) -> None:
        opened = open_response(response)
        self._exchange.begin(opened.status, opened.headers)
        pieces = opened.pieces
        if self._cancellation is not None:
            pieces = until_cancelled(pieces, self._cancellation)
        for piece in pieces:
            self._take(self._exchange.receive(piece))
            if self._exchange.failure is not None:
                return

    def _take(self, events: list[Event]) -> None:
        self._reader.take(events)


class GptStreamingProcessor(StreamingProcessor):
    """Reads a reply of Chat Completions, or of Responses if the payload is one of Responses."""


class ClaudeStreamingProcessor(StreamingProcessor):
    """Reads a reply of Anthropic's Messages."""

    provider = "anthropic"


class GeminiStreamingProcessor(StreamingProcessor):
    """Reads a reply of Gemini."""

    provider = "gemini"
