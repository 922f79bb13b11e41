"""What an interrupted run has done, read from its journal.

Rules:
1. A model's turn that is kept is not asked for again; a tool's result that is kept is told again, not found out again.
2. A round of tools is replayed as a whole when every call of it has its result; otherwise the loop runs it, and who
   runs the tools gives the results there are.
3. A tool that was begun and has no result was interrupted: nobody knows what became of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from multi_llm_chat.durable.stream import read_result
from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import ToolCall, ToolResult, Turn
from multi_llm_chat.loop.effects import ModelAnswered, Outcome, ToolsRan
from multi_llm_chat.store import Call, Transaction, calls, reading
from multi_llm_chat.store.turns import turns_of_run

#: What the model is told in place of a result that nobody knows.
UNKNOWN: Final = (
    "[outcome unknown: the program was interrupted while this tool was running. It may have done its work or not. "
    "Find out before you call it again, or tell the user.]"
)

_OVER: Final = frozenset({"done", "unknown"})


class Recorded(Struct, frozen=True):
    """What the journal of a run has.

    ``results`` and ``interrupted`` are by the numbers of calls, ``turns`` by their ids. ``next_model`` is the number of the
    question that is asked next, if the run stands before one.
    """

    outcomes: tuple[Outcome, ...] = ()
    turns: Mapping[str, Turn] = {}
    results: Mapping[int, ToolResult] = {}
    interrupted: frozenset[int] = frozenset()
    next_model: int = 0
    asks_model: bool = True


NOTHING: Final = Recorded()


@reading
def read_recorded(transaction: Transaction, conversation: str, run_id: str) -> Recorded:
    """What a run has done."""
    turns = {turn.id or "": turn for turn in turns_of_run(transaction, conversation, run_id)}
    return _recorded(calls(transaction, run_id), turns)


def _recorded(journal: Sequence[Call], turns: Mapping[str, Turn]) -> Recorded:
    outcomes: list[Outcome] = []
    by_number = {call.number: call for call in journal}
    tools = [call for call in journal if call.kind == "tool"]
    results = {call.number: _result(call) for call in tools if call.state in _OVER}
    interrupted = frozenset(call.number for call in tools if call.state not in _OVER)
    number = 0
    asks_model = True
    while True:
        call = by_number.get(number)
        if call is None or call.kind != "model" or call.state != "done" or call.turn is None:
            break
        answered = _answered(call, turns[call.turn])
        outcomes.append(answered)
        count = len([part for part in answered.turn.parts if isinstance(part, ToolCall)])
        numbers = range(number + 1, number + 1 + count)
        if not count or not all(each in results for each in numbers):
            asks_model = False
            break
        outcomes.append(_ran([by_number[each] for each in numbers]))
        number += count + 1
    return Recorded(tuple(outcomes), turns, results, interrupted, number, asks_model)


def _answered(call: Call, turn: Turn) -> ModelAnswered:
    told = cast("dict[str, Any]", call.result)
    usage = Usage() if told["usage"] is None else Usage(*told["usage"])
    return ModelAnswered(turn, told["finish"], usage, told["elapsed"])


def _ran(rounds: Sequence[Call]) -> ToolsRan:
    elapsed = max(cast("dict[str, Any]", call.result)["elapsed"] for call in rounds)
    return ToolsRan(tuple(map(_result, rounds)), elapsed)


def _result(call: Call) -> ToolResult:
    return read_result(cast("dict[str, Any]", call.result)["result"])
