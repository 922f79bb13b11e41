"""The values that pass between a handler and the application that sends the requests; and the review of tool results.

Rules of a review:
1. The model receives the results in their state at the end of the review; each call has exactly one.
2. Until then, any thread may use the round.

The review by events is a step mode for applications that know only events:
3. ``review_tool_results_request`` has the results; the model receives nothing before the answer.
4. The answer, ``tool_results_reviewed``, may name results to ``modify``, tools to ``reexecute``, or ``cancel`` the run.
5. After tools have run again, the results are sent for review again.
6. If the answer is an error, or names something that does not exist, the results are not changed.
"""

import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from multi_llm_chat.compat.handlers._event_system import REVIEW, EventSystem
from multi_llm_chat.errors import MultiLLMChatError, ToolError, UsageError
from multi_llm_chat.events import CompressionNote, StopReason, Usage
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult, Turn
from multi_llm_chat.tools.tool_runner import ToolRunner

# The review of results.


class ToolRound:
    """One round: its calls and their results."""

    def __init__(
        self,
        calls: Sequence[ToolCall],
        results: Mapping[str, ToolResult],
        tools: ToolRunner,
        conversation: str | None,
    ) -> None:
        self.calls = tuple(calls)
        ids = [call.tool_call_id for call in calls]
        self._results = {one: results[one] for one in ids if one in results}
        self._tools = tools
        self._conversation = conversation

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The current results, in the order of the calls."""
        return tuple(self._results.values())

    def modify_tool_result(self, tool_call_id: str, content: Any) -> ToolResult:
        """Replace the result that the model receives."""
        self._call(tool_call_id)
        edited = msgspec.structs.replace(self._results[tool_call_id], content=content)
        self._results[tool_call_id] = edited
        return edited

    def reexecute_tool(self, tool_call_id: str) -> ToolResult:
        """Run a tool again and use its new result."""
        call = self._call(tool_call_id)
        result = self._tools.submit(call, conversation=self._conversation).result()
        self._results[tool_call_id] = result
        return result

    def _call(self, tool_call_id: str) -> ToolCall:
        for call in self.calls:
            if call.tool_call_id == tool_call_id and tool_call_id in self._results:
                return call
        waiting = ", ".join(self._results) or "none"
        raise UsageError(f"No result of {tool_call_id!r} waits to be sent (waiting: {waiting})")


# The review by events.

_LOGGER: Final = logging.getLogger(__name__)


class ReviewCancelled(ToolError):
    """The reviewer stopped the run."""


def review_by_events(
    events: EventSystem, timeout: float | None = None
) -> Callable[[ToolRound], None]:
    """A ``StreamContext.review`` through events; it waits without limit, or for ``timeout`` seconds."""

    def review(done: ToolRound) -> None:
        again = True
        while again:
            answer = events.request(REVIEW, {"results": _shown(done)}, timeout=timeout)
            if answer.get("cancel"):
                raise ReviewCancelled("The reviewer stopped the run")
            again = _apply(done, answer)

    return review


def _shown(done: ToolRound) -> list[JsonObject]:
    return [
        {
            "tool_name": result.name,
            "tool_id": result.tool_call_id,
            "tool_result": result.content,
            "is_error": result.is_error,
        }
        for result in done.results
    ]


def _apply(done: ToolRound, answer: JsonObject) -> bool:
    """Apply the answer; return whether tools have run again."""
    ran = False
    try:
        for tool_call_id, content in (as_object(answer.get("modify")) or {}).items():
            done.modify_tool_result(tool_call_id, content)
        for tool_call_id in as_list(answer.get("reexecute")) or []:
            done.reexecute_tool(tool_call_id)
            ran = True
    except UsageError as error:
        _LOGGER.warning("a review was not followed: %s", error)
    return ran


# Cancelling.


class Cancellation:
    """Ends a run from any thread: the reply is closed, running tools are cancelled, the parts received so far are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: list[Callable[[], object]] = []
        self._is_set = False

    @property
    def is_set(self) -> bool:
        """Whether the run is cancelled."""
        return self._is_set

    def cancel(self) -> None:
        """Cancel the run."""
        with self._lock:
            self._is_set = True
            actions, self._actions = self._actions, []
        for action in actions:
            action()

    def on_cancel(self, action: Callable[[], object]) -> None:
        """Call the function when the run is cancelled; at once if it is already."""
        with self._lock:
            if not self._is_set:
                self._actions.append(action)
                return
        action()


