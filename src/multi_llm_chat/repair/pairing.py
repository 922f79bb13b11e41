"""Give every tool result back to the call it answers.

Rules:
1. A result belongs to the nearest earlier turn that has an unanswered call with its id, lacking
   an id with its name; within that turn, to the first such call. A result that says whose call
   it answers (``meta["speaker"]``) belongs to that speaker only.
2. A result with neither id nor name answers the next open call of the turn just before it.
3. A result with the id of a call that stands only later is early: it belongs to the first
   unanswered one.
4. A second result for a call replaces the first, unless it is one we made up.
5. One pass each way; every list is walked once. Results that stand directly behind their calls, one for each and
   in their order, as they nearly always do, are given back without a search.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from multi_llm_chat.history.values import Part, ToolCall, ToolResult, Turn
from multi_llm_chat.repair.policy import Note
from multi_llm_chat.repair.sorting import Placed

#: Whose call (any speaker's if empty), and its ``id`` or ``name``.
_Key: TypeAlias = tuple[str, str, str]


class Answer(Struct, frozen=True, gc=False):
    """A result and the turn it stood in."""

    result: ToolResult
    index: int | None
    turn: Turn


class Passage(Struct, gc=False):
    """A turn, the calls it makes, and what answered each; orphans are results without a call."""

    index: int | None
    turn: Turn
    calls: Sequence[ToolCall] = ()
    answers: list[Answer | None] = []
    orphans: Sequence[Answer] = ()


class _Open:
    """Calls that wait for a result, by key; the latest turn answers first, its calls in order."""

    def __init__(self, *, by_name: bool, by_speaker: bool) -> None:
        self._waiting: defaultdict[_Key, list[list[tuple[Passage, int]]]] = defaultdict(list)
        self._by_name = by_name
        self.by_speaker = by_speaker

    def add(self, passage: Passage) -> None:
        slot = len(passage.calls)
        for call in reversed(passage.calls):
            slot -= 1
            entry = (passage, slot)
            for speaker in ("", passage.turn.role) if self.by_speaker else ("",):
                self._push((speaker, "id", call.tool_call_id), entry)
                if self._by_name:
                    self._push((speaker, "name", call.name), entry)

    def _push(self, key: _Key, entry: tuple[Passage, int]) -> None:
        stack = self._waiting[key]
        if stack and stack[-1] and stack[-1][-1][0] is entry[0]:
            stack[-1].append(entry)
        else:
            stack.append([entry])

    def take(self, key: _Key) -> tuple[Passage, int] | None:
        """The call to answer; entries answered under another key are discarded on the way."""
        stack = self._waiting.get(key)
        while stack:
            group = stack[-1]
            while group:
                passage, slot = group.pop()
                if passage.answers[slot] is None:
                    return passage, slot
            stack.pop()
        return None


def pair(placed: Sequence[Placed], notes: list[Note]) -> list[Passage]:
    """Attach every result to its call; turns keep their order, result turns disappear into them."""
    answering = [turn for _, turn in placed if turn.role == "tool"]
    waiting = _Open(
        by_name=not all(map(_has_id, [part for turn in answering for part in turn.parts])),
        by_speaker=any("speaker" in turn.meta for turn in answering),
    )
    pairing = _Pairing(waiting, notes)
    for index, turn in placed:
        if turn.role == "tool":
            pairing.results(index, turn)
        else:
            pairing.turn(index, turn)
    pairing.early_results()
    return pairing.passages


def _has_id(part: Part) -> bool:
    return type(part) is ToolResult and part.tool_call_id != ""


class _Pairing:
    def __init__(self, waiting: _Open, notes: list[Note]) -> None:
        self.passages: list[Passage] = []
        self._notes = notes
        self._open = waiting
        self._answered: dict[tuple[str, str], tuple[Passage, int]] = {}
        self._newly_answered: list[tuple[Passage, int]] = []
        self._just_before: Passage | None = None
        self._to_open: Passage | None = None
        self._orphans: dict[str, list[tuple[Passage, Answer]]] = {}

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
        """Make the calls of the last turn findable for their answers."""
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
                if answer.result.tool_call_id:
                    waiting = self._orphans.setdefault(answer.result.tool_call_id, [])
                    waiting.append((passage, answer))

    def _in_order(self, index: int | None, turn: Turn) -> bool:
        """Answer all calls of the turn just before at once, if that is what the results do."""
        passage = self._to_open
        if passage is None or len(passage.calls) != len(turn.parts):
            return False
        owner = passage.turn.role
        if turn.meta.get("speaker", owner) != owner:
            return False
        answers: list[Answer | None] = []
        for call, part in zip(passage.calls, turn.parts, strict=True):
            assert type(part) is ToolResult
            if part.tool_call_id != call.tool_call_id:
                return False
            answers.append(Answer(part, index, turn))
        passage.answers = answers
        self._newly_answered.extend([(passage, slot) for slot in range(len(answers))])
        self._to_open = None
        return True

    def _attach(self, answer: Answer, speaker: str) -> bool:
        result = answer.result
        if result.tool_call_id:
            found = self._open.take((speaker, "id", result.tool_call_id))
        elif result.name:
            found = self._open.take((speaker, "name", result.name))
        else:
            found = self._next_open()
        if found is None:
            return self._replace(answer, speaker)
        passage, slot = found
        passage.answers[slot] = answer
        self._newly_answered.append(found)
        return True

    def _next_open(self) -> tuple[Passage, int] | None:
        passage = self._just_before
        if passage is None:
            return None
        return next(
            ((passage, slot) for slot, answer in enumerate(passage.answers) if answer is None), None
        )

    def _replace(self, answer: Answer, speaker: str) -> bool:
        """A further result for an answered call: the last real one wins."""
        self._index_answered()
        found = self._answered.get((speaker, answer.result.tool_call_id))
        if found is None or not answer.result.tool_call_id:
            return False
        passage, slot = found
        present = passage.answers[slot]
        if present is None or present.result.synthetic or not answer.result.synthetic:
            passage.answers[slot] = answer
        self._notes.append(
            Note("ANT-04", answer.index, "kept one of several results for the same call")
        )
        return True

    def _index_answered(self) -> None:
        """Index answered calls by id; needed only where results are doubled or have no call."""
        for passage, slot in self._newly_answered:
            identifier = passage.calls[slot].tool_call_id
            self._answered["", identifier] = passage, slot
            if self._open.by_speaker:
                self._answered[passage.turn.role, identifier] = passage, slot
        self._newly_answered.clear()

    def early_results(self) -> None:
        """Give orphans that stand before their call to it."""
        if not self._orphans:
            return
        taken: set[int] = set()
        order = {id(passage): place for place, passage in enumerate(self.passages)}
        for passage in self.passages:
            for slot, call in enumerate(passage.calls):
                waiting = self._orphans.get(call.tool_call_id)
                if passage.answers[slot] is not None or not waiting:
                    continue
                holder, answer = waiting[-1]
                if order[id(holder)] > order[id(passage)]:
                    # Orphans behind the call had their chance: they name another speaker.
                    continue
                waiting.pop()
                passage.answers[slot] = answer
                taken.add(id(answer))
        if taken:
            for passage in self.passages:
                if passage.orphans:
                    passage.orphans = [one for one in passage.orphans if id(one) not in taken]
