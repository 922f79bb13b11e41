"""Tool calls from the parts of a Gemini stream that somebody else reads.

Rules:
1. A part may be a mapping (camel or snake case) or an object with attributes; the function call
   itself may be given in its place.
2. A call is given out as soon as its arguments are known, or when another begins, else by
   ``finalize``. A call without arguments is a call.
3. All rules are those of ``function_calls``, the same as in our own decoder.
"""

from collections.abc import Mapping
from typing import Any, cast

from multi_llm_chat.compat.finished_calls import FinishedCalls
from multi_llm_chat.protocol.calls import DecodeContext
from multi_llm_chat.protocol.gemini.decode import CALLS, add_function_call
from multi_llm_chat.protocol.turn_assembly import Assembly


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
        return self._finished.take(add_function_call(self._assembly, CALLS.fit(call)))

    def finalize(self) -> list[dict[str, Any]]:
        """Close all calls; give out those that were not given out before."""
        return self._finished.take_all(self._assembly.calls.close_all())


def _function_call(part: object) -> object:
    for name in ("functionCall", "function_call"):
        found = _field(part, name)
        if found is not None:
            return found
    has_call = _field(part, "name") is not None or _field(part, "args") is not None
    return part if has_call else None


def _field(value: object, name: str) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None)
