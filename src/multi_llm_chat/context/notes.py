"""What was left out of a request, as a value to show, to keep, and to undo."""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import Text, Turn

#: ``window``: it would not have fitted. ``refused``: the provider said that it did not.
Reason: TypeAlias = Literal["window", "refused"]

#: Marks the turn that stands in the place of what is not sent.
NOTE_META: Final = "compression_note"
_LONGEST_TIME: Final = 40


class Cut(Struct, frozen=True):
    """How far a history is shortened, by positions of turns; it only moves forward.

    Exchanges that end at or before ``gone`` are not sent, before ``words`` by the user's words only, before
    ``talk`` by the user's words and the final answers. ``results`` is how many characters a tool result of
    the newest exchange may have. ``summary`` tells what is gone.
    """

    talk: int = 0
    words: int = 0
    gone: int = 0
    results: int | None = None
    summary: str | None = None


#: Nothing is left out.
WHOLE: Final = Cut()


class CompressionNote(Struct, frozen=True):
    """What a request left out of its history, and why; the history itself is not changed.

    ``left_out`` are positions of turns that are not sent at all, ``shortened`` of turns that are
    sent in part, and ``turn_ids`` are the ids of both, where turns have one. The counts are of
    exchanges. ``summary`` is what is told instead, ``trouble`` why there is none although one was wanted.
    ``cut`` is where the next request goes on from; to undo the compression, forget it and ask with
    a larger window or with none.
    """

    cut: Cut
    reason: Reason
    tokens_before: int
    tokens_after: int
    budget: int
    fits: bool
    is_estimate: bool
    left_out: tuple[int, ...]
    shortened: tuple[int, ...]
    turn_ids: tuple[str, ...] = ()
    exchanges_gone: int = 0
    exchanges_as_words: int = 0
    exchanges_without_tools: int = 0
    results_cut: int = 0
    first: str = ""
    last: str = ""
    summary: str | None = None
    summary_usage: Usage | None = None
    trouble: str | None = None

    @property
    def text(self) -> str:
        """The note in one line, for people."""
        told = _told(self, "summarised" if self.summary else "not sent")
        size = f"{self.tokens_before:,} → {self.tokens_after:,} tokens of {self.budget:,}"
        ending = "" if self.fits else "; it is still too long"
        why = "to fit the window" if self.reason == "window" else "as it was refused as too long"
        trouble = f"; no summary: {self.trouble}" if self.trouble else ""
        return f"History shortened {why} ({size}{ending}): {told}{trouble}."


def note_turn(note: CompressionNote) -> Turn:
    """The turn that tells the model what it does not see.

    It is the user's and not the system's: a summary repeats what tools and others said, and
    must not gain weight by it.
    """
    told = _told(note, "summarised below" if note.summary else "not shown here")
    words = f"[Note: this conversation is longer than what fits. {told[:1].upper()}{told[1:]}.]"
    if note.summary:
        words = f"{words}\n\n[Summary of what was left out]\n{note.summary}"
    return Turn("user", (Text(words),), meta={NOTE_META: True})


def is_note(turn: Turn) -> bool:
    """Whether the turn stands in the place of others."""
    return turn.meta.get(NOTE_META) is True


def times(turns: Sequence[Turn]) -> tuple[str, str]:
    """The first and the last time that turns tell; empty where they tell none."""
    told = [_time(turn.created_at) for turn in turns if turn.created_at is not None]
    return (told[0], told[-1]) if told else ("", "")


def _time(moment: Any) -> str:
    return str(moment)[:_LONGEST_TIME]


def _told(note: CompressionNote, gone: str) -> str:
    said: list[str] = []
    if note.exchanges_gone:
        when = f" ({note.first} to {note.last})" if note.first else ""
        said.append(f"{gone}: {_counted(note.exchanges_gone, 'earlier exchange')}{when}")
    if note.exchanges_as_words:
        said.append(
            f"of {_counted(note.exchanges_as_words, 'exchange')} only the user's words remain"
        )
    if note.exchanges_without_tools:
        said.append(
            f"of {_counted(note.exchanges_without_tools, 'exchange')} "
            "the user's words and the final answers remain"
        )
    if note.results_cut:
        said.append(f"cut in the middle: {_counted(note.results_cut, 'turn')} of long tool results")
    return "; ".join(said) or "nothing could be left out"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
