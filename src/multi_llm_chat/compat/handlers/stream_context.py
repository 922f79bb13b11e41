"""What passes between a handler and the application that owns the HTTP calls."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from multi_llm_chat.compat.handlers.tool_review import ToolRound
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import StopReason, Usage
from multi_llm_chat.history.values import JsonObject, Turn

#: Told while a reply arrives: ``text``, ``thinking``, ``tool_start`` and ``tool_result`` as dicts.
Output: TypeAlias = Callable[[Sequence[JsonObject]], object]


class StreamingRequest(Struct, frozen=True):
    """A payload to be sent as it is; ``progress_callback`` is told every piece of its reply."""

    request_id: str
    payload: JsonObject
    progress_callback: Callable[[JsonObject], object] | None = None


class StreamContext(Struct, frozen=True):
    """What the application does for a handler.

    Attributes:
        make_request: Sends a continuation and gives the provider's response: anything that
            ``process_stream`` takes, or ``{"success": …, "response": …}`` around it.
        original_payload: The payload of ``handle_tool_calls``, which gets no request.
        model: Where the payload does not name it, as with Gemini.
        emit_stream_output: Told text, thinking, starting tools and results as they come.
        review: Called after each round of tools, before the model is told: results can be edited, tools run
            again. The run goes on when it returns, so a step mode is a review that waits.
        conversation: Where "allow in this conversation" holds.
    """

    make_request: Callable[[StreamingRequest], Any]
    original_payload: JsonObject | None = None
    model: str | None = None
    emit_stream_output: Output | None = None
    review: Callable[[ToolRound], object] | None = None
    conversation: str | None = None


class StreamResult(Struct, frozen=True):
    """How a stream ended, and everything that followed from it.

    ``response`` is the last reply in the provider's own form; ``turns`` are all turns that were added, tool
    results among them; ``iterations`` counts the requests that offered tools.
    """

    success: bool
    response: JsonObject
    text: str = ""
    turns: tuple[Turn, ...] = ()
    stop_reason: StopReason = "answered"
    iterations: int = 1
    usage: Usage = Usage()
    error: MultiLLMChatError | None = None
