"""Function calls as Gemini sends them: mostly whole, sometimes name and arguments apart.

Rules:
1. A named fragment is a call of its own, with or without an id (STR-15).
2. A nameless fragment continues the call before it, if that has no arguments yet; a name behind
   nameless arguments belongs to them.
3. Name and arguments together are a whole call. A name alone stays open, for its arguments may
   follow, until something else does: then it is a call without arguments, and never dropped.
"""

from multi_llm_chat.events import Event
from multi_llm_chat.protocol.gemini.frames import FunctionCall
from multi_llm_chat.protocol.turn_assembly import Assembly


def add_function_call(assembly: Assembly, call: FunctionCall) -> list[Event]:
    """Take one function call, or a part of one."""
    last = assembly.calls.last
    continues = last is not None and not last.closed and not (call.name and last.name)
    events: list[Event] = [] if last is None or continues else assembly.calls.close(last)
    events += assembly.add_call(
        wire_id=None if continues else call.id,
        name=call.name,
        arguments=call.args or None,
        separate=not continues,
    )
    added = assembly.calls.last
    if added is not None and added.name and added.has_arguments:
        events += assembly.calls.close(added)
    return events
