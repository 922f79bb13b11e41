"""One conversation in memory, and what of it is yet to be saved.

Rules:
1. The turns of the branch that is shown are here; turns of one answer stand together, wherever another
   speaker's turns were saved in between.
2. What is saved is saved in the order it happened. While the store refuses (a full disk, a lost server), it waits here and
   nothing is lost; the next save tries all of it again. What belongs to an answer that is no longer given here is
   not saved by us: ``RunLost`` tells whoever wanted it.
3. ``Save`` is a wish; whoever runs the conversation fulfils it, with or without ``async``.
"""

import threading
from collections.abc import Iterable

from multi_llm_chat.durable.saving import Save
from multi_llm_chat.errors import RunLost, StoreError
from multi_llm_chat.history.values import Turn
from multi_llm_chat.store import Placed, Store
from multi_llm_chat.store.occasion import Occasion


class Keeping:
    """The turns of a conversation, and the saves that wait."""

    def __init__(self) -> None:
        #: Grows with every change.
        self.version = 0
        #: How many turns the conversation has on all branches, as far as it is known here.
        self.total = 0
        self._placed: list[Placed] = []
        self._waiting: list[Save] = []
        self._lock = threading.Lock()

    @property
    def is_saved(self) -> bool:
        """Whether the store has everything."""
        return not self._waiting

    @property
    def last(self) -> str | None:
        """The id of the turn that was added last."""
        return self._placed[-1].turn.id if self._placed else None

    @property
    def placed(self) -> list[Placed]:
        """The turns with their runs, as they were added."""
        return list(self._placed)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of the branch that is shown, those of each answer together."""
        return tuple(placed.turn for placed in together(self._placed))

    def take(self, placed: Iterable[Placed], total: int) -> None:
        """Begin anew with what the store has; ``total`` counts the turns of all branches."""
        self.version += 1
        self._placed = list(placed)
        self.total = total

    def back_to(self, turn: str | None) -> None:
        """Go on from an earlier turn: what came later is on another branch."""
        self.version += 1
        kept = 0
        if turn is not None:
            kept = 1 + next(at for at, placed in enumerate(self._placed) if placed.turn.id == turn)
        self._placed = self._placed[:kept]

    def add(self, turn: Turn, run: str | None) -> None:
        """A turn was said; one that is here already is not said twice."""
        if turn.id and any(each.turn.id == turn.id for each in reversed(self._placed)):
            return
        self.version += 1
        self.total += 1
        created_ms = turn.created_at if isinstance(turn.created_at, int) else 0
        self._placed.append(Placed(turn, self.last, run, created_ms))

    def save(self, store: Store, save: Save) -> StoreError | None:
        """Save it and what waits before it; the trouble, if it has to wait."""
        with self._lock:  # answers of several threads save one after the other
            self._waiting.append(save)
            while self._waiting:
                first = self._waiting[0]
                try:
                    store.run(first.operation, *first.arguments)
                except RunLost:
                    self._drop(first, save)
                except StoreError as error:
                    return error
                else:
                    self._waiting.remove(first)
                    first.landed()
        return None

    async def asave(self, store: Store, save: Save) -> StoreError | None:
        """Like ``save``, without blocking the event loop; the caller sees to it that saves do not overlap."""
        self._waiting.append(save)
        while self._waiting:
            first = self._waiting[0]
            try:
                await store.arun(first.operation, *first.arguments)
            except RunLost:
                self._drop(first, save)
            except StoreError as error:
                return error
            else:
                self._waiting.remove(first)
                first.landed()
        return None

    def _drop(self, first: Save, save: Save) -> None:
        """Forget a save of an answer that was lost; within its own answer, raise the loss again."""
        self._waiting.remove(first)
        if first is save:
            raise


def together(placed: Iterable[Placed]) -> list[Placed]:
    """The turns of each run in one piece, where its first turn stands."""
    groups: dict[object, list[Placed]] = {}
    for at, each in enumerate(placed):
        groups.setdefault(each.run_id or at, []).append(each)
    return [each for group in groups.values() for each in group]


def new_id() -> str:
    """An id for a turn, a run or a conversation."""
    return Occasion().new_id()
