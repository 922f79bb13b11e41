"""Makes call ids and tool names legal for the target, and maps them back.

Rules:
1. The first call with a legal id keeps it; every other call gets an id made from its
   position among the calls: nine letters and digits, which every provider accepts.
2. A legal name is kept. In an illegal name, illegal characters are replaced; if the result is taken or
   too long, a digest of the original name is appended, so that a tool has the same name in every request.
3. Within one request, both maps are one-to-one and can be inverted.
4. Names that an earlier request of the conversation sent keep their spelling (``SentCalls``); ids that it sent are not
   used again.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from multi_llm_chat.history.values import Part, Text, ToolCall, ToolResult, Turn
from multi_llm_chat.repair.policy import Note, Target
from multi_llm_chat.repair.sorting import with_parts

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS = [one + other for one in _DIGITS for other in _DIGITS]
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME = 64
_DIGEST = 8


class SentCalls(Struct, frozen=True):
    """The calls that earlier requests of a conversation have sent.

    ``names`` maps tools to their names as sent, ``ids`` maps ids as sent to those of the history, and ``calls`` maps
    the ids of the history to the tool and the speaker.
    """

    names: Mapping[str, str] = {}
    ids: Mapping[str, str] = {}
    calls: Mapping[str, tuple[str, str]] = {}


NO_CALLS = SentCalls()


class NameMap:
    """Legal tool names for one request. ``sent(original)`` is the name to send, ``originals`` maps it back.

    ``known`` are the names that earlier requests have sent.
    """

    def __init__(
        self, names: Iterable[str], pattern: re.Pattern[str], known: Mapping[str, str] = {}
    ) -> None:
        distinct = dict.fromkeys(names)
        self._sent = dict(known)
        taken = set(known.values())
        for name in distinct:
            if name not in self._sent and name not in taken and pattern.fullmatch(name):
                self._sent[name] = name
        taken.update(self._sent)
        for name in distinct:
            if name not in self._sent:
                self._sent[name] = spelling = _spell(name, taken)
                taken.add(spelling)
        self.originals = {spelling: name for name, spelling in self._sent.items()}
        self.changed = {name: sent for name, sent in self._sent.items() if name != sent}

    @property
    def all_sent(self) -> dict[str, str]:
        """The map from original names to names as sent."""
        return self._sent

    def sent(self, original: str) -> str:
        """The name that is sent for the original name."""
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
    number, low = divmod(number, 36**2)
    number, middle = divmod(number, 36**2)
    return f"call{_DIGITS[number % 36]}{_PAIRS[middle]}{_PAIRS[low]}"


def rekey(
    turns: list[Turn],
    sources: Sequence[int | None],
    calls: Sequence[ToolCall],
    target: Target,
    tool_names: Iterable[str],
    notes: list[Note],
    before: SentCalls = NO_CALLS,
    *,
    are_alike: bool,
) -> tuple[NameMap, dict[str, str]]:
    """Replace illegal ids and names in place; return the names, and a map from ids as sent to the original ids.

    ``sources`` are the indexes that notes have; ``calls`` are the calls of the turns; ``are_alike``: every result already has the id and name of its call.
    """
    names = NameMap(
        [*tool_names, *[call.name for call in calls]], target.name_pattern, before.names
    )
    if not calls:
        return names, {}
    originals = [call.tool_call_id for call in calls]
    sent = _legal_ids(originals, target.id_pattern, before.ids)
    if sent is not originals or names.changed or not are_alike:
        _Rewriter(sent, names, notes).rewrite(turns, sources)
    return names, dict(zip(sent, originals, strict=True))


def find_calls(turns: Iterable[Turn]) -> tuple[list[ToolCall], bool]:
    """All calls of the turns, and whether the results match them one to one, in order, by id and name."""
    parts = [part for turn in turns for part in turn.parts]
    calls = [part for part in parts if type(part) is ToolCall]
    results = [part for part in parts if type(part) is ToolResult]
    return calls, len(results) == len(calls) and all(map(_is_alike, calls, results))


def _is_alike(call: ToolCall, result: ToolResult) -> bool:
    return call.tool_call_id == result.tool_call_id and call.name == result.name


def _legal_ids(originals: list[str], pattern: re.Pattern[str], taken: Collection[str]) -> list[str]:
    distinct = set(originals)
    if len(distinct) == len(originals) and distinct.isdisjoint(taken):
        lines = "\n".join(originals)  # one regex match for all ids: there may be thousands
        if lines.count("\n") < len(originals) and _lines_of(pattern).fullmatch(lines):
            return originals
    legal = {identifier for identifier in distinct if pattern.fullmatch(identifier)}
    used: set[str] = set(taken)
    sent: list[str] = []
    for number, identifier in enumerate(originals, len(taken)):
        if identifier not in legal or identifier in used:
            identifier = position_id(number)
            while identifier in legal or identifier in used:
                number += len(originals) + len(taken)
                identifier = position_id(number)
        used.add(identifier)
        sent.append(identifier)
    return sent


@lru_cache(maxsize=64)  # requests use the same few patterns
def _lines_of(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """A pattern for lines of which each matches the given pattern (which must not match a line break)."""
    each = f"(?:{pattern.pattern})"
    return re.compile(rf"{each}(?:\n{each})*", pattern.flags)


class _Rewriter:
    """Rewrites the calls of each turn and the results that follow it; finds the call of a result by order, or by id and name."""

    def __init__(self, sent: list[str], names: NameMap, notes: list[Note]) -> None:
        self._sent = iter(sent)
        self._spellings = names.all_sent
        self._notes = notes
        # Each call of the last turn: the original and as sent.
        self._waiting: list[tuple[ToolCall, ToolCall]] = []

    def rewrite(self, turns: list[Turn], sources: Iterable[int | None]) -> None:
        for place, (source, turn) in enumerate(zip(sources, turns, strict=True)):
            role, parts = turn.role, turn.parts
            if role == "user" or role == "system" or (len(parts) == 1 and type(parts[0]) is Text):
                continue  # nothing to rewrite, as in most turns
            changed = self._results(turn) if role == "tool" else self._calls(source, turn)
            if changed is not None:
                turns[place] = with_parts(turn, changed)

    def _calls(self, source: int | None, turn: Turn) -> list[Part] | None:
        """The turn's parts with its calls as they are sent; None if nothing changes."""
        parts: list[Part] | None = None
        calls: list[tuple[ToolCall, ToolCall]] = []
        for place, part in enumerate(turn.parts):
            if type(part) is not ToolCall:
                continue
            made, identifier, name = part, next(self._sent), self._spellings[part.name]
            if identifier != part.tool_call_id or name != part.name:
                self._note(source, part, identifier, name)
                part = ToolCall(
                    name, part.arguments, identifier, part.raw_arguments, extras=part.extras
                )
                parts = list(turn.parts) if parts is None else parts
                parts[place] = part
            calls.append((made, part))
        self._waiting = calls
        return parts

    def _results(self, turn: Turn) -> list[Part] | None:
        parts: list[Part] = []
        same = True
        for part in turn.parts:
            assert type(part) is ToolResult
            call = self._take(part)
            if call.tool_call_id != part.tool_call_id or call.name != part.name:
                part = ToolResult(
                    call.name,
                    part.content,
                    call.tool_call_id,
                    part.is_error,
                    part.synthetic,
                    part.extras,
                )
                same = False
            parts.append(part)
        return None if same else parts

    def _take(self, result: ToolResult) -> ToolCall:
        """The call that the result answers: the next one, unless another one has the result's id and the next one has not."""
        waiting, identifier = self._waiting, result.tool_call_id
        at = 0
        if len(waiting) > 1 and waiting[0][0].tool_call_id != identifier:
            same = [
                place
                for place, (made, _) in enumerate(waiting)
                if made.tool_call_id == identifier and result.name in ("", made.name)
            ]
            at = same[0] if same else 0
        return waiting.pop(at)[1]

    def _note(self, source: int | None, call: ToolCall, identifier: str, name: str) -> None:
        if identifier != call.tool_call_id:
            self._notes.append(
                Note("ANT-05", source, f"gave a call of {call.name} the id {identifier}")
            )
        if name != call.name:
            self._notes.append(
                Note("OAI-08", source, f"spelled the tool {call.name!r} as {name!r}")
            )
