"""The writes of a run to the store: each operation in this module is one transaction.

Rules:
1. Every operation is idempotent, and raises ``RunLost`` without writing once another process owns the run.
2. One transaction holds the end of a call, its turn, its cost, the start of the following calls and the events before it.
3. A turn goes to the end of the shown branch, as long as that branch holds the message it answers. Otherwise a resumed
   run appends it behind its own last turn, on a branch of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from multi_llm_chat.archive.document import MAIN
from multi_llm_chat.errors import MultiLLMChatError, ProviderError, RunLost, StoreError
from multi_llm_chat.events import ErrorRecord
from multi_llm_chat.history.values import JsonObject, Turn
from multi_llm_chat.store import (
    CallStart,
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
from multi_llm_chat.store.journal import edit_call, write_events
from multi_llm_chat.store.records import CallState, RunStatus
from multi_llm_chat.store.runs import SentRow, save_sent
from multi_llm_chat.store.turns import follows

#: Events of one run as rows: their numbers and their JSON.
NumberedRows: TypeAlias = tuple[tuple[int, str], ...]

#: Reasons of transient store failures: the write is retried.
TRANSIENT: Final = frozenset({"full", "unreachable", "busy", "read-only"})
#: Seconds for which a watched run, or its follower, waits for an unavailable store.
STORE_PATIENCE: Final = 60.0


def _nothing() -> None:
    """Do nothing."""


class Write(Struct, frozen=True):
    """One operation on the store; ``landed`` is called once it is committed."""

    operation: Callable[..., Any]
    arguments: tuple[Any, ...]
    landed: Callable[[], None] = _nothing


class CallOutcome(Struct, frozen=True):
    """How a call of a model or a tool ended."""

    number: int
    state: CallState
    result: object


class Place(Struct, frozen=True):
    """Where the next turn of a run goes: after the turn ``after``, which is the run's last turn, or else the turn it answers."""

    conversation: str
    after: str | None


def start_run(
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
    """Begin a run, take its lease, and begin its first call."""
    begin_run(transaction, conversation, speaker, base=base, spec=spec, identifier=run)
    if (taken := take_run(transaction, run, owner, lease_ms)) is None:
        raise RunLost(run)
    begin_calls(transaction, taken.fence, [first])


def queue_run(
    transaction: Transaction,
    conversation: str,
    run: str,
    speaker: str,
    base: str | None,
    spec: JsonObject,
) -> None:
    """Begin a run that a worker will take."""
    begin_run(transaction, conversation, speaker, base=base, spec=spec, identifier=run)


def record_outcome(
    transaction: Transaction, fence: Fence, outcome: CallOutcome, rows: NumberedRows
) -> None:
    """Record the result of a tool."""
    end_call(transaction, fence, outcome.number, outcome.state, result=outcome.result)
    write_events(transaction, fence, rows)


def record_edit(
    transaction: Transaction, fence: Fence, number: int, arguments: JsonObject, rows: NumberedRows
) -> None:
    """Record that a person allowed a call with other arguments."""
    edit_call(transaction, fence, number, arguments)
    write_events(transaction, fence, rows)


def record_turn(
    transaction: Transaction,
    fence: Fence,
    place: Place,
    turn: Turn,
    spending: Spending | None,
    outcome: CallOutcome | None,
    starts: Sequence[CallStart],
    rows: NumberedRows,
    sent: SentRow | None = None,
) -> None:
    """Record a finished turn, the call that made it and what that call sent, and the calls that the turn requests."""
    # First, because it checks that this process owns the run.
    begin_calls(transaction, fence, starts)
    _append(transaction, fence, place, turn)
    if spending is not None:
        record_spending(transaction, place.conversation, spending)
    if sent is not None:
        save_sent(transaction, place.conversation, sent)
    if outcome is not None:
        end_call(
            transaction, fence, outcome.number, outcome.state, result=outcome.result, turn=turn.id
        )
    write_events(transaction, fence, rows)


def record_end(
    transaction: Transaction,
    fence: Fence,
    status: RunStatus,
    error: ErrorRecord | None,
    rows: NumberedRows,
) -> None:
    """End the run."""
    finish_run(transaction, fence, status, error=error, events=rows)


def _append(transaction: Transaction, fence: Fence, place: Place, turn: Turn) -> None:
    if fence.epoch == 1 or follows(transaction, place.conversation, MAIN, place.after):
        append(transaction, place.conversation, (turn,), run_id=fence.run_id)
    else:
        append(
            transaction, place.conversation, (turn,),
            branch=f"run {fence.run_id}", parent=place.after, run_id=fence.run_id,
        )  # fmt: skip


def error_record(error: MultiLLMChatError) -> ErrorRecord:
    """The error in the form in which the store keeps it."""
    kind = type(error).__name__
    if not isinstance(error, ProviderError):
        return ErrorRecord(kind, str(error))
    return ErrorRecord(kind, error.message, error.provider, error.status, error.code)


def given_up(error: StoreError) -> StoreError:
    """The error of a run that has waited too long for the store."""
    return StoreError(
        f"{error} The run waited for the store and gave up before any further tool started. Free space or bring the "
        "database back and ask again, or run without saving: --no-store.",
        reason=error.reason,
    )
