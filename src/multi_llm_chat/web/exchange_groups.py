"""The turns of a branch in groups (exchanges, and the answers in each), and the part of them that a page shows.

Rules:
1. An exchange is a message and the answers to it. Turns before the first message are an exchange of their own.
2. A page shows a window of exchanges: the last ones, those before or after one, or those around a turn. Its number of turns is about the
   same in every conversation, so that a long one opens as fast as a short one.
3. Turns before those in memory are read from the store, for each page separately: the turns around a place, and of all earlier turns those
   with artifacts, because versions are counted from the beginning of the branch.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from multi_llm_chat.chat.branch import by_run, typed
from multi_llm_chat.chat.council import readable_turn
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import Placed, turns_around, turns_with_text
from multi_llm_chat.web.artifacts import (
    LANGUAGES_SHOWN,
    Artifact,
    ArtifactIndex,
    may_have_artifacts,
)

if TYPE_CHECKING:
    from multi_llm_chat.chat.chat_service import ChatService

#: How many turns a page shows at first: nine exchanges of three speakers, several screens. A longer exchange is shown as a whole. Earlier
#: ones are loaded before the reader scrolls to them.
TURNS_PER_PAGE: Final = 36

#: Turns that are read in addition to those shown: those of the exchanges at the edges, whose runs may have further turns.
TURNS_AROUND: Final = 20


def group_exchanges(placed: Iterable[Placed]) -> list[list[Placed]]:
    """The turns of each exchange: a message, and the answers to it."""
    groups: list[list[Placed]] = []
    for each in by_run(placed):
        if each.turn.role == "user" or not groups:
            groups.append([])
        groups[-1].append(each)
    return groups


def texts_of(groups: Iterable[Sequence[Placed]]) -> list[str]:
    """The Markdown texts of these exchanges."""
    turns = [each.turn for group in groups for each in group]
    return [
        *(typed(turn) for turn in turns if turn.role == "user"),
        *(
            part.content
            for turn in turns
            if turn.role != "user"
            for part in turn.parts
            if isinstance(part, Text)
        ),
    ]


def answer_source(placed: Sequence[Placed], turn: str) -> str | None:
    """The Markdown of the answer or the message that a turn belongs to; None if the branch does not have the turn."""
    for group in group_exchanges(placed):
        if not any(each.turn.id == turn for each in group):
            continue
        if group[0].turn.id == turn and group[0].turn.role == "user":
            return typed(group[0].turn)
        for turns in turns_by_run(group).values():
            if any(each.id == turn for each in turns):
                parts = (part for each in turns for part in readable_turn(each).parts)
                texts = [part.content for part in parts if isinstance(part, Text)]
                return "\n\n".join(text.strip() for text in texts if text.strip())
    return None


def turns_by_run(placed: Iterable[Placed]) -> dict[str, list[Turn]]:
    """The turns of each answer; turns without a run belong to the speaker before them."""
    answers: dict[str, list[Turn]] = {}
    speaker, key = "", ""
    for each in placed:
        if each.run_id is not None:
            key = each.run_id
        elif each.turn.role not in ("tool", speaker) or not key:
            key = f"turn-{each.turn.id}"
        speaker = speaker if each.turn.role == "tool" else each.turn.role
        answers.setdefault(key, []).append(each.turn)
    return answers


def choose_window(
    groups: Sequence[Sequence[Placed]], before: str | None, after: str | None, around: str | None
) -> tuple[int, int]:
    """The first exchange that a page shows, and the one after the last."""
    ids = [group[0].turn.id or "" for group in groups]
    sizes = [len(group) for group in groups]
    if before is not None:
        last = ids.index(before) if before in ids else 0
        return last - _fitting(sizes[:last][::-1], TURNS_PER_PAGE), last
    if after is not None:
        first = ids.index(after) + 1 if after in ids else len(ids)
        return first, first + _fitting(sizes[first:], TURNS_PER_PAGE)
    last = len(ids)
    if around is not None:
        found = (
            at for at, group in enumerate(groups) if any(each.turn.id == around for each in group)
        )
        at = next(found, last)
        last = at + _fitting(sizes[at:], TURNS_PER_PAGE // 2)
    return last - _fitting(sizes[:last][::-1], TURNS_PER_PAGE), last


def _fitting(sizes: Sequence[int], limit: int) -> int:
    """How many of these exchanges fit, at least one."""
    fitting = sum(total <= limit for total in accumulate(sizes))
    return max(fitting, min(1, len(sizes)))


# The window of a page.


class PagePlace(Struct, frozen=True):
    """The place of a page: before or after an exchange, or around a turn; the end of the branch if none is given."""

    before: str | None = None
    after: str | None = None
    around: str | None = None

    @property
    def turn(self) -> str | None:
        """The turn that names the place."""
        return self.before or self.after or self.around

    def choose(self, groups: Sequence[Sequence[Placed]]) -> tuple[int, int]:
        """The first exchange that is shown, and the one after the last."""
        return choose_window(groups, self.before, self.after, self.around)


class PageWindow(Struct, frozen=True):
    """The exchanges that a page shows, and whether the branch has earlier or later ones; ``is_found`` if it has the turn of the place."""

    groups: Sequence[Sequence[Placed]]
    has_earlier: bool
    has_later: bool
    is_found: bool = True


class BranchReader:
    """Reads the part of the shown branch that a page shows: from the turns in memory, or from the store if it lies before them."""

    def __init__(self, service: "ChatService") -> None:
        self._service = service
        self._grouped: tuple[int, list[list[Placed]]] | None = None
        self._artifacts = ArtifactIndex()
        #: The turns with artifacts before the first turn in memory, and that turn.
        self._before: tuple[str | None, list[Turn]] = (None, [])

    async def read(self, place: PagePlace) -> list[Placed] | None:
        """The turns around a place before the turns in memory; None if those are enough, or if the branch does not have the place."""
        service = self._service
        loaded = service.placed
        groups = self._groups()
        has_turn = place.turn is None or any(each.turn.id == place.turn for each in loaded)
        if service.is_whole or not loaded or (has_turn and place.choose(groups)[0] > 0):
            return None
        turn = place.turn if place.turn is not None and not has_turn else loaded[0].turn.id
        reach, known = TURNS_PER_PAGE + TURNS_AROUND, 0
        while True:
            found = await service.store.arun(turns_around, service.conversation, turn or "", reach)
            if found is None or self._is_enough(found, place) or len(found) == known:
                return found
            reach, known = reach * 4, len(found)  # an exchange may have any number of turns

    def _is_enough(self, read: list[Placed], place: PagePlace) -> bool:
        """Whether none of the shown exchanges is at an edge of the turns that were read, where it may be incomplete."""
        groups, is_end = self._with_loaded(read)
        first, last = place.choose(groups)
        has_first = first > 0 or read[0].parent is None
        return has_first and (is_end or last < len(groups))

    def window(self, read: list[Placed] | None, place: PagePlace) -> PageWindow:
        """The window of the page; ``read`` are the turns that were read for it."""
        groups, is_end = self._with_loaded(read)
        first, last = place.choose(groups)
        begins = groups[0][0].parent is None if read else self._service.is_whole
        return PageWindow(
            groups[first:last],
            first > 0 or not begins,
            last < len(groups) or not is_end,
            place.turn is None
            or any(each.turn.id == place.turn for group in groups for each in group),
        )

    def _with_loaded(self, read: list[Placed] | None) -> tuple[list[list[Placed]], bool]:
        """The exchanges of the turns that were read, joined with those in memory if these follow directly; and whether they do."""
        if read is None:
            return self._groups(), True
        loaded = self._service.placed
        first = loaded[0].turn.id if loaded else None
        at = next((at for at, each in enumerate(read) if each.turn.id == first), None)
        return group_exchanges(read if at is None else (*read[:at], *loaded)), at is not None

    def _groups(self) -> list[list[Placed]]:
        """The exchanges in memory, grouped again only after a change."""
        if self._grouped is None or self._grouped[0] != self._service.mark:
            self._grouped = self._service.mark, group_exchanges(self._service.placed)
        return self._grouped[1]

    async def source(self, turn: str) -> str | None:
        """The Markdown of the answer or message that a turn belongs to; None if the branch does not have the turn."""
        place = PagePlace(around=turn)
        groups = self.window(await self.read(place), place).groups
        return answer_source([each for group in groups for each in group], turn)

    async def read_artifacts(self) -> None:
        """Find the artifacts before the turns in memory; turns before a turn never change."""
        service = self._service
        loaded = service.placed
        first = loaded[0].turn.id if loaded and not service.is_whole else None
        if first is None or self._before[0] == first:
            return
        turns = await service.store.arun(
            turns_with_text, service.conversation, first, LANGUAGES_SHOWN
        )
        self._before = first, turns

    def artifacts(self) -> Mapping[tuple[str, int], Artifact]:
        """The artifacts of the shown branch, by turn and number (``read_artifacts``)."""
        loaded = self._service.placed
        first = loaded[0].turn.id if loaded else None
        before = self._before[1] if first is not None and first == self._before[0] else []
        turns = (*before, *(each.turn for each in loaded))
        return self._artifacts.of(turns, (self._service.mark, len(before)))


def has_artifacts(groups: Sequence[Sequence[Placed]]) -> bool:
    """Whether a text of these exchanges may have an artifact."""
    return any(map(may_have_artifacts, texts_of(groups)))
