"""The writes of a conversation to its store, except its answers: each operation in this module is one transaction.

Rules:
1. Each operation is idempotent: the caller chooses the ids.
2. The first message creates the conversation and gives it its title: its first words, without the marks of Markdown.
3. Turns are appended at the end of the shown branch. To continue from an earlier turn, the same transaction first moves
   the end of that branch back.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from multi_llm_chat.archive.document import MAIN
from multi_llm_chat.chat.branch import plain_title
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

_TITLE_LENGTH: Final = 60
#: How many characters of a message are read for its title.
_READ_LENGTH: Final = 2_000


class Said(Struct, frozen=True):
    """A turn, and the run that made it, if a run did."""

    turn: Turn
    run: str | None = None


class Back(Struct, frozen=True):
    """The turn from which the conversation continues; None for its beginning."""

    turn: str | None


def save_message(
    transaction: Transaction,
    conversation: str,
    said: tuple[Said, ...],
    back: Back | None,
    settings: JsonObject,
) -> None:
    """Save the user's message, and on another branch the turns that stay."""
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
    message: tuple[tuple[Said, ...], Back | None, JsonObject] | None,
    starts: Sequence[Write],
    queued: str | None = None,
) -> None:
    """Save a message together with the start of its runs: no message is ever without its runs.

    ``queued`` is the message's id in the outbox, from which it is removed.
    """
    if queued is not None:
        sent_as = message[0][-1].turn.id if message is not None else None
        take_queued(transaction, conversation, queued, sent_as)
    if message is not None:
        save_message(transaction, conversation, *message)
    for start in starts:
        start.operation(transaction, *start.arguments)


def title_of(turns: Iterable[Turn]) -> str:
    """The first words of a message, as a title."""
    words = "\n".join(
        part.content for turn in turns for part in turn.parts if isinstance(part, Text)
    )
    words = plain_title(words[:_READ_LENGTH])
    return words if len(words) <= _TITLE_LENGTH else words[: _TITLE_LENGTH - 1].rstrip() + "…"
