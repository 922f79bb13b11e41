"""Repair a history: any history becomes one that the target accepts, and no content that can be sent is lost.

The order of the steps matters. Parts are cleaned first; then results are paired with calls over the whole history,
whichever model made the calls. Only then are other speakers' passages written as text, unanswered calls and orphan
results handled, and ids and names made legal. No step changes what is already legal, so a legal history is returned
as it is, and repairing a repaired history changes nothing. That is also why a history that passes the fast check
(``repair._untouched``) may skip the steps.

If the first part of a conversation was already sent, only the rest is repaired (``SentCalls``). A result in the rest whose
call was already sent is late: the sent part does not change, and the result becomes user text that names its call.

Rules for other speakers:
1. Their text becomes user text under the speaker's name, followed by their media.
2. Their tool call becomes one line of text: who called which tool with which arguments, and the result.
3. Their thinking is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.citations import cited_text
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.native_text import native_text
from multi_llm_chat.history.reader import read_history, split_result
from multi_llm_chat.history.values import (
    RESERVED_ROLES,
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.repair._untouched import Untouched, find_untouched
from multi_llm_chat.repair.identifiers import NO_CALLS, NameMap, SentCalls, find_calls, rekey
from multi_llm_chat.repair.pairing import Answer, Passage, pair
from multi_llm_chat.repair.policy import Note, RepairPolicy, Target
from multi_llm_chat.repair.sorting import RAW_ARGUMENTS, Placed, sort_turns, with_parts

NO_RESULT = "[no result: the call was interrupted]"
NOT_RUN = "[not run: the arguments were not a JSON object]"

#: The most characters of a call's id in a note.
_ID_SHOWN = 64


class Repaired(Struct, frozen=True):
    """Legal turns, notes on what was changed, and the maps from the names and ids sent to the original ones.

    ``sources`` has for each turn the index of the history's turn from which it came, None if it was added.
    ``is_plain``, ``characters`` and ``texts`` are as in ``Untouched``.
    """

    turns: tuple[Turn, ...]
    sources: Sequence[int | None]
    notes: tuple[Note, ...]
    names: NameMap
    ids: dict[str, str]
    is_plain: bool = False
    characters: int | None = None
    texts: Sequence[str] | None = None

    @property
    def placed(self) -> tuple[Placed, ...]:
        """The turns with their sources."""
        return tuple(zip(self.sources, self.turns, strict=True))


def repair(
    turns: Sequence[Turn],
    target: Target,
    policy: RepairPolicy | None = None,
    tool_names: Iterable[str] = (),
    before: SentCalls = NO_CALLS,
) -> Repaired:
    """Make the history legal for the target; ``tool_names`` are the tools on offer, whose names are spelled like those of calls.

    ``before`` are the calls of earlier turns of the conversation that were already sent.
    """
    notes: list[Note] = []
    if policy is not None and policy.steps:
        turns = apply_steps(turns, policy, notes)
    found = find_untouched(turns, target)
    sources: Sequence[int | None] = range(len(turns))
    if found is None:
        placed = rebuild(turns, target, policy or RepairPolicy(), notes, before)
        sources, legal = [source for source, _ in placed], [turn for _, turn in placed]
        found = Untouched(legal, *_contents(legal), *find_calls(legal))
    names, ids = rekey(
        found.turns, sources, found.calls, target, tool_names, notes, before, are_alike=found.are_alike
    )  # fmt: skip
    return Repaired(
        tuple(found.turns), sources, tuple(notes), names, ids, found.is_plain, found.characters, found.texts
    )  # fmt: skip


def _contents(turns: Iterable[Turn]) -> tuple[bool, int | None]:
    """``is_plain`` and ``characters`` of the turns, see ``Untouched``."""
    characters = 0
    for turn in turns:
        for part in turn.parts:
            if type(part) is Text or (type(part) is ToolResult and type(part.content) is str):
                characters += len(part.content)
            elif type(part) is not ToolCall:
                return False, None
    return True, characters


def apply_steps(turns: Sequence[Turn], policy: RepairPolicy, notes: list[Note]) -> Sequence[Turn]:
    """Run the caller's own repair steps (``RepairPolicy.steps``) on the turns."""
    for step in policy.steps:
        name = getattr(step, "__name__", type(step).__name__)
        try:
            changed = read_history(list(step(turns)))
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(
                f"The repair step {name} failed: {type(error).__name__}: {error}"
            ) from error
        if changed != tuple(turns):
            notes.append(Note("", None, f"changed the history by the caller's own step {name}"))
        turns = changed
    return turns


