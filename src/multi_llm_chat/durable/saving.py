"""What a run writes, one transaction each.

Rules:
1. Every transaction does the same twice as once, and writes nothing once the run is not ours any more.
2. The end of a call, the turn it made, what it cost and what was told before are one transaction.
3. A turn goes to the end of the branch that is shown, as long as that branch holds the message it answers; otherwise
   it follows its own run's last turn, on a branch of the run's own.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from multi_llm_chat.archive.document import MAIN
from multi_llm_chat.errors import RunLost
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.store import (
    CallStart,
    ErrorRecord,
    Fence,
    Spending,
    Transaction,
    append,
    begin_calls,
    begin_run,
    end_call,
    finish_run,
    record_spending,
    take_run,
)
from multi_llm_chat.store.journal import write_events
from multi_llm_chat.store.turns import follows
from multi_llm_chat.store.values import CallState, RunStatus

#: Events of one run with their numbers, as text.
Numbered: TypeAlias = tuple[tuple[int, str], ...]


#: Reasons of failures that pass: what could not be saved is saved later.
TROUBLE: Final = frozenset({"full", "unreachable", "busy", "read-only"})


def _nothing() -> None:
    """Nobody waits for it."""


class Save(Struct, frozen=True):
    """One operation on the store; ``landed`` is called once it is committed."""

    operation: Callable[..., Any]
    arguments: tuple[Any, ...]
    landed: Callable[[], None] = _nothing


def together(saves: Sequence[Save]) -> Save:
    """All of them in one transaction."""

    def landed() -> None:
        for save in saves:
            save.landed()

    return Save(_save_all, (tuple(saves),), landed)


def _save_all(transaction: Transaction, saves: Sequence[Save]) -> None:
    for save in saves:
        save.operation(transaction, *save.arguments)


class Outcome(Struct, frozen=True):
    """How a call has ended."""

    number: int
    state: CallState
    result: object


class Place(Struct, frozen=True):
    """Where the turns of a run go: behind ``after`` (the run's last turn, or what it answers) in any case."""

    conversation: str
    after: str | None


def save_start(
    transaction: Transaction,
    conversation: str,
    run: str,
    speaker: str,
    base: str | None,
    spec: JsonObject,
    owner: str,
    lease_ms: int,
    first: CallStart,
) -> None:
    """A run begins, and is ours; its first call is about to be made."""
    begin_run(transaction, conversation, speaker, base=base, spec=spec, identifier=run)
    taken = take_run(transaction, run, owner, lease_ms)
    if taken is None:
        raise RunLost(run)
    begin_calls(transaction, taken.fence, [first])


def save_begin(transaction: Transaction, fence: Fence, starts: Sequence[CallStart]) -> None:
    """Calls are about to be made."""
    begin_calls(transaction, fence, starts)


def save_outcome(transaction: Transaction, fence: Fence, outcome: Outcome, told: Numbered) -> None:
    """A tool has its result."""
    end_call(transaction, fence, outcome.number, outcome.state, result=outcome.result)
    write_events(transaction, fence, told)


def save_turn(
    transaction: Transaction,
    fence: Fence,
    place: Place,
    turn: Turn,
    spending: Spending | None,
    outcome: Outcome | None,
    starts: Sequence[CallStart],
    told: Numbered,
) -> None:
    """A turn is complete: the model's, with the end of its call; or the tools', before the next call."""
    begin_calls(transaction, fence, starts)  # first of all: it makes sure that the run is ours
    _append(transaction, fence, place, turn)
    if spending is not None:
        record_spending(transaction, place.conversation, spending)
    if outcome is not None:
        end_call(
            transaction, fence, outcome.number, outcome.state, result=outcome.result, turn=turn.id
        )
    write_events(transaction, fence, told)


def save_end(
    transaction: Transaction,
    fence: Fence,
    status: RunStatus,
    error: ErrorRecord | None,
    told: Numbered,
) -> None:
    """The run is over."""
    finish_run(transaction, fence, status, error=error, events=told)


def _append(transaction: Transaction, fence: Fence, place: Place, turn: Turn) -> None:
    conversation, after = place.conversation, place.after
    if fence.epoch == 1 or follows(transaction, conversation, MAIN, after):
        append(transaction, conversation, (turn,), run_id=fence.run_id)
    else:
        append(
            transaction, conversation, (turn,),
            branch=f"run {fence.run_id}", parent=after, run_id=fence.run_id,
        )  # fmt: skip
