"""Tool calls from a provider's stream that the application itself reads, as plain dictionaries.

Rules:
1. A call is given out once, as soon as it is known to be complete, in the order of completion; OpenAI's in the order of
   their index.
2. ``error`` and ``raw_arguments`` are there only where the arguments could not be read: such a
   call must not be run.
3. What is given in may be a mapping or an object with attributes, such as the official SDKs'; Gemini's in camel
   or snake case, and the function call itself may be given in place of its part.
4. OpenAI: a call is given out when another has begun and its own arguments are whole, else by
   ``finalize``: so interleaved calls are never cut short.
5. Gemini: a call is given out as soon as its arguments are known, or when another begins, else by
   ``finalize``. A call without arguments is a call.
6. Anthropic: all events may be given; only those about ``tool_use`` blocks and the end matter. A call is given
   out as soon as its arguments are whole; one without arguments when something else follows, for only that
   shows that it was not cut off.
7. All quirks are those of our own decoders, which do the work.
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
    """The calls that were completed and not yet given out."""

    def __init__(self) -> None:
        self._calls: deque[dict[str, Any]] = deque()

    def take(self, events: Iterable[Event]) -> dict[str, Any] | None:
        """Note the calls that the events complete; give out the oldest one, if there is any."""
        self._note(events)
        return self._calls.popleft() if self._calls else None

    def take_all(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Note the calls that the events complete; give out all."""
        self._note(events)
        calls = list(self._calls)
        self._calls.clear()
        return calls

    def _note(self, events: Iterable[Event]) -> None:
        self._calls.extend(
            as_dict(event.call) for event in events if isinstance(event, ToolCallEnd)
        )


def as_dict(call: ToolCall) -> dict[str, Any]:
    """Write a call as ``{name, arguments, tool_call_id}``, and what is wrong with it."""
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
    """Puts streamed tool calls together."""

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
        """Close all calls; give out those that were not given out before, in the order of their index."""
        self._note(self._calls.close_all())
        rest = [call for index in sorted(self._complete) for call in self._complete[index]]
        self._complete.clear()
        return rest

    def finalize_pending_calls(self) -> Iterator[dict[str, Any]]:
        """Like ``finalize``, each call as a chunk of ``call_api``: ``{"type": "tool_call", "content": …}``."""
        for call in self.finalize():
            yield {"type": "tool_call", "content": call}

    def reset(self) -> None:
        """Forget everything, for another reply."""
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
    """Puts function calls together whose name and arguments come apart."""

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
        """Close all calls; give out those that were not given out before."""
        return self._finished.take_all(self._assembly.calls.close_all())


def _function_call(part: object) -> object:
    for name in ("function_call", "functionCall"):  # an object has the first, also a mock
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
    """Puts ``tool_use`` blocks together."""

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
        """Close all calls; give out those that were not given out before."""
        return self._finished.take_all(self._decoder.close_calls())
