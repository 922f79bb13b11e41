"""A history as pairs of the user's and the models' texts, for ``display_history``.

Rules:
1. The pairs are always derived from the history, live as well as after a reload; they are not stored.
2. Calls are marked ``[Tool Call: name]``, results ``[Tool Result: name]`` with their text.
3. If there are several speakers, each answer begins with its speaker's name.
4. A memo has no answer: its second half is None.
"""

from collections.abc import Iterable
from typing import Any, assert_never

from multi_llm_chat.history.reader import read_history, split_result
from multi_llm_chat.history.values import (
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

#: Longer results are cut for display; the history keeps them in full.
LONGEST_RESULT = 500


def logic_history_to_display(history: Iterable[Any]) -> list[list[str | None]]:
    """The history as a list of ``[user, assistant]``."""
    turns = [turn for turn in read_history(history) if turn.unreadable is None]
    several = len({turn.role for turn in turns} - {"user", "system", "tool"}) > 1
    pairs: list[list[str | None]] = []
    speaker = ""
    for turn in turns:
        words = "\n".join(filter(None, map(_shown, turn.parts)))
        if turn.role == "system" or not words:
            continue
        if turn.role == "user":
            pairs.append([words, None])
            speaker = ""
            continue
        if not pairs:
            pairs.append([None, None])
        if several and turn.role not in ("tool", speaker):
            words = f"**{turn.role}:** {words}"
        speaker = speaker if turn.role == "tool" else turn.role
        before = pairs[-1][1]
        pairs[-1][1] = words if before is None else f"{before}\n\n{words}"
    return pairs


def display_turns(turns: Iterable[Turn], said: Iterable[tuple[str, str]]) -> list[list[str | None]]:
    """The history, with the unfinished text of each speaker in ``said``."""
    unfinished = [Turn(name, (Text(words),)) for name, words in said if words]
    return logic_history_to_display([*turns, *unfinished])


def _shown(part: Part) -> str:
    match part:
        case Text():
            return part.content
        case ToolCall():
            return f"[Tool Call: {part.name or 'unknown_tool'}]"
        case ToolResult():
            words, _ = split_result(part.content)
            words = words if len(words) <= LONGEST_RESULT else f"{words[:LONGEST_RESULT]}…"
            failed = " failed" if part.is_error else ""
            return f"[Tool Result: {part.name}{failed}] {words}".rstrip()
        case Media():
            return f"[{part.name or part.mime}]"
        case Native():
            return part.text
        case Thinking():
            return ""
        case _:
            assert_never(part)