def rebuild(
    turns: Sequence[Turn],
    target: Target,
    policy: RepairPolicy,
    notes: list[Note],
    before: SentCalls = NO_CALLS,
) -> list[Placed]:
    """The full repair: write again a history in which anything may be wrong."""
    described = [_describe_natives(index, turn, target, notes) for index, turn in enumerate(turns)]
    sorted_turns = sort_turns(described, notes, keeps_blanks=target.keeps_blanks)
    passages = pair(_join_steps(sorted_turns), notes, before.calls)
    placed = _Rebuild(target, policy, notes, before).turns(passages)
    _note_moves(placed, notes)
    return placed


def _join_steps(placed: Sequence[Placed]) -> list[Placed]:
    """Join neighbouring turns of one speaker if one tool turn answers the calls of both (GEM-20).

    A result under an id that both turns use belongs to the later one (rule 1 of ``repair.pairing``): such turns are not joined.
    """
    joined: list[Placed] = []
    for position, (index, turn) in enumerate(placed):
        if joined and joined[-1][1].role == turn.role != "tool":
            before, last = joined[-1]
            calls = {part.tool_call_id for part in last.parts if type(part) is ToolCall}
            if calls and calls <= _also_answered_next(placed, position, turn):
                joined[-1] = (before, replace(last, parts=(*last.parts, *turn.parts)))
                continue
        joined.append((index, turn))
    return joined


def _also_answered_next(placed: Sequence[Placed], position: int, turn: Turn) -> set[str]:
    """The ids of other turns' calls that the next turn answers; empty if the next turn does not answer all calls of this turn."""
    following = placed[position + 1][1].parts if position + 1 < len(placed) else ()
    answered = {part.tool_call_id for part in following if type(part) is ToolResult}
    calls = {part.tool_call_id for part in turn.parts if type(part) is ToolCall}
    return answered - calls if calls and calls <= answered else set()


def _describe_natives(index: int, turn: Turn, target: Target, notes: list[Note]) -> Turn:
    """Replace native items and citations of other providers by text, and remove file ids of other providers."""
    if not any(map(_may_be_foreign, turn.parts)):
        return turn
    parts = [_described(part, index, target, notes) for part in turn.parts]
    if all(new is old for new, old in zip(parts, turn.parts, strict=True)):
        return turn
    return replace(turn, parts=tuple(parts))


def _may_be_foreign(part: Part) -> bool:
    if type(part) is Text:
        return part.extras is not None
    return type(part) is Native or type(part) is Media


def _described(part: Part, index: int, target: Target, notes: list[Note]) -> Part:
    if isinstance(part, Native) and not target.issued(part.origin):
        message = f"wrote an item of another provider as text: {part.kind}"
        notes.append(Note("OAI-11", index, message))
        return Text(native_text(part))
    if isinstance(part, Text) and part.extras is not None and not target.issued(part.extras.origin):
        words = cited_text(part)  # the extras are not sent, so the sources go into the text
        return part if words == part.content else Text(words)
    if isinstance(part, Media) and not target.stores(part):
        return replace(part, file_id=None)  # the encoder describes it, and notes that
    return part


def _note_moves(placed: Iterable[Placed], notes: list[Note]) -> None:
    latest = -1
    for index, turn in placed:
        if index is None:
            continue
        if index < latest:
            moved = "a tool result up to" if turn.role == "tool" else "a turn behind the results of"
            notes.append(Note("OAI-03", index, f"moved {moved} an earlier call"))
        latest = max(latest, index)


def _is_thinking(part: Part) -> bool:
    return type(part) is Thinking


