"""The turns of a branch in groups: exchanges, and the answers in each.

Rules:
1. An exchange is a message and the answers to it. Turns before the first message are an exchange of their own.
2. A page shows a window of exchanges: the last ones, those before or after one, or those around a turn. It has about as many turns
   in every conversation, so that a long one opens as quickly as a short one.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from multi_llm_chat.chat.branch import by_run, typed
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import Placed

#: How many turns a page shows at first; an exchange that has more is shown as a whole.
TURNS_PER_PAGE: Final = 60


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
                texts = [
                    part.content for each in turns for part in each.parts if isinstance(part, Text)
                ]
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
