"""What a conversation writes into its store besides its answers, one transaction each.

Rules:
1. Each operation does the same twice as once: ids are chosen before.
2. A conversation comes into being with its first message, and gets its title from it.
3. Turns are appended at the end of the branch that is shown. To go on from an earlier turn, that branch is led
   back to it first, in the same transaction.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from multi_llm_chat.archive.document import MAIN
from multi_llm_chat.history.values import JsonObject, Text, Turn
from multi_llm_chat.runs.records import Write
from multi_llm_chat.store import (
    Transaction,
    append,
    create,
    drop_head,
    move_head,
    rename,
    take_queued,
)

_TITLE_LENGTH = 60


class Said(Struct, frozen=True):
    """A turn, and the run that made it, if it was one."""

    turn: Turn
    run: str | None = None


class Back(Struct, frozen=True):
    """The turn behind which the conversation goes on; None for its very beginning."""

    turn: str | None


def save_message(
    transaction: Transaction,
    conversation: str,
    said: tuple[Said, ...],
    back: Back | None,
    settings: JsonObject,
) -> None:
    """Keep what the user said; or, on another branch, what stays of what was said."""
    summary = create(transaction, settings=settings, identifier=conversation)
    title = "" if summary.title else title_of(each.turn for each in said)
    if title:
        rename(transaction, conversation, title)
    if back is not None and back.turn is None:
        drop_head(transaction, conversation, MAIN)
    elif back is not None and back.turn is not None:
        move_head(transaction, conversation, back.turn)
    for each in said:
        append(transaction, conversation, (each.turn,), run_id=each.run)


def save_round(
    transaction: Transaction,
    conversation: str,
    message: tuple[Any, ...] | None,
    starts: Sequence[Write],
    queued: str | None = None,
) -> None:
    """Keep what was said together with the start of its runs: a message is never left without them.

    ``queued`` is the id under which the message waited: it waits no more.
    """
    if queued is not None:
        take_queued(transaction, conversation, queued)
    if message is not None:
        save_message(transaction, conversation, *message)
    for start in starts:
        start.operation(transaction, *start.arguments)


def title_of(turns: Iterable[Turn]) -> str:
    """The first words of a message, as a title."""
    words = " ".join(
        part.content for turn in turns for part in turn.parts if isinstance(part, Text)
    )
    words = " ".join(words.split())
    return words if len(words) <= _TITLE_LENGTH else words[: _TITLE_LENGTH - 1].rstrip() + "…"
