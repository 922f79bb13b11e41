"""The fast path of the repair: recognises in one pass a history that needs no change, as most histories do.

Rules:
1. A history is accepted only if the steps of the repair would change nothing but the speaker's name, and the tool's name in
   results that have none; any doubtful history takes the full repair. Ids and names of calls are checked afterwards in
   either case. Blank texts are accepted if the target accepts them.
2. Results follow their calls directly, in the order of the calls; in any order if the target accepts that and the ids are
   distinct.
3. All strings are joined and checked once: one check of a long text costs less than thousands of checks of short ones.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from msgspec import Struct

from multi_llm_chat.history.citations import cited_text
from multi_llm_chat.history.json_values import clean_json, clean_text, type_of
from multi_llm_chat.history.reader import ReadHistory, UsualContents
from multi_llm_chat.history.values import (
    RESERVED_ROLES,
    Extras,
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.repair.policy import Target
from multi_llm_chat.repair.sorting import CLEANERS, with_parts


class Untouched(Struct, frozen=True):
    """Turns that stay as they are.

    ``is_plain``: they contain only texts, calls and results without attachments. ``characters``: the number of characters
    in texts and results; None if a result is not text. ``calls`` are the calls of all turns; ``are_alike``: each of them
    has a result with the same id and name, which is always so on the fast path. ``texts``: the contents of the turns if it is
    known that each turn is a single text.
    """

    turns: list[Turn]
    is_plain: bool
    characters: int | None
    calls: list[ToolCall]
    are_alike: bool = True
    texts: list[str] | None = None


def find_untouched(turns: Iterable[Turn], target: Target) -> Untouched | None:
    """The turns, the model's own ones renamed to the target's speaker, and results with their calls' names.

    None if any turn may need another change.
    """
    usual = _find_usual(turns, target) if type(turns) is ReadHistory else None
    return _find(turns, target) if usual is None else usual


def _find_usual(history: ReadHistory, target: Target) -> Untouched | None:
    """Check the contents of a history of which the reader knows them; None if that is not enough to accept it."""
    contents = history.contents
    roles = [turn.role for turn in history]
    if contents is None or not (target.own_roles | RESERVED_ROLES).issuperset(roles):
        return None
    if contents.lists and not _answers_all(history, contents, target):
        return None
    whole = "".join(_usual_strings(contents, target))
    if not whole or clean_text(whole) is not whole:
        return None
    kept = _with_own_name(history, roles, target.speaker)
    named = not contents.calls or _name_results(kept, contents)
    texts = None if contents.lists else contents.texts
    return Untouched(kept, True, len(whole), contents.calls, texts=texts) if named else None


def _usual_strings(contents: UsualContents, target: Target) -> list[str]:
    """All strings that have to be clean; none if anything else would be changed."""
    calls, results = contents.calls, contents.results
    said: list[Any] = [*contents.texts, *[result.content for result in results]]
    if not {str}.issuperset(map(type_of, said)):
        return []
    if not target.blank_texts and (not all(said) or any(map(str.isspace, said))):
        return []
    if not calls:
        return said
    arguments = [call.arguments for call in calls]
    values = list(chain.from_iterable(map(dict[str, Any].values, arguments)))
    texts = [value for value in values if type(value) is str]
    if len(texts) < len(values) and any(map(_is_unclean, values)):
        return []
    names = [call.name for call in calls]
    keys = chain.from_iterable(arguments)
    return [*said, *names, *[call.tool_call_id for call in calls], *keys, *texts]


def _is_unclean(value: object) -> bool:
    """Whether a value in an object would be changed; strings are checked elsewhere."""
    kind = type(value)
    return kind is not str and kind is not int and clean_json(value, 1) is not value


def _answers_all(history: ReadHistory, contents: UsualContents, target: Target) -> bool:
    """Whether the model's own calls are answered one by one, directly behind them and in their order."""
    asking = target.own_roles - RESERVED_ROLES
    most = len(contents.calls) if target.most_calls is None else target.most_calls
    waiting = 0
    before = -1
    for at in contents.lists:
        turn = history[at]
        parts = turn.parts
        if waiting and at != before + 1:
            return False
        if turn.role == "tool":
            waiting -= len(parts)
            if waiting < 0:
                return False
        else:
            if waiting:
                return False
            for part in parts:
                if type(part) is ToolCall:
                    waiting += 1
            if waiting and (turn.role not in asking or waiting > most):
                return False
        before = at
    asked = [call.tool_call_id for call in contents.calls]
    return not waiting and asked == [result.tool_call_id for result in contents.results]


