"""What was left out of a request, as a value to show, to keep, and to undo."""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from multi_llm_chat.events import CompressionNote, Cut
from multi_llm_chat.history.values import Text, Turn

#: ``window``: it would not have fitted. ``refused``: the provider said that it did not.
Reason: TypeAlias = Literal["window", "refused"]

#: Marks the turn that stands in the place of what is not sent.
NOTE_META: Final = "compression_note"
_LONGEST_TIME: Final = 40


#: Nothing is left out.
WHOLE: Final = Cut()


def note_turn(note: CompressionNote) -> Turn:
    """The turn that says to the model what it does not see.

    It is the user's and not the system's: a summary repeats what tools and others said, and
    must not gain weight by it.
    """
    what = note.describe("summarised below" if note.summary else "not shown here")
    words = f"[Note: this conversation is longer than what fits. {what[:1].upper()}{what[1:]}.]"
    if note.summary:
        words = f"{words}\n\n[Summary of what was left out]\n{note.summary}"
    return Turn("user", (Text(words),), meta={NOTE_META: True})


def is_note(turn: Turn) -> bool:
    """Whether the turn stands in the place of others."""
    return turn.meta.get(NOTE_META) is True


def times(turns: Sequence[Turn]) -> tuple[str, str]:
    """The first and the last time of the turns; empty where they have none."""
    known = [_time(turn.created_at) for turn in turns if turn.created_at is not None]
    return (known[0], known[-1]) if known else ("", "")


def _time(moment: Any) -> str:
    return str(moment)[:_LONGEST_TIME]
