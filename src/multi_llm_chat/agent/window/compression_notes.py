"""What was left out of a request, as a value to show and to store."""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from multi_llm_chat.events import CompressionNote, Cut
from multi_llm_chat.history.values import Text, Turn

#: ``window``: the request would exceed the window. ``refused``: the provider refused it as too long.
Reason: TypeAlias = Literal["window", "refused"]

#: Marks the turn that replaces the turns left out.
NOTE_META: Final = "compression_note"
_LONGEST_TIME: Final = 40


#: Nothing is left out.
WHOLE: Final = Cut()


def note_turn(note: CompressionNote) -> Turn:
    """The turn that tells the model what is left out.

    Its role is ``user`` and not ``system``: a summary repeats text of tools and other speakers, which must not get more authority.
    """
    what = note.describe("summarised below" if note.summary else "not shown here")
    words = f"[Note: this conversation is longer than what fits. {what[:1].upper()}{what[1:]}.]"
    if note.summary:
        words = f"{words}\n\n[Summary of what was left out]\n{note.summary}"
    return Turn("user", (Text(words),), meta={NOTE_META: True})


def is_note(turn: Turn) -> bool:
    """Whether the turn is such a note."""
    return turn.meta.get(NOTE_META) is True


def times(turns: Sequence[Turn]) -> tuple[str, str]:
    """The first and the last time of the turns; empty if they have none."""
    known = [_time(turn.created_at) for turn in turns if turn.created_at is not None]
    return (known[0], known[-1]) if known else ("", "")


def _time(moment: Any) -> str:
    return str(moment)[:_LONGEST_TIME]
