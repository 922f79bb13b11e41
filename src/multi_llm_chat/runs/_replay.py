"""What an interrupted run did in earlier attempts, read from its journal.

Rules:
1. A recorded turn of the model is not requested again, and a tool with a recorded result does not run again.
2. A round of tools is replayed as a whole when every call of it has a result. Otherwise the loop runs the round again,
   and the driver uses the recorded results for the calls that have one.
3. A tool that was started and has no result was interrupted: its outcome is unknown.
4. Arguments that a person gave a call in an earlier attempt are the call's arguments in the next one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from multi_llm_chat.agent.effects import ModelAnswered, Outcome, ToolsRan
from multi_llm_chat.events import Usage
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import JsonObject, ToolCall, ToolResult, Turn
from multi_llm_chat.store import RecordedCall, Transaction, calls, reading
from multi_llm_chat.store.turn_rows import read_part_row
from multi_llm_chat.store.turns import turns_of_run

#: What the model reads instead of an unknown result.
UNKNOWN: Final = (
    "[outcome unknown: the program was interrupted while this tool was running. It may have done its work or not. "
    "Find out before you call it again, or tell the user.]"
)

_OVER: Final = frozenset({"done", "unknown"})


class Replay(Struct, frozen=True):
    """The content of a run's journal.

    ``outcomes`` are sent to the loop in order. ``results``, ``interrupted`` and ``edits`` (arguments that a person changed) are keyed by
    the numbers of calls, ``turns`` by their ids. ``next_model`` is the number of the next request to the model; ``asks_model`` says whether
    the run sends one.
    """

    outcomes: tuple[Outcome, ...] = ()
    turns: Mapping[str, Turn] = {}
    results: Mapping[int, ToolResult] = {}
    interrupted: frozenset[int] = frozenset()
    next_model: int = 0
    asks_model: bool = True
    edits: Mapping[int, JsonObject] = {}


NOTHING: Final = Replay()


@reading
def read_replay(transaction: Transaction, conversation: str, run_id: str) -> Replay:
    """Read the replay of a run."""
    turns = {turn.id or "": turn for turn in turns_of_run(transaction, conversation, run_id)}
    return _replay(calls(transaction, run_id), turns)


def read_result(text: str) -> ToolResult:
    """A tool's result, from the text that the journal stores."""
    return cast("ToolResult", read_part_row("tool_result", text, None))


def _replay(journal: Sequence[RecordedCall], turns: Mapping[str, Turn]) -> Replay:
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
    edits = {call.number: edit for call in tools if (edit := _edit(call)) is not None}
    return Replay(tuple(outcomes), turns, results, interrupted, number, asks_model, edits)


def _answered(call: RecordedCall, turn: Turn) -> ModelAnswered:
    kept = cast("dict[str, Any]", call.result)
    usage = Usage() if kept["usage"] is None else Usage(*kept["usage"])
    return ModelAnswered(turn, kept["finish"], usage, kept["elapsed"])


def _ran(rounds: Sequence[RecordedCall]) -> ToolsRan:
    elapsed = max(cast("dict[str, Any]", call.result)["elapsed"] for call in rounds)
    return ToolsRan(tuple(map(_result, rounds)), elapsed)


def _edit(call: RecordedCall) -> JsonObject | None:
    """The arguments that a person gave the call; the journal keeps them with its result, or instead of it."""
    return as_object((as_object(call.result) or {}).get("arguments"))


def _result(call: RecordedCall) -> ToolResult:
    return read_result(cast("dict[str, Any]", call.result)["result"])
