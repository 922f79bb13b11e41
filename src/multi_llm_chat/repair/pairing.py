"""Pair every tool result with the call it answers.

Rules:
1. A result belongs to the nearest earlier turn that has an unanswered call with its id and name; within that turn, to
   the first such call. A result that names its caller (``meta["speaker"]``) belongs to that speaker only.
2. Real ids are ambiguous: some servers count from ``call_0`` in each turn, and Gemini's results have the tool's name
   as id. If exactly one call has the id, the id alone decides, whatever the result's name; if several calls have it,
   id and name decide together.
3. A result without an id is paired by its name; without a name, by order: the next open call of the turn just before.
   Calls whose id another result has are skipped. A result with an id that no call has is paired the same way, but only
   with calls that came without an id (the reader made one from their position); its id may be the tool's name. If both
   sides have an id of their own and the ids differ, they do not belong together.
4. A result that precedes every call with its id and name is early: it belongs to the first unanswered one.
5. A second result for a call replaces the first, unless the second is synthetic or has another name.
6. One pass forwards for all results, one over the passages for early ones. Results that directly follow their calls, one
   for each in the same order, as nearly all do, are attached without a search.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from typing import TypeAlias

from msgspec import Struct

from multi_llm_chat.history.values import ToolCall, ToolResult, Turn
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.repair.sorting import Placed

#: The key of an open call: its speaker, the kind of key, its id and its name. An empty string matches any.
_Key: TypeAlias = tuple[str, str, str, str]


#: The form of the ids that the reader makes for calls without one.
_MADE = re.compile(r"call_\d+_\d+_*")


class Answer(Struct, frozen=True, gc=False):
    """A result and the turn it was in."""

    result: ToolResult
    index: int | None
    turn: Turn


class Passage(Struct, gc=False):
    """A turn, its calls, and the result of each call; ``orphans`` are results without a call."""

    index: int | None
    turn: Turn
    calls: Sequence[ToolCall] = ()
    answers: list[Answer | None] = []
    orphans: Sequence[Answer] = ()


class _Open:
    """Calls that wait for a result, by key; calls of the latest turn are taken first, in their order.

    ``counts`` maps an id to the number of calls that have it; ``claimed`` are the ids of the results.
    """

    def __init__(self, counts: Mapping[str, int], claimed: Set[str], *, by_speaker: bool) -> None:
        self._waiting: defaultdict[_Key, list[list[tuple[Passage, int]]]] = defaultdict(list)
        self.counts = counts
        self.claimed = claimed
        self._by_name = any(not each or each not in counts for each in claimed)
        self.by_speaker = by_speaker

    def add(self, passage: Passage) -> None:
        slot = len(passage.calls)
        for call in reversed(passage.calls):
            slot -= 1
            entry = (passage, slot)
            identifier, name = call.tool_call_id, call.name
            for speaker in ("", passage.turn.role) if self.by_speaker else ("",):
                self._push((speaker, "id", identifier, ""), entry)
                if self.counts[identifier] > 1:
                    self._push((speaker, "id", identifier, name), entry)
                if self._by_name:
                    self._push((speaker, "name", "", name), entry)
                    if identifier not in self.claimed:
                        self._push((speaker, "free", "", name), entry)
                        if _MADE.fullmatch(identifier):
                            self._push((speaker, "made", "", name), entry)

    def _push(self, key: _Key, entry: tuple[Passage, int]) -> None:
        stack = self._waiting[key]
        if stack and stack[-1] and stack[-1][-1][0] is entry[0]:
            stack[-1].append(entry)
        else:
            stack.append([entry])

    def take(self, key: _Key) -> tuple[Passage, int] | None:
        """Take the next open call under the key; entries that were answered under another key are discarded on the way."""
        stack = self._waiting.get(key)
        while stack:
            group = stack[-1]
            while group:
                passage, slot = group.pop()
                if passage.answers[slot] is None:
                    return passage, slot
            stack.pop()
        return None


def pair(
    placed: Sequence[Placed], notes: list[Note], before: Collection[str] = ()
) -> list[Passage]:
    """Attach every result to its call; turns keep their order, and tool turns become answers of the passages.

    ``before`` are the ids of calls in earlier turns that were already sent: their results are orphans here.
    """
    answering = [turn for _, turn in placed if turn.role == "tool"]
    counts = Counter(
        part.tool_call_id for _, turn in placed for part in turn.parts if type(part) is ToolCall
    )
    claimed = {
        part.tool_call_id for turn in answering for part in turn.parts if type(part) is ToolResult
    }
    by_speaker = any("speaker" in turn.meta for turn in answering)
    waiting = _Open(counts, claimed, by_speaker=by_speaker)
    pairing = _Pairing(waiting, notes, before)
    for index, turn in placed:
        if turn.role == "tool":
            pairing.results(index, turn)
        else:
            pairing.turn(index, turn)
    pairing.early_results()
    return pairing.passages


def _fits(result: ToolResult, call: ToolCall) -> bool:
    """Whether the names match, or one of them is empty."""
    return not result.name or not call.name or result.name == call.name


class _Pairing:
    def __init__(self, waiting: _Open, notes: list[Note], before: Collection[str]) -> None:
        self.passages: list[Passage] = []
        self._notes = notes
        self._before = before
        self._open = waiting
        self._answered: dict[tuple[str, str, str], tuple[Passage, int]] = {}
        self._newly_answered: list[tuple[Passage, int]] = []
        self._just_before: Passage | None = None
        self._to_open: Passage | None = None
        self._orphans: dict[tuple[str, str], list[tuple[Passage, Answer]]] = {}

    def turn(self, index: int | None, turn: Turn) -> None:
        self._open_calls()
        calls = [part for part in turn.parts if type(part) is ToolCall]
        if not calls:
            self.passages.append(Passage(index, turn))
            self._just_before = None
            return
        passage = Passage(index, turn, calls, [None] * len(calls))
        self.passages.append(passage)
        self._just_before = self._to_open = passage

    def _open_calls(self) -> None:
        """Add the calls of the last turn to the index of open calls."""
        if self._to_open is not None:
            self._open.add(self._to_open)
            self._to_open = None

    def results(self, index: int | None, turn: Turn) -> None:
        if self._in_order(index, turn):
            return
        self._open_calls()
        speaker = turn.meta.get("speaker", "")
        orphans: list[Answer] = []
        for part in turn.parts:
            assert isinstance(part, ToolResult)
            answer = Answer(part, index, turn)
            if not self._attach(answer, speaker if isinstance(speaker, str) else ""):
                orphans.append(answer)
        if orphans:
            passage = Passage(index, turn, orphans=orphans)
            self.passages.append(passage)
            for answer in orphans:
                result = answer.result
                if result.tool_call_id:
                    waiting = self._orphans.setdefault((result.tool_call_id, result.name), [])
                    waiting.append((passage, answer))

    def _in_order(self, index: int | None, turn: Turn) -> bool:
        """The fast path: attach the results to the calls of the turn just before, if they match one to one and in order."""
        passage = self._to_open
        if passage is None or len(passage.calls) != len(turn.parts):
            return False
        owner = passage.turn.role
        if turn.meta.get("speaker", owner) != owner:
            return False
        answers: list[Answer | None] = []
        for call, part in zip(passage.calls, turn.parts, strict=True):
            assert type(part) is ToolResult
            if part.tool_call_id != call.tool_call_id or not _fits(part, call):
                return False
            answers.append(Answer(part, index, turn))
        passage.answers = answers
        self._newly_answered.extend([(passage, slot) for slot in range(len(answers))])
        self._to_open = None
        return True

    def _attach(self, answer: Answer, speaker: str) -> bool:
        found = self._find(answer.result, speaker)
        if found is None:
            return self._replace(answer, speaker)
        passage, slot = found
        passage.answers[slot] = answer
        self._newly_answered.append(found)
        return True

    def _find(self, result: ToolResult, speaker: str) -> tuple[Passage, int] | None:
        """The call that a result answers."""
        identifier, name, take = result.tool_call_id, result.name, self._open.take
        count = self._open.counts.get(identifier, 0) if identifier else 0
        if count > 1 and name:
            return take((speaker, "id", identifier, name))
        if count:
            return take((speaker, "id", identifier, ""))
        if identifier in self._before:
            return None
        if identifier:
            made = take((speaker, "made", "", name or identifier))
            return made if made is not None or name else self._next_open(made=True)
        if not name:
            return self._next_open()
        free = take((speaker, "free", "", name))
        return free if free is not None else take((speaker, "name", "", name))

    def _next_open(self, *, made: bool = False) -> tuple[Passage, int] | None:
        """The first open call of the turn just before; with ``made`` only one that came without an id."""
        passage = self._just_before
        if passage is None:
            return None
        slots = [slot for slot, answer in enumerate(passage.answers) if answer is None]
        if made:
            slots = [slot for slot in slots if self._is_made(passage.calls[slot].tool_call_id)]
        slot = next(iter(slots), None)
        return None if slot is None else (passage, slot)

    def _is_made(self, identifier: str) -> bool:
        """Whether the call came without an id, and no result has the id that the reader made for it."""
        return bool(_MADE.fullmatch(identifier)) and identifier not in self._open.claimed

    def _replace(self, answer: Answer, speaker: str) -> bool:
        """Attach a further result to an answered call; the last result that is not synthetic wins."""
        result = answer.result
        self._index_answered()
        found = self._answered.get((speaker, result.tool_call_id, result.name))
        if found is None or not result.tool_call_id:
            return False
        passage, slot = found
        present = passage.answers[slot]
        if present is None or present.result.synthetic or not result.synthetic:
            passage.answers[slot] = answer
        self._notes.append(
            Note("ANT-04", answer.index, "kept one of several results for the same call")
        )
        return True

    def _index_answered(self) -> None:
        """Index answered calls by id and name; needed only for duplicate results and results without a call."""
        for passage, slot in self._newly_answered:
            call = passage.calls[slot]
            answer = passage.answers[slot]
            names = {"", call.name, answer.result.name if answer is not None else ""}
            for speaker in ("", passage.turn.role) if self._open.by_speaker else ("",):
                for name in names:
                    self._answered[speaker, call.tool_call_id, name] = passage, slot
        self._newly_answered.clear()

    def early_results(self) -> None:
        """Attach orphan results that precede their call."""
        if not self._orphans:
            return
        taken: set[int] = set()
        order = {id(passage): place for place, passage in enumerate(self.passages)}
        for passage in self.passages:
            for slot, call in enumerate(passage.calls):
                waiting = self._orphans.get((call.tool_call_id, call.name))
                waiting = waiting or self._orphans.get((call.tool_call_id, ""))
                if passage.answers[slot] is not None or not waiting:
                    continue
                holder, answer = waiting[-1]
                if order[id(holder)] > order[id(passage)]:
                    # The forward pass did not pair orphans after the call: they name another speaker or tool.
                    continue
                waiting.pop()
                passage.answers[slot] = answer
                taken.add(id(answer))
        if taken:
            for passage in self.passages:
                if passage.orphans:
                    passage.orphans = [one for one in passage.orphans if id(one) not in taken]
