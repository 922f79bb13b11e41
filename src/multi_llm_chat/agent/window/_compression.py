"""Shorten a history to a token budget: the oldest exchanges first, each as a whole.

Rules:
1. The history is not changed: the result is a view of it, and a note that says what is missing.
2. The stages: old exchanges lose tools and thinking, then everything except the user's text, then are left out. Each stage works from the
   oldest to the newest exchange, and starts when the previous stage is complete.
3. The newest exchange is always kept. Only if it does not fit by itself, its longest tool results are cut, with a mark. If it still does
   not fit, it is sent anyway, and the note says so.
4. A call keeps its result and a result its call; thinking is never changed; the order stays.
5. A cut removes enough to reach 70 % of the budget. So the next requests begin with the same text, and providers' caches keep working. A
   cut only moves forward.
6. The same input gives the same output; compressing a view again with the same budget changes nothing.
7. An exchange is a user's turn with everything that answers it; the turns before the first user's turn are an exchange, too. A call and its
   result are in one exchange: exchanges that such a pair connects are merged (``repair`` decides which result answers which call).
   Exchanges cover the history in order, without gaps. The algorithm takes linear time.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from multi_llm_chat.agent.window._summary import Level, cut_results, shorten
from multi_llm_chat.agent.window.compression_notes import (
    WHOLE,
    CompressionNote,
    Cut,
    Reason,
    note_turn,
    times,
)
from multi_llm_chat.history.values import Turn
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.repair.pairing import pair
from multi_llm_chat.repair.sorting import sort_turns

# The exchanges of a history.


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
    """For each turn, whether a call and its result lie on different sides of its start."""
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


# Compression.

#: The share of the budget that is used after a cut.
_TARGET: Final = 0.7
#: Tokens reserved for the turn that says what is missing.
_NOTE_ROOM: Final = 160
#: Most tokens of a summary.
_SUMMARY_ROOM: Final = 1_500
#: Limits in characters for long results of the newest exchange; the first limit that suffices is used.
_RESULT_LIMITS: Final = (65_536, 32_768, 16_384, 8_192, 4_096, 2_048, 1_024)

_STAGES: Final = (Level.TALK, Level.WORDS, Level.GONE)
_FIELDS: Final = {Level.TALK: "talk", Level.WORDS: "words", Level.GONE: "gone"}


def summary_room(budget: int) -> int:
    """How many tokens a summary may have."""
    return min(_SUMMARY_ROOM, budget // 4)


def compress(
    turns: Sequence[Turn],
    budget: int,
    counter: Counter,
    *,
    cut: Cut = WHOLE,
    summarise: bool = False,
    reason: Reason = "window",
) -> tuple[tuple[Turn, ...], CompressionNote | None]:
    """A view of the turns that has at most ``budget`` tokens, and what it leaves out.

    Args:
        turns: The history; not changed.
        budget: How many tokens the turns may have.
        counter: Counts tokens.
        cut: The cut of an earlier compression of the same history; it is never moved back.
        summarise: Leave exchanges out whole, with room for a summary of them.
        reason: Why the history is compressed, for the note.

    Returns:
        The turns to send, and the note; no note if nothing is left out and everything fits.
    """
    before = counter.turns(turns)
    if cut == WHOLE and before <= budget:
        return tuple(turns), None
    view = _View(turns, counter, cut)
    if view.tokens() > budget:
        view = _View(turns, counter, _choose(view, budget, summarise), view.spans)
    sent, tokens, note = view.sent(reason)
    if note is None and tokens <= budget:
        return sent, None
    note = note or view.note(reason)
    return sent, msgspec.structs.replace(
        note,
        tokens_before=before,
        tokens_after=tokens,
        budget=budget,
        fits=tokens <= budget,
        is_estimate=not counter.is_exact,
    )


class _SentExchange(Struct, frozen=True):
    """An exchange as it is sent: each turn at its index, None if it is left out."""

    span: Span
    level: Level
    turns: list[Turn | None]


class _View:
    """The part of a history that remains after a cut."""

    def __init__(
        self, turns: Sequence[Turn], counter: Counter, cut: Cut, spans: list[Span] | None = None
    ) -> None:
        self.turns = turns
        self.counter = counter
        self.cut = cut
        self.spans = exchanges(turns) if spans is None else spans
        self._exchanges = [self._sent_exchange(span) for span in self.spans[:-1]]
        self._newest = [self._result_limited(turn) for turn in self.newest]

    @property
    def newest(self) -> Sequence[Turn]:
        """The turns of the newest exchange."""
        return self.turns[self.spans[-1].start :] if self.spans else ()

    def level(self, span: Span) -> Level:
        """How much of an exchange remains after the cut."""
        for level in reversed(_STAGES):
            if span.stop <= getattr(self.cut, _FIELDS[level]):
                return level
        return Level.WHOLE

    def tokens(self) -> int:
        """How many tokens are sent."""
        return self.sent("window")[1]

    def sent(self, reason: Reason) -> tuple[tuple[Turn, ...], int, CompressionNote | None]:
        """The turns to send, their tokens, and the note if something is left out."""
        note = self.note(reason)
        kept = [turn for exchange in self._exchanges for turn in exchange.turns if turn is not None]
        changed = note.left_out or note.shortened
        if changed:
            # After the system turns, which providers want first.
            at = next(
                (place for place, turn in enumerate(kept) if turn.role != "system"), len(kept)
            )
            kept.insert(at, note_turn(note))
        kept.extend(self._newest)
        return tuple(kept), self.counter.turns(kept), note if changed else None

    def note(self, reason: Reason) -> CompressionNote:
        """What is left out."""
        left_out: list[int] = []
        shortened: list[int] = []
        counts = dict.fromkeys(Level, 0)
        for exchange in self._exchanges:
            changed = False
            for at, turn in enumerate(exchange.turns, exchange.span.start):
                if turn is None:
                    left_out.append(at)
                elif turn is not self.turns[at]:
                    shortened.append(at)
                else:
                    continue
                changed = True
            counts[exchange.level] += changed
        cut_at = [at for at, turn in self._newest_places() if turn is not self.turns[at]]
        missing = [self.turns[at] for at in left_out]
        first, last = times(missing)
        touched = [self.turns[at] for at in sorted([*left_out, *shortened, *cut_at])]
        return CompressionNote(
            cut=self.cut,
            reason=reason,
            tokens_before=0,
            tokens_after=0,
            budget=0,
            fits=True,
            is_estimate=True,
            left_out=tuple(left_out),
            shortened=(*shortened, *cut_at),
            turn_ids=tuple(turn.id for turn in touched if turn.id is not None),
            exchanges_gone=counts[Level.GONE],
            exchanges_as_words=counts[Level.WORDS],
            exchanges_without_tools=counts[Level.TALK],
            results_cut=len(cut_at),
            first=first,
            last=last,
            summary=self.cut.summary,
        )

    def _newest_places(self) -> list[tuple[int, Turn]]:
        return list(enumerate(self._newest, self.spans[-1].start)) if self.spans else []

    def _sent_exchange(self, span: Span) -> _SentExchange:
        level = self.level(span)
        return _SentExchange(span, level, shorten(self.turns[span.start : span.stop], level))

    def _result_limited(self, turn: Turn) -> Turn:
        limit = self.cut.results
        return turn if limit is None else cut_results(turn, limit)


def _choose(view: _View, budget: int, summarise: bool) -> Cut:
    """Move the cut until the view has at most ``budget`` tokens."""
    counter, cut, turns = view.counter, view.cut, view.turns
    target = int(budget * _TARGET)
    room = _NOTE_ROOM + (summary_room(budget) if summarise else counter.text(cut.summary or ""))
    newest = counter.turns(view.newest)
    old = view.spans[:-1]
    costs = [
        {level: _cost(turns[span.start : span.stop], level, counter) for level in Level}
        for span in old
    ]
    levels = [view.level(span) for span in old]
    total = room + newest + sum(cost[level] for cost, level in zip(costs, levels, strict=True))
    for stage in (Level.GONE,) if summarise else _STAGES:
        for at, span in enumerate(old):
            if total <= target:
                return cut
            if levels[at] < stage:
                total += costs[at][stage] - costs[at][levels[at]]
                levels[at] = stage
                cut = msgspec.structs.replace(cut, **{_FIELDS[stage]: span.stop})
    if total <= budget:
        return cut
    return _cut_newest(view, cut, budget - total + newest)


def _cost(turns: Sequence[Turn], level: Level, counter: Counter) -> int:
    return sum(counter.turn(turn) for turn in shorten(turns, level) if turn is not None)


def _cut_newest(view: _View, cut: Cut, room: int) -> Cut:
    """Limit the results of the newest exchange, so that it has at most ``room`` tokens, or as few as possible."""
    limits = [limit for limit in _RESULT_LIMITS if cut.results is None or limit < cut.results]
    for limit in limits:
        cut = msgspec.structs.replace(cut, results=limit)
        limited = [cut_results(turn, limit) for turn in view.newest]
        if view.counter.turns(limited) <= room:
            break
    return cut