class _Rebuild:
    """Writes the turns of the paired passages, one passage after the other."""

    def __init__(
        self, target: Target, policy: RepairPolicy, notes: list[Note], before: SentCalls
    ) -> None:
        self._target = target
        self._policy = policy
        self._notes = notes
        self._before = before
        self._placed: list[Placed] = []

    def turns(self, passages: Iterable[Passage]) -> list[Placed]:
        for passage in passages:
            role = passage.turn.role
            if passage.orphans or role == "tool":
                self._orphans(passage)
            elif role in RESERVED_ROLES:
                self._placed.append((passage.index, passage.turn))
            elif self._target.owns(passage.turn):
                self._own(passage)
            else:
                self._foreign(passage)
        return self._placed

    def _note(self, rule: str, index: int | None, message: str) -> None:
        self._notes.append(Note(rule, index, message))

    def _orphans(self, passage: Passage) -> None:
        calls = self._before.calls
        late = [answer for answer in passage.orphans if answer.result.tool_call_id in calls]
        orphans = [answer for answer in passage.orphans if answer.result.tool_call_id not in calls]
        if late:
            self._late(passage, late)
        if not orphans:
            return
        if self._policy.orphans == "drop":
            self._note(
                "OAI-01", passage.index, "left out a result whose call is not in the history"
            )
            return
        self._note(
            "OAI-01", passage.index, "wrote a result whose call is not in the history as text"
        )
        parts = [part for answer in orphans for part in orphan_as_text(answer.result)]
        self._placed.append((passage.index, with_parts(passage.turn, parts, "user")))

    def _late(self, passage: Passage, late: Iterable[Answer]) -> None:
        """Write results of calls that were already sent (with another result or none) as text where they arrive."""
        parts: list[Part] = []
        for answer in late:
            name, speaker = self._before.calls[answer.result.tool_call_id]
            is_own = self._target.owns(Turn(speaker))
            if not is_own and self._policy.foreign == "drop":
                self._note("OAI-18", passage.index, f"left out a late result for {speaker}")
                continue
            self._note("OAI-03", passage.index, f"wrote a late result of {name} as text")
            parts += late_as_text(answer.result, name, "" if is_own else speaker)
        if parts:
            self._placed.append((passage.index, with_parts(passage.turn, parts, "user")))

    def _foreign(self, passage: Passage) -> None:
        speaker = passage.turn.role
        if self._policy.foreign == "adopt":
            self._note("OAI-18", passage.index, f"took a turn of {speaker} as the model's own")
            self._own(passage)
        elif self._policy.foreign == "drop":
            self._note("OAI-18", passage.index, f"left out a turn of {speaker}")
        else:
            self._note("OAI-18", passage.index, f"wrote a turn of {speaker} as the user's text")
            written = as_user_turn(passage)
            if written is not None:
                self._placed.append((passage.index, written))

    def _own(self, passage: Passage) -> None:
        parts = passage.turn.parts
        if len(parts) == 1 and type(parts[0]) is Text and passage.turn.role == self._target.speaker:
            self._placed.append((passage.index, passage.turn))
            return
        if passage.calls and self._policy.unanswered == "answer":
            self._answer(passage)
        turn = self._own_turn(passage)
        if turn is None:
            return
        most = self._target.most_calls
        if most is not None and sum(type(part) is ToolCall for part in turn.parts) > most:
            self._in_portions(passage, turn, most)
            return
        self._placed.append((passage.index, turn))
        self._results(passage.answers)

    def _answer(self, passage: Passage) -> None:
        for slot, call in enumerate(passage.calls):
            if passage.answers[slot] is None:
                self._note("OAI-02", passage.index, f"answered an unanswered call of {call.name}")
                content = NOT_RUN if RAW_ARGUMENTS in call.arguments else NO_RESULT
                result = ToolResult(call.name, content, call.tool_call_id, True, True)
                passage.answers[slot] = Answer(result, None, Turn("tool", (result,)))

    def _own_turn(self, passage: Passage) -> Turn | None:
        """The turn with the parts that can be sent, under the target's own name."""
        turn = passage.turn
        if all(passage.answers) and turn.role == self._target.speaker:
            kinds = set(map(type, turn.parts))
            if Thinking not in kinds:  # nothing to leave out
                return turn
        answers = iter(passage.answers)
        parts: list[Part] = []
        for part in turn.parts:
            if type(part) is ToolCall and next(answers) is None:
                self._note(
                    "OAI-02",
                    passage.index,
                    f"left out an unanswered call of {part.name} ({part.tool_call_id[:_ID_SHOWN]!r})",
                )
            elif type(part) is Thinking and not self._target.recognises(part):
                self._note("ANT-11", passage.index, "left out thinking of another model or place")
            else:
                parts.append(part)
        if all(map(_is_thinking, parts)):
            self._note("ANT-07", passage.index, "left out a turn in which nothing was said")
            return None
        if len(parts) == len(turn.parts) and turn.role == self._target.speaker:
            return turn
        return with_parts(turn, parts, self._target.speaker)

    def _results(self, answers: Iterable[Answer | None]) -> None:
        """Write the results in the order of their calls; neighbours that were in one turn stay in one turn."""
        group: list[Answer] = []
        for answer in answers:
            if answer is None:
                continue
            if group and answer.turn is not group[-1].turn:
                self._result_turn(group)
                group = []
            group.append(answer)
        if group:
            self._result_turn(group)

    def _result_turn(self, group: list[Answer]) -> None:
        source, place = group[0].turn, group[0].index
        parts = tuple([answer.result for answer in group])
        if parts != source.parts:
            self._note("GEM-03", place, "put tool results in the order of their calls")
            source = with_parts(source, parts, "tool")
        self._placed.append((place, source))

    def _in_portions(self, passage: Passage, turn: Turn, most: int) -> None:
        """Split parallel calls into several turns, each followed by its results."""
        rule = "VLL-06" if most == 1 else "OAI-13"
        self._note(rule, passage.index, f"put parallel calls in turns of {most} at most")
        answers = iter([answer for answer in passage.answers if answer is not None])
        pending: list[Part] = []
        calls = 0
        for part in turn.parts:
            if calls == most and type(part) is ToolCall:
                self._placed.append((passage.index, with_parts(turn, pending)))
                self._results(list(islice(answers, calls)))
                pending, calls = [], 0
            calls += type(part) is ToolCall
            pending.append(part)
        self._placed.append((passage.index, with_parts(turn, pending)))
        self._results(answers)


