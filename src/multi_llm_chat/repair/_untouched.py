"""Recognise in one pass a history whose turns may stay as they are, as those of most histories may.

Rules:
1. What is accepted is what the steps of the repair would pass on with no change but that of the speaker's name;
   whatever is doubtful is left to them. Ids and names of calls are judged afterwards, in either case. Where the target
   takes blank texts, they stay too.
2. Results stand behind their calls, with nothing between, in the order of the calls; in any order where the target takes
   that and the ids are distinct.
3. Strings are looked at together: one look at a long text costs less than thousands at short ones.
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

    ``is_plain``: they hold texts, calls and results without attachments, nothing else. ``characters``: how many there
    are in texts and results; None where a result is not text.
    """

    placed: list[Placed]
    is_plain: bool
    characters: int | None


def find_untouched(turns: Iterable[Turn], target: Target) -> Untouched | None:
    """The turns, the model's own under the target's name; None if any may have to be changed otherwise."""
    look, speaker = _Look(target), target.speaker
    placed: list[Placed] = []
    for index, turn in enumerate(turns):
        role, parts = turn.role, turn.parts
        if len(parts) == 1 and type(parts[0]) is Text and role != "tool":
            passes = look.says(turn, parts[0])  # most turns are words
        else:
            passes = look.passes(turn)
        if not passes:
            return None
        if role != speaker and role not in RESERVED_ROLES:
            turn = Turn(speaker, turn.parts, turn.id, turn.created_at, turn.model, turn.meta)
        placed.append((index, turn))
    if not look.is_satisfied():
        return None
    return Untouched(placed, look.is_plain, look.characters)


class _Look:
    """Looks at one turn after another."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._strings: list[str] = []
        self._caller = ""
        self._waiting: list[ToolCall] = []  # for a result; the next is the last
        self.is_plain = True
        self.characters: int | None = 0

    def is_satisfied(self) -> bool:
        """Whether every call was answered and every string is clean."""
        whole = "".join(self._strings)
        if self.characters is not None:
            self.characters = len(whole)
        return not self._waiting and clean_text(whole) is whole

    def says(self, turn: Turn, part: Text) -> bool:
        """Whether a turn of words may stay, provided that they are clean."""
        text = part.content
        if self._waiting or turn.unreadable is not None or not text or text.isspace():
            return self.passes(turn)
        if part.extras is not None and not self._target.issued(part.extras.origin):
            return False
        self._strings.append(text)
        role = turn.role
        return role == "user" or role == "system" or self._target.owns(turn)

    def passes(self, turn: Turn) -> bool:
        """Whether the turn may stay, provided that its strings are clean."""
        if turn.unreadable is not None:
            return False
        return self._answers(turn) if turn.role == "tool" else self._speaks(turn)

    def _speaks(self, turn: Turn) -> bool:
        role, parts = turn.role, turn.parts
        if self._waiting or _says_nothing(parts):
            return False
        calls: list[ToolCall] = []
        for part in parts:
            if type(part) is Text:
                text = part.content
                if (not text or text.isspace()) and not self._target.blank_texts:
                    return False
                if part.extras is not None and self._would_cite(part, part.extras):
                    return False
                self._strings.append(text)
            elif type(part) is ToolCall:
                calls.append(part)
            elif not self._carries(part, role):
                return False
        if role == "user" or role == "system":
            return not calls
        return self._target.owns(turn) and (not calls or self._asks(role, calls))

    def _would_cite(self, part: Text, extras: Extras) -> bool:
        """Whether sources that another provider gave have to be written out."""
        return not self._target.issued(extras.origin) and cited_text(part) != part.content

    def _carries(self, part: Part, role: str) -> bool:
        """Whether media or thinking may stay."""
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
        self._caller, self._waiting = caller, calls[::-1]
        strings = self._strings
        for call in calls:
            if call.error is not None or type(call.arguments) is not dict:
                return False
            strings += (call.name, call.tool_call_id)
            for key, value in call.arguments.items():
                if type(key) is not str:
                    return False
                strings.append(key)
                if type(value) is str:
                    strings.append(value)
                elif clean_json(value, 1) is not value:
                    return False
        return True

    def _answers(self, turn: Turn) -> bool:
        caller, waiting = self._caller, self._waiting
        if turn.meta.get("speaker", caller) != caller or len(turn.parts) > len(waiting):
            return False
        for part in turn.parts:
            call = self._take(part) if type(part) is ToolResult else None
            if call is None or type(part) is not ToolResult:
                return False
            if part.name and part.name != call.name and call.name:
                return False
            content = part.content
            if type(content) is not str:
                self.characters = None
                if isinstance(content, list | tuple):
                    self.is_plain = False
                if CLEANERS[ToolResult](part, "tool", 0, []) is not part:
                    return False
            elif (not content or content.isspace()) and not self._target.blank_texts:
                return False
            else:
                self._strings.append(content)
        return bool(turn.parts)

    def _take(self, result: ToolResult) -> ToolCall | None:
        """The call that the result answers, as the next or, where the target takes that, in another place."""
        waiting, identifier = self._waiting, result.tool_call_id
        if waiting[-1].tool_call_id == identifier:
            return waiting.pop()
        found = [at for at, call in enumerate(waiting) if call.tool_call_id == identifier]
        return waiting.pop(found[0]) if self._target.any_order and len(found) == 1 else None


def _says_nothing(parts: tuple[Part, ...]) -> bool:
    return not parts or (
        type(parts[-1]) is Thinking and all(type(part) is Thinking for part in parts)
    )
