"""Assemble tool calls, as plain dictionaries, from a provider's stream that the application reads itself.

Rules:
1. A call is returned once, as soon as it is known to be complete, in the order of completion; OpenAI's in the order of their index.
2. ``error`` and ``raw_arguments`` are present only if the arguments could not be parsed: such a call must not be run.
3. Input may be mappings or objects with attributes, such as those of the official SDKs; Gemini's in camel or snake case, and as the part or
   as its function call alone.
4. OpenAI: a call is returned when another has begun and its own arguments are complete, else by ``finalize``, so that interleaved calls are
   never truncated.
5. Gemini: a call is returned as soon as its arguments are known, or when another begins, else by ``finalize``. A call may have no
   arguments.
6. Anthropic: all events may be passed; only those about ``tool_use`` blocks and the end matter. A call is returned as soon as its arguments
   are complete; a call without arguments when another event follows, because only that shows that it was not cut off.
7. Our own decoders do the work, so deviations of providers are handled as there.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from multi_llm_chat.events import Event, ToolCallEnd
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.values import ToolCall
from multi_llm_chat.protocol.anthropic.decode import FRAMES, AnthropicDecoder
from multi_llm_chat.protocol.calls import CallAssembly, DecodeContext
from multi_llm_chat.protocol.gemini.decode import CALLS as GEMINI_CALLS
from multi_llm_chat.protocol.gemini.decode import add_function_call
from multi_llm_chat.protocol.openai_chat.chunks import CALLS as OPENAI_CALLS
from multi_llm_chat.protocol.openai_chat.chunks import FunctionDelta
from multi_llm_chat.protocol.turn_assembly import Assembly

_LOGGER = logging.getLogger(__name__)


class FinishedCalls:
    """The calls that are complete and not yet returned."""

    def __init__(self) -> None:
        self._calls: deque[dict[str, Any]] = deque()

    def take(self, events: Iterable[Event]) -> dict[str, Any] | None:
        """Add the calls that the events complete; return the oldest waiting one, if there is any."""
        self._note(events)
        return self._calls.popleft() if self._calls else None

    def take_all(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Add the calls that the events complete; return all waiting ones."""
        self._note(events)
        calls = list(self._calls)
        self._calls.clear()
        return calls

    def _note(self, events: Iterable[Event]) -> None:
        self._calls.extend(
            as_dict(event.call) for event in events if isinstance(event, ToolCallEnd)
        )


def as_dict(call: ToolCall) -> dict[str, Any]:
    """Write a call as ``{name, arguments, tool_call_id}``, with its error if it has one."""
    written: dict[str, Any] = {
        "name": call.name,
        "arguments": call.arguments,
        "tool_call_id": call.tool_call_id,
    }
    if call.error is not None:
        written["error"] = call.error
        written["raw_arguments"] = call.raw_arguments or ""
    return written


class OpenAIToolCallAssembler:
    """Assembles streamed tool calls."""

    def __init__(self, context: DecodeContext | None = None) -> None:
        self._calls = CallAssembly(context or DecodeContext())
        self._complete: dict[int, list[dict[str, Any]]] = {}  # by the provider's index
        self._indices: dict[int, int] = {}  # from our number of a call to the provider's
        self._next = 0

    def process_tool_call(self, tool_call_delta: object) -> dict[str, Any] | None:
        """Take one element of ``delta.tool_calls``.

        Returns:
            ``{name, arguments, tool_call_id}`` of an earlier call that is now complete, or None.
        """
        delta = OPENAI_CALLS.fit(tool_call_delta)
        function = delta.function or FunctionDelta()
        draft, events = self._calls.add(
            key=delta.index, wire_id=delta.id, name=function.name, arguments=function.arguments
        )
        self._indices.setdefault(draft.index, draft.index if delta.index is None else delta.index)
        self._note(events)
        waiting = self._complete.get(self._next)
        if not waiting:
            return None
        self._next += len(waiting) == 1
        return waiting.pop(0)

    def finalize(self) -> list[dict[str, Any]]:
        """Close all calls; return those not returned before, in the order of their index."""
        self._note(self._calls.close_all())
        rest = [call for index in sorted(self._complete) for call in self._complete[index]]
        self._complete.clear()
        return rest

    def finalize_pending_calls(self) -> Iterator[dict[str, Any]]:
        """Like ``finalize``, each call as a chunk of ``call_api``: ``{"type": "tool_call", "content": …}``."""
        for call in self.finalize():
            yield {"type": "tool_call", "content": call}

    def reset(self) -> None:
        """Reset the state, for another reply."""
        self.__init__()

    def _note(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, ToolCallEnd):
                index = self._indices.get(event.index, event.index)
                self._complete.setdefault(index, []).append(as_dict(event.call))


def parse_openai_tool_call(tool_call: object) -> dict[str, Any]:
    """Read one whole tool call of a message.

    Returns:
        ``{name, arguments, tool_call_id}``, with ``error`` and ``raw_arguments`` where the
        arguments are not a JSON object. Name and id are empty where there are none.
    """
    call = OPENAI_CALLS.fit(tool_call)
    function = call.function or FunctionDelta()
    arguments, text, error = parse_arguments(function.arguments)
    if error is not None:
        _LOGGER.warning("Failed to parse tool arguments JSON: %s", error)
    return as_dict(ToolCall(function.name or "", arguments, call.id or "", text, error))


class GeminiToolCallAssembler:
    """Assembles function calls whose name and arguments arrive separately."""

    def __init__(self, context: DecodeContext | None = None) -> None:
        self._assembly = Assembly(context or DecodeContext())
        self._finished = FinishedCalls()

    def process_function_call(self, part: object) -> dict[str, Any] | None:
        """Take one part of the content; parts that are no function call are ignored.

        Returns:
            ``{name, arguments, tool_call_id}`` of a call that is now complete, or None.
        """
        call = _function_call(part)
        if call is None:
            return None
        return self._finished.take(add_function_call(self._assembly, GEMINI_CALLS.fit(call)))

    def finalize(self) -> list[dict[str, Any]]:
        """Close all calls; return those not returned before."""
        return self._finished.take_all(self._assembly.calls.close_all())


def _function_call(part: object) -> object:
    for name in ("function_call", "functionCall"):  # objects, including mocks, have the first
        found = _field(part, name)
        if found is not None:
            return found
    has_call = _field(part, "name") is not None or _field(part, "args") is not None
    return part if has_call else None


def _field(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None)


class AnthropicToolCallAssembler:
    """Assembles ``tool_use`` blocks."""

    def __init__(self, context: DecodeContext | None = None) -> None:
        self._decoder = AnthropicDecoder(context or DecodeContext())
        self._finished = FinishedCalls()

    def process_event(self, event: object) -> dict[str, Any] | None:
        """Take one event of the stream.

        Returns:
            ``{name, arguments, tool_call_id}`` of a call that is now complete, or None.
        """
        return self._finished.take(self._decoder.read_frame(FRAMES.fit(event)))

    def finalize(self) -> list[dict[str, Any]]:
        """Close all calls; return those not returned before."""
        return self._finished.take_all(self._decoder.close_calls())
