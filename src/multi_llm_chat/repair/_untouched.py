"""The fast path of the repair: recognises in one pass a history that needs no change, as most histories do.

Rules:
1. A history is accepted only if the steps of the repair would change nothing but the speaker's name; any doubtful history
   takes the full repair. Ids and names of calls are checked afterwards in either case. Blank texts are accepted if the
   target accepts them.
2. Results follow their calls directly, in the order of the calls; in any order if the target accepts that and the ids are
   distinct.
3. All strings are joined and checked once: one check of a long text costs less than thousands of checks of short ones.
"""

from collections.abc import Iterable

from msgspec import Struct

from multi_llm_chat.history.citations import cited_text
from multi_llm_chat.history.json_values import clean_json, clean_text
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
from multi_llm_chat.repair.sorting import CLEANERS, Placed


class Untouched(Struct, frozen=True):
    """Turns that stay as they are.

    ``is_plain``: they contain only texts, calls and results without attachments. ``characters``: the number of characters
    in texts and results; None if a result is not text. ``calls`` are the calls of all turns; ``are_alike``: each of them
    has a result with the same id and name.
    """

    placed: list[Placed]
    is_plain: bool
    characters: int | None
    calls: list[ToolCall]
    are_alike: bool


def find_untouched(turns: Iterable[Turn], target: Target) -> Untouched | None:
    """The turns, the model's own ones renamed to the target's speaker; None if any turn may need another change."""
    look, speaker = _Look(target), target.speaker
    strings, waiting = look.strings, look.waiting
    speaks = (target.own_roles | {"user", "system"}) - {"tool"}
    kept = RESERVED_ROLES | {speaker}
    placed: list[Placed] = []
    for index, turn in enumerate(turns):
        role, parts = turn.role, turn.parts
        if turn.unreadable is not None:
            return None
        only = parts[0] if len(parts) == 1 else None
        # Most turns are a single non-blank text: they are checked here, without a function call.
        if type(only) is Text and only.extras is None and role in speaks and not waiting:
            text = only.content
            if text and not text.isspace():
                strings.append(text)
            elif not look.speaks(turn):
                return None
        elif not (look.answers(turn) if role == "tool" else look.speaks(turn)):
            return None
        if role not in kept:
            turn = Turn(speaker, parts, turn.id, turn.created_at, turn.model, turn.meta)
        placed.append((index, turn))
    if not look.is_satisfied():
        return None
    return Untouched(placed, look.is_plain, look.characters, look.calls, look.are_alike)


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
        self.are_alike = True

    def is_satisfied(self) -> bool:
        """Whether every call was answered and every string is clean."""
        whole = "".join(self.strings)
        if self.characters is not None:
            self.characters = len(whole)
        return not self.waiting and clean_text(whole) is whole

    def speaks(self, turn: Turn) -> bool:
        """Whether a turn of any role but ``tool`` may stay, if its strings turn out clean."""
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
                if type(value) is str:
                    strings.append(value)
                elif clean_json(value, 1) is not value:
                    return False
        return True

    def answers(self, turn: Turn) -> bool:
        """Whether a ``tool`` turn may stay, if its strings turn out clean."""
        caller, waiting, strings = self._caller, self.waiting, self.strings
        if turn.meta.get("speaker", caller) != caller or len(turn.parts) > len(waiting):
            return False
        for part in turn.parts:
            call = self._take(part) if type(part) is ToolResult else None
            if call is None or type(part) is not ToolResult:
                return False
            if part.name != call.name:
                if part.name and call.name:
                    return False
                self.are_alike = False
            content = part.content
            if type(content) is str:
                if (not content or content.isspace()) and not self._target.blank_texts:
                    return False
                strings.append(content)
            elif not self._returns(part):
                return False
        return bool(turn.parts)

    def _returns(self, part: ToolResult) -> bool:
        """Whether a result that is not text may stay."""
        self.characters = None
        if isinstance(part.content, list | tuple):
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
