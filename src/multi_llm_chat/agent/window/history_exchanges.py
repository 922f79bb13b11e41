"""Find the exchanges of a history: what was asked, with everything that answers it.

Rules:
1. A user's turn begins an exchange; what stands before the first one is an exchange too.
2. A call and its result are in one exchange, wherever they stand: exchanges that a pair connects
   are one. Who answers what is ``repair``'s knowledge.
3. Exchanges cover the history without gaps, in order. Time is linear.
"""

from collections.abc import Sequence

from msgspec import Struct

from multi_llm_chat.history.values import Turn
from multi_llm_chat.repair.pairing import pair
from multi_llm_chat.repair.sorting import sort_turns


class Span(Struct, frozen=True, gc=False):
    """The turns of one exchange, by position."""

    start: int
    stop: int


def exchanges(turns: Sequence[Turn]) -> list[Span]:
    """The exchanges of a history, oldest first."""
    if not turns:
        return []
    tied = _ties(turns)
    starts = [
        at
        for at, turn in enumerate(turns)
        if at == 0 or (turn.role == "user" and turn.unreadable is None and not tied[at])
    ]
    return [
        Span(start, stop) for start, stop in zip(starts, [*starts[1:], len(turns)], strict=True)
    ]


def _ties(turns: Sequence[Turn]) -> list[bool]:
    """For each turn, whether a pair reaches over its beginning."""
    steps = [0] * (len(turns) + 2)
    for passage in pair(sort_turns(turns, []), []):
        for answer in passage.answers:
            if answer is None or answer.index is None or passage.index is None:
                continue
            steps[min(passage.index, answer.index) + 1] += 1
            steps[max(passage.index, answer.index) + 1] -= 1
    tied: list[bool] = []
    open_pairs = 0
    for at in range(len(turns)):
        open_pairs += steps[at]
        tied.append(open_pairs > 0)
    return tied