def _with_own_name(history: ReadHistory, roles: list[str], speaker: str) -> list[Turn]:
    """The turns of a usual history, the model's own ones under the speaker's name."""
    keeps_name = RESERVED_ROLES | {speaker}
    if keeps_name.issuperset(roles):
        return list(history)
    return [
        turn if role in keeps_name else Turn(speaker, turn.parts)
        for role, turn in zip(roles, history, strict=True)
    ]


def _name_results(turns: list[Turn], contents: UsualContents) -> bool:
    """Write the names of calls into results that have none; False if a result has another name than its call."""
    if [result.name for result in contents.results] == [call.name for call in contents.calls]:
        return True
    calls = iter(contents.calls)
    for at in contents.lists:
        turn = turns[at]
        if turn.role != "tool":
            continue
        named: list[Part] = []
        for part in turn.parts:
            call = next(calls)
            assert type(part) is ToolResult
            if part.name == call.name:
                named.append(part)
            elif part.name and call.name:
                return False
            else:
                named.append(_named(part, call.name))
        turns[at] = Turn("tool", tuple(named))
    return True


def _named(part: ToolResult, name: str) -> ToolResult:
    return ToolResult(
        name, part.content, part.tool_call_id, part.is_error, part.synthetic, part.extras
    )


def _find(turns: Iterable[Turn], target: Target) -> Untouched | None:
    """Check a history turn by turn."""
    look, speaker = _Look(target), target.speaker
    strings, waiting = look.strings, look.waiting
    speaks = (target.own_roles | {"user", "system"}) - {"tool"}
    keeps_name = RESERVED_ROLES | {speaker}
    kept: list[Turn] = []
    for turn in turns:
        role, parts = turn.role, turn.parts
        only = parts[0] if len(parts) == 1 else None
        # Most turns are a single non-blank text: they are checked here, without a function call.
        if (
            type(only) is Text
            and only.extras is None
            and (text := only.content)
            and not text.isspace()
            and role in speaks
            and not waiting
            and turn.unreadable is None
        ):
            strings.append(text)
        else:
            named = look.named(turn)
            if named is None:
                return None
            turn, parts = named, named.parts
        if role not in keeps_name:
            turn = Turn(speaker, parts, turn.id, turn.created_at, turn.model, turn.meta)
        kept.append(turn)
    if not look.is_satisfied():
        return None
    return Untouched(kept, look.is_plain, look.characters, look.calls)


