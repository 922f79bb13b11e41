"""Ids and names that the receiver accepts, and the way back.

Rules:
1. A legal id is kept by the first call that bears it; every other call gets an id made from its
   position among the calls, nine letters and digits, which every provider accepts.
2. A legal name is kept. An illegal one is spelled with legal characters; where that is taken or
   too long, a digest of the original follows, so that the same tool has the same name in every request.
3. Both maps are injective over one request, and lead back.
"""

import hashlib
import re
from collections.abc import Iterable

from multi_llm_chat.history.values import Part, ToolCall, ToolResult, Turn
from multi_llm_chat.repair.policy import Note, Target
from multi_llm_chat.repair.sorting import Placed, with_parts

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_DIGEST = 8


class NameMap:
    """Legal tool names for one request: ``sent(original)`` there, ``originals`` back."""

    def __init__(self, names: Iterable[str], pattern: re.Pattern[str]) -> None:
        distinct = dict.fromkeys(names)
        self._sent = {name: name for name in distinct if pattern.fullmatch(name)}
        taken = set(self._sent)
        for name in distinct:
            if name not in self._sent:
                self._sent[name] = spelling = _spell(name, taken)
                taken.add(spelling)
        self.originals = {spelling: name for name, spelling in self._sent.items()}
        self.changed = {name: sent for name, sent in self._sent.items() if name != sent}

    def sent(self, original: str) -> str:
        """The name as the receiver knows it."""
        return self._sent[original]


def _spell(name: str, taken: set[str]) -> str:
    spelling = _ILLEGAL.sub("_", name)
    if not spelling.strip("_-"):
        spelling = "tool"
    if not (spelling[0].isalpha() or spelling[0] == "_"):
        spelling = f"_{spelling}"
    if len(spelling) <= _LONGEST_NAME and spelling not in taken and spelling != "tool":
        return spelling
    salt = 0
    while True:
        text = name if not salt else f"{name}\0{salt}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        candidate = f"{spelling[: _LONGEST_NAME - _DIGEST - 1]}_{digest}"
        if candidate not in taken:
            return candidate
        salt += 1


def position_id(number: int) -> str:
    """The id of the call at this position: ``call`` and five base-36 digits."""
    digits = ""
    for _ in range(5):
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return f"call{digits}"


def rekey(
    placed: list[Placed], target: Target, names: NameMap, notes: list[Note]
) -> dict[str, str]:
    """Replace illegal ids and names in place; returns the ids sent, mapped to the original ones."""
    calls = [part for _, turn in placed for part in turn.parts if type(part) is ToolCall]
    if not calls:
        return {}
    legal = {call.tool_call_id for call in calls if target.id_pattern.fullmatch(call.tool_call_id)}
    used: set[str] = set()
    originals: dict[str, str] = {}
    sent: list[str] = []
    for number, call in enumerate(calls):
        identifier = call.tool_call_id
        if identifier not in legal or identifier in used:
            while (identifier := position_id(number)) in legal or identifier in used:
                number += len(calls)
        used.add(identifier)
        sent.append(identifier)
        originals[identifier] = call.tool_call_id
    if (
        not names.changed
        and all(
            identifier == call.tool_call_id for identifier, call in zip(sent, calls, strict=True)
        )
        and not _results_disagree(placed)
    ):
        return originals
    _Rewriter(sent, names, notes).rewrite(placed)
    return originals


def _results_disagree(placed: list[Placed]) -> bool:
    """Whether some result does not bear its call's id and name."""
    waiting: list[ToolCall] = []
    for _, turn in placed:
        if turn.role == "tool":
            for part, call in zip(turn.parts, waiting, strict=False):
                assert isinstance(part, ToolResult)
                if part.tool_call_id != call.tool_call_id or part.name != call.name:
                    return True
            waiting = waiting[len(turn.parts) :]
        else:
            waiting = [part for part in turn.parts if type(part) is ToolCall]
    return False


class _Rewriter:
    """Walks calls and, behind each turn, their results, which stand in the same order."""

    def __init__(self, sent: list[str], names: NameMap, notes: list[Note]) -> None:
        self._sent = iter(sent)
        self._names = names
        self._notes = notes
        self._waiting: list[tuple[str, str]] = []

    def rewrite(self, placed: list[Placed]) -> None:
        for place, (index, turn) in enumerate(placed):
            if turn.role != "tool":
                self._waiting = []
            if any(isinstance(part, (ToolCall, ToolResult)) for part in turn.parts):
                parts = [self._part(part, index) for part in turn.parts]
                if any(new is not old for new, old in zip(parts, turn.parts, strict=True)):
                    placed[place] = Placed(index, with_parts(turn, parts))

    def _part(self, part: Part, index: int | None) -> Part:
        if isinstance(part, ToolCall):
            identifier, name = next(self._sent), self._names.sent(part.name)
            self._waiting.append((identifier, name))
            if identifier == part.tool_call_id and name == part.name:
                return part
            self._note(index, part, identifier, name)
            return ToolCall(name, part.arguments, identifier, part.raw_arguments)
        if isinstance(part, ToolResult):
            identifier, name = self._waiting.pop(0)
            if identifier == part.tool_call_id and name == part.name:
                return part
            return ToolResult(name, part.content, identifier, part.is_error, part.synthetic)
        return part

    def _note(self, index: int | None, call: ToolCall, identifier: str, name: str) -> None:
        if identifier != call.tool_call_id:
            self._notes.append(
                Note("ANT-05", index, f"gave a call of {call.name} the id {identifier}")
            )
        if name != call.name:
            self._notes.append(Note("OAI-08", index, f"spelled the tool {call.name!r} as {name!r}"))


def tool_names_in(turns: Iterable[Turn]) -> Iterable[str]:
    """The names of all tools called in these turns."""
    return (part.name for turn in turns for part in turn.parts if type(part) is ToolCall)