# Requests and results.

#: Called while a reply arrives, with ``text``, ``thinking``, ``tool_start`` and ``tool_result`` as dicts.
Output: TypeAlias = Callable[[Sequence[JsonObject]], object]


class StreamingRequest(Struct, frozen=True):
    """A payload that is sent unchanged; ``progress_callback`` receives every piece of its reply."""

    request_id: str
    payload: JsonObject
    progress_callback: Callable[[JsonObject], object] | None = None


class StreamContext(Struct, frozen=True):
    """The functions and settings of the application for a handler.

    Attributes:
        make_request: Sends a continuation and returns the provider's response: anything that ``process_stream`` accepts, or ``{"success":
            …, "response": …}`` around it. Not needed if the handler has an ``LLMProvider``.
        original_payload: The payload for ``handle_tool_calls``, which has no request argument.
        model: The model, if the payload does not name it, as with Gemini.
        emit_stream_output: Receives text, thinking, starting tools and results as they arrive.
        review: Called after each round of tools, before the model receives the results: it may edit them and run tools again. The run
            continues when it returns, so a review that waits is a step mode.
        conversation: The conversation in which "allow in this conversation" holds.
        tool_registry: Runs the tools if the handler has none; an object with ``execute_tool(name, input)`` is accepted, too.
        cancellation: Ends the run, also while a reply streams or a tool runs.
    """

    make_request: Callable[[StreamingRequest], Any] | None = None
    original_payload: JsonObject | None = None
    model: str | None = None
    emit_stream_output: Output | None = None
    review: Callable[[ToolRound], object] | None = None
    conversation: str | None = None
    tool_registry: Any = None
    cancellation: Cancellation | None = None


def stream_context_of(context: object) -> StreamContext:
    """The context itself, or one made from an application's own object with the seeds' attributes.

    An attribute of a wrong type counts as missing, because a mock has all attributes. A review is used only if it was set.
    """
    if isinstance(context, StreamContext):
        return context
    payload = as_object(getattr(context, "original_payload", None))
    model: object = getattr(context, "model", None)
    conversation: object = getattr(context, "conversation", None)
    cancellation: object = getattr(context, "cancellation", None)
    is_reviewed = inspect.getattr_static(context, "review", None) is not None
    return StreamContext(
        make_request=_function(context, "make_request"),
        original_payload=payload,
        model=model if isinstance(model, str) else None,
        emit_stream_output=_function(context, "emit_stream_output"),
        review=_function(context, "review") if is_reviewed else None,
        conversation=conversation if isinstance(conversation, str) else None,
        tool_registry=getattr(context, "tool_registry", None),
        cancellation=cancellation if isinstance(cancellation, Cancellation) else None,
    )


def streaming_request_of(request: object) -> StreamingRequest:
    """The request itself, or one made from an application's own object with ``payload``.

    Raises:
        UsageError: It has no payload.
    """
    if isinstance(request, StreamingRequest):
        return request
    payload = as_object(getattr(request, "payload", None))
    if payload is None:
        raise UsageError(f"{type(request).__name__} is no request: it has no payload")
    identifier: object = getattr(request, "request_id", None)
    name = identifier if isinstance(identifier, str) else ""
    return StreamingRequest(name, payload, _function(request, "progress_callback"))


def _function(owner: object, name: str) -> Callable[..., Any] | None:
    found: object = getattr(owner, name, None)
    return found if callable(found) else None


class StreamResult(Struct, frozen=True):
    """The result of a run on a stream.

    ``response`` is the last reply in the provider's own form; ``turns`` are all added turns, including tool results; ``iterations`` counts
    the requests that offered tools. ``compressions`` describe what requests left out to fit the model's window.
    """

    success: bool
    response: JsonObject
    text: str = ""
    turns: tuple[Turn, ...] = ()
    stop_reason: StopReason = "answered"
    iterations: int = 1
    usage: Usage = Usage()
    error: MultiLLMChatError | None = None
    compressions: tuple[CompressionNote, ...] = ()