# Passages of other models, as user text.


def as_user_turn(passage: Passage) -> Turn | None:
    """The passage as a user turn; None if nothing of it can be sent."""
    parts = list(_as_text(passage))
    return with_parts(passage.turn, parts, "user") if parts else None


def _as_text(passage: Passage) -> Iterator[Part]:
    speaker = passage.turn.role
    answers = iter(passage.answers)
    for part in passage.turn.parts:
        match part:
            case Text():
                yield Text(f"[{speaker}] {cited_text(part)}")
            case Media():
                yield part
            case Native():
                yield Text(f"[{speaker}] {native_text(part)}")
            case ToolCall():
                yield from _call_as_text(speaker, part, next(answers))
            case _:
                pass


def _call_as_text(speaker: str, call: ToolCall, answer: Answer | None) -> Iterator[Part]:
    asked = f"[{speaker} used {call.name or 'a tool'} {compact_json(call.arguments)}"
    if answer is None:
        yield Text(f"{asked}: no result]")
        return
    text, media = split_result(answer.result.content)
    failed = " (failed)" if answer.result.is_error else ""
    yield Text(f"{asked}{failed}: {text}]")
    yield from media


def orphan_as_text(result: ToolResult) -> tuple[Part, ...]:
    """A result whose call is not in the history, as user text."""
    text, media = split_result(result.content)
    return (Text(f"[result of {result.name or 'a tool'}, called earlier: {text}]"), *media)


def late_as_text(result: ToolResult, name: str, speaker: str) -> tuple[Part, ...]:
    """A result that arrived after its call was already sent, as user text; ``speaker`` is set if another model made the call."""
    text, media = split_result(result.content)
    asked = f"{speaker}'s call" if speaker else "call"
    failed = " (failed)" if result.is_error else ""
    head = (
        f"[late result of {result.name or name or 'a tool'}, {asked} {result.tool_call_id}{failed}"
    )
    return (Text(f"{head}: {text}]"), *media)