class _Look:
    """Checks one turn after another."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._own_roles = target.own_roles
        self._caller = ""
        #: All strings that have to be clean.
        self.strings: list[str] = []
        #: The calls that have no result yet, in reverse: the last one is answered next.
        self.waiting: list[ToolCall] = []
        self.is_plain = True
        self.characters: int | None = 0
        self.calls: list[ToolCall] = []

    def is_satisfied(self) -> bool:
        """Whether every call was answered and every string is clean."""
        whole = "".join(self.strings)
        if self.characters is not None:
            self.characters = len(whole)
        return not self.waiting and clean_text(whole) is whole

    def named(self, turn: Turn) -> Turn | None:
        """The turn, its results with their calls' names; None if it may not stay even if its strings turn out clean."""
        if turn.unreadable is not None:
            return None
        if turn.role == "tool":
            return self._named_results(turn)
        return turn if self._speaks(turn) else None

    def _speaks(self, turn: Turn) -> bool:
        role, parts = turn.role, turn.parts
        if self.waiting or not parts or (type(parts[-1]) is Thinking and _only_thinks(parts)):
            return False
        strings = self.strings
        calls: list[ToolCall] = []
        for part in parts:
            if type(part) is Text:
                text = part.content
                if (not text or text.isspace()) and not self._target.blank_texts:
                    return False
                if part.extras is not None and self._would_cite(part, part.extras):
                    return False
                strings.append(text)
            elif type(part) is ToolCall:
                calls.append(part)
            elif not self._carries(part, role):
                return False
        if role == "user" or role == "system":
            return not calls
        return role in self._own_roles and (not calls or self._asks(role, calls))

    def _would_cite(self, part: Text, extras: Extras) -> bool:
        """Whether the text cites sources of another provider, which have to be written into the text."""
        return not self._target.issued(extras.origin) and cited_text(part) != part.content

    def _carries(self, part: Part, role: str) -> bool:
        """Whether a media, thinking or native part may stay."""
        self.is_plain = False
        if isinstance(part, ToolResult):
            return False
        if isinstance(part, Thinking) and not self._target.recognises(part):
            return False
        if isinstance(part, Native) and not self._target.issued(part.origin):
            return False
        if isinstance(part, Media) and not self._target.stores(part):
            return False
        return CLEANERS[type(part)](part, role, 0, []) is part

    def _asks(self, caller: str, calls: list[ToolCall]) -> bool:
        most = self._target.most_calls
        if most is not None and len(calls) > most:
            return False
        self._caller = caller
        self.calls += calls
        self.waiting += calls[::-1]
        strings = self.strings
        for call in calls:
            if call.error is not None or type(call.arguments) is not dict:
                return False
            strings.append(call.name)
            strings.append(call.tool_call_id)
            for key, value in call.arguments.items():
                if type(key) is not str:
                    return False
                strings.append(key)
                kind = type_of(value)
                if kind is str:
                    strings.append(value)
                elif kind is not int and clean_json(value, 1) is not value:
                    return False
        return True

    def _named_results(self, turn: Turn) -> Turn | None:
        parts, caller = turn.parts, self._caller
        if not 0 < len(parts) <= len(self.waiting):
            return None
        if turn.meta and turn.meta.get("speaker", caller) != caller:
            return None
        named: list[Part] | None = None
        for place, part in enumerate(parts):
            call = self._take(part) if type(part) is ToolResult and self._returns(part) else None
            if call is None or type(part) is not ToolResult:
                return None
            if part.name != call.name:
                if part.name and call.name:
                    return None
                named = list(parts) if named is None else named
                named[place] = _named(part, call.name)
        return turn if named is None else with_parts(turn, named)

    def _returns(self, part: ToolResult) -> bool:
        """Whether a result may stay, if its strings turn out clean."""
        content = part.content
        if type(content) is str:
            self.strings.append(content)
            return bool(content and not content.isspace()) or self._target.blank_texts
        self.characters = None
        if isinstance(content, list | tuple):
            self.is_plain = False
        return CLEANERS[ToolResult](part, "tool", 0, []) is part

    def _take(self, result: ToolResult) -> ToolCall | None:
        """The call that the result answers: the next one or, if the target accepts any order, the one with its id."""
        waiting, identifier = self.waiting, result.tool_call_id
        if waiting[-1].tool_call_id == identifier:
            return waiting.pop()
        found = [at for at, call in enumerate(waiting) if call.tool_call_id == identifier]
        return waiting.pop(found[0]) if self._target.any_order and len(found) == 1 else None


def _only_thinks(parts: tuple[Part, ...]) -> bool:
    return all(type(part) is Thinking for part in parts)
