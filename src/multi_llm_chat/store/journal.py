"""The journal of runs in the store: owners and leases, calls, and numbered events.

Rules:
1. A process that takes a run gets the run's next epoch, and a lease by the database's clock. Every write for the run
   names that epoch (``Fence``): if the run has a later one, the operation raises ``RunLost`` and writes nothing.
2. A lease that has run out stays valid until another process takes the run.
3. An operation that is retried after a commit of unknown outcome first checks whether that commit succeeded.
4. The start of a call is recorded before the call is made. A call whose state is ``done`` or ``unknown`` is never started again.
5. The owner of a run numbers its events without gaps; each number is written once.
6. An owner serves all users: it takes and writes runs by their ids. Calls and events of a run can only be read by its own user.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from multi_llm_chat.errors import RunLost
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.records import CallState, ErrorRecord, RecordedCall, RunStatus
from multi_llm_chat.store.runs import own_run
from multi_llm_chat.store.transaction import (
    Row,
    Transaction,
    chunks,
    read_json,
    read_record,
    reading,
    write_json,
)
from multi_llm_chat.store.turns import turn_key

#: The channel on which Postgres notifies that events of a run were written.
CHANNEL = "multi_llm_chat_runs"
#: The most events that one read returns.
MOST_EVENTS = 1000
#: The most events that one statement writes.
_ROWS = 100

_FREE = "(owner IS NULL OR lease_until_ms IS NULL OR lease_until_ms < {clock} OR owner = ?)"


class Fence(Struct, frozen=True):
    """The right to write for a run, as long as the run has this epoch."""

    run_id: str
    epoch: int


class Taken(Struct, frozen=True):
    """A run that this process has taken.

    ``attempts`` counts how often the run was taken since its last progress, ``sequence`` is the number of its next
    event, ``stopped`` says that a stop was requested.
    """

    fence: Fence
    user: str
    conversation: str
    base: str | None
    speaker: str
    spec: JsonObject
    attempts: int
    sequence: int
    stopped: bool


class CallStart(Struct, frozen=True):
    """The start of a call; ``key``, its idempotency key, is the same in every attempt."""

    number: int
    kind: str
    name: str
    key: str | None = None


class Events(Struct, frozen=True):
    """Numbered events of one run."""

    fence: Fence
    numbered: tuple[tuple[int, str], ...]


class RunEvents(Struct, frozen=True):
    """The events of a run after a number, its status and its error."""

    events: tuple[tuple[int, str], ...]
    status: RunStatus
    error: ErrorRecord | None


def take_run(
    transaction: Transaction, run_id: str, owner: str, lease_ms: int, *, dead: str | None = None
) -> Taken | None:
    """Take a run that has no owner, or whose lease has run out; None if another process owns it.

    Args:
        transaction: The transaction.
        run_id: The run.
        owner: The process that takes it.
        lease_ms: The length of the lease in milliseconds.
        dead: An owner that is known to have ended, whatever its lease says.
    """
    mine = f"{clean_text(owner)}/{transaction.new_id()}"
    if transaction.row("SELECT 1 FROM runs WHERE id = ? AND owner = ?", run_id, mine) is None:
        transaction.rows(
            f"UPDATE runs SET owner = ?, epoch = epoch + 1, attempts = attempts + 1, lease_until_ms = {transaction.clock} + ?"  # noqa: S608 the database's clock
            f" WHERE id = ? AND status = 'running' AND {_FREE.format(clock=transaction.clock)}",
            mine, lease_ms, clean_text(run_id), dead or mine,
        )  # fmt: skip
    row = transaction.row(
        "SELECT runs.epoch, user_id, conversations.id, turns.id, speaker, spec, attempts, stop_ms"
        " FROM runs JOIN conversations ON conversations.key = runs.conversation"
        " LEFT JOIN turns ON turns.key = base_turn"
        " WHERE runs.id = ? AND owner = ? AND status = 'running'",
        clean_text(run_id), mine,
    )  # fmt: skip
    if row is None:
        return None
    epoch, user, conversation, base, speaker, spec, attempts, stop_ms = row
    last = _remove_gap(transaction, run_id)
    fence = Fence(run_id, epoch)
    fields: JsonObject = read_json(spec)
    return Taken(
        fence, user, conversation, base, speaker, fields, attempts, last + 1, stop_ms is not None
    )


def _remove_gap(transaction: Transaction, run_id: str) -> int:
    """Delete the events after a gap, which no process will fill any more; return the last number before the gap."""
    rows = transaction.rows(
        "SELECT sequence FROM run_events WHERE run_id = ? ORDER BY sequence", run_id
    )
    last = 0
    for (number,) in rows:
        if number != last + 1:
            break
        last = number
    if last != len(rows):
        transaction.rows("DELETE FROM run_events WHERE run_id = ? AND sequence > ?", run_id, last)
    return last


def renew(
    transaction: Transaction, fences: Sequence[Fence], lease_ms: int
) -> tuple[set[str], set[str]]:
    """Renew leases; return the runs that this process still owns, and those of them for which a stop was requested."""
    states = _lock_runs(transaction, [fence.run_id for fence in fences])
    ours = {
        fence.run_id
        for fence in fences
        if (state := states.get(fence.run_id)) is not None
        and (state.epoch, state.status) == (fence.epoch, "running")
    }
    for marks, chunk in chunks(sorted(ours)):
        transaction.rows(
            f"UPDATE runs SET lease_until_ms = {transaction.clock} + ? WHERE id IN ({marks})",  # noqa: S608 the database's clock, and question marks
            lease_ms, *chunk,
        )  # fmt: skip
    return ours, {run_id for run_id in ours if states[run_id].is_stopped}


class _RunState(Struct, frozen=True):
    """The state of a run that this transaction has locked."""

    epoch: int
    status: RunStatus
    is_stopped: bool


def _lock_runs(transaction: Transaction, runs: Sequence[str]) -> dict[str, _RunState]:
    """Lock runs until the transaction ends, in as few statements as possible; return those that exist.

    Each statement of SQLite releases and takes the interpreter's lock: one for each of 500 runs costs the event loop more than
    the database.
    """
    states: dict[str, _RunState] = {}
    for marks, chunk in chunks(runs):
        # In one order, so that two concurrent writers cannot deadlock.
        found = transaction.rows(
            f"SELECT id, epoch, status, stop_ms FROM runs WHERE id IN ({marks}) ORDER BY id{transaction.lock}",  # noqa: S608 only question marks
            *chunk,
        )
        for run_id, epoch, status, stop_ms in found:
            states[run_id] = _RunState(epoch, status, stop_ms is not None)
    return states


def release_run(transaction: Transaction, fence: Fence) -> None:
    """Release a run unfinished, for any process to take; this does not count as an attempt."""
    transaction.rows(
        "UPDATE runs SET owner = NULL, lease_until_ms = NULL, attempts = attempts - 1"
        " WHERE id = ? AND epoch = ? AND status = 'running' AND owner IS NOT NULL",
        fence.run_id, fence.epoch,
    )  # fmt: skip


def finish_run(
    transaction: Transaction,
    fence: Fence,
    status: RunStatus,
    *,
    error: ErrorRecord | None = None,
    events: Sequence[tuple[int, str]] = (),
) -> None:
    """End a run; its unfinished calls are marked as failed."""
    state = transaction.row("SELECT epoch, status FROM runs WHERE id = ?", fence.run_id)
    if state is not None and state[0] == fence.epoch and state[1] != "running":
        return  # an earlier attempt of this operation was committed
    guard(transaction, fence)
    write_events(transaction, fence, events)
    transaction.rows(
        "UPDATE calls SET state = 'failed' WHERE run_id = ? AND state = 'started'", fence.run_id
    )
    transaction.rows(
        "UPDATE runs SET status = ?, error = ?, ended_ms = ?, lease_until_ms = NULL WHERE id = ?",
        status, None if error is None else write_json(msgspec.to_builtins(error)),
        transaction.now_ms, fence.run_id,
    )  # fmt: skip


def begin_calls(transaction: Transaction, fence: Fence, starts: Sequence[CallStart]) -> None:
    """Record that calls start, for the first time or again."""
    guard(transaction, fence)
    transaction.many(
        "INSERT INTO calls(run_id, number, kind, name, state, attempts, epoch, idempotency_key)"
        " VALUES (?, ?, ?, ?, 'started', 1, ?, ?) ON CONFLICT (run_id, number) DO UPDATE"
        " SET attempts = calls.attempts + 1, state = 'started', epoch = excluded.epoch"
        " WHERE calls.state NOT IN ('done', 'unknown') AND calls.epoch <> excluded.epoch",
        [
            (fence.run_id, each.number, clean_text(each.kind), clean_text(each.name), fence.epoch, each.key)
            for each in starts
        ],
    )  # fmt: skip


def end_call(
    transaction: Transaction,
    fence: Fence,
    number: int,
    state: CallState,
    *,
    result: object = None,
    turn: str | None = None,
) -> None:
    """Record the outcome of a call; the first outcome stays. The run has made progress: its attempts start from 0."""
    key = guard(transaction, fence)
    transaction.rows(
        "UPDATE calls SET state = ?, result = ?, turn = ?"
        " WHERE run_id = ? AND number = ? AND state NOT IN ('done', 'unknown')",
        state, write_json(result), None if turn is None else turn_key(transaction, key, turn),
        fence.run_id, number,
    )  # fmt: skip
    transaction.rows("UPDATE runs SET attempts = 0 WHERE id = ? AND attempts > 0", fence.run_id)


def edit_call(transaction: Transaction, fence: Fence, number: int, arguments: JsonObject) -> None:
    """Record the arguments that a person gave a started call, in the column of its result."""
    guard(transaction, fence)
    transaction.rows(
        "UPDATE calls SET result = ? WHERE run_id = ? AND number = ? AND state = 'started'",
        write_json({"arguments": arguments}), fence.run_id, number,
    )  # fmt: skip


@reading
def calls(transaction: Transaction, run_id: str) -> tuple[RecordedCall, ...]:
    """The calls of a run, in order."""
    own_run(transaction, run_id)
    rows = transaction.rows(
        "SELECT number, kind, name, state, attempts, idempotency_key, turns.id, result"
        " FROM calls LEFT JOIN turns ON turns.key = calls.turn WHERE calls.run_id = ? ORDER BY number",
        clean_text(run_id),
    )
    return tuple(map(_read_call, rows))


def append_events(transaction: Transaction, batches: Sequence[Events]) -> tuple[set[str], set[str]]:
    """Write events of many runs.

    Returns:
        The runs that another process owns, for which nothing was written; and the runs for which a stop was requested.
    """
    states = _lock_runs(transaction, [batch.fence.run_id for batch in batches])
    lost = {
        batch.fence.run_id
        for batch in batches
        if (state := states.get(batch.fence.run_id)) is None or state.epoch != batch.fence.epoch
    }
    stopped = {run_id for run_id, state in states.items() if state.is_stopped}
    _write_all(transaction, [batch for batch in batches if batch.fence.run_id not in lost])
    return lost, stopped - lost


def write_events(
    transaction: Transaction, fence: Fence, numbered: Sequence[tuple[int, str]]
) -> None:
    """Write events of a run for which this transaction has called ``guard``."""
    _write_all(transaction, [Events(fence, tuple(numbered))])


def _write_all(transaction: Transaction, batches: Sequence[Events]) -> None:
    """Write events in as few statements as possible, as in ``_lock_runs``."""
    rows = [
        (batch.fence.run_id, number, payload)
        for batch in batches
        for number, payload in batch.numbered
    ]
    for start in range(0, len(rows), _ROWS):
        chunk = rows[start : start + _ROWS]
        transaction.rows(
            "INSERT INTO run_events(run_id, sequence, payload) VALUES "  # noqa: S608 only question marks
            f"{', '.join(['(?, ?, ?)'] * len(chunk))} ON CONFLICT DO NOTHING",
            *(value for row in chunk for value in row),
        )
    if transaction.database == "postgres":
        written = [batch.fence.run_id for batch in batches if batch.numbered]
        for marks, chunk in chunks(written):
            transaction.rows(
                f"SELECT pg_notify(?, id) FROM runs WHERE id IN ({marks})",  # noqa: S608 only question marks
                CHANNEL, *chunk,
            )  # fmt: skip


@reading
def read_events(
    transaction: Transaction, run_id: str, after: int = 0, *, limit: int = MOST_EVENTS
) -> RunEvents:
    """The events of a run after a number, without a gap, and the run's status."""
    own_run(transaction, run_id)
    ((status, failure),) = transaction.rows(
        "SELECT status, error FROM runs WHERE id = ?", clean_text(run_id)
    )
    rows = transaction.rows(
        "SELECT sequence, payload FROM run_events WHERE run_id = ? AND sequence > ?"
        " ORDER BY sequence LIMIT ?",
        clean_text(run_id), after, limit,
    )  # fmt: skip
    whole = [(number, payload) for place, (number, payload) in enumerate(rows, after + 1) if number == place]  # fmt: skip
    error = None if failure is None else read_record(failure, ErrorRecord)
    return RunEvents(tuple(whole), status, error)


def prune_events(transaction: Transaction, age_ms: int) -> None:
    """Delete the events of runs that ended longer ago than ``age_ms``; their turns stay."""
    transaction.rows(
        "DELETE FROM run_events WHERE run_id IN"  # noqa: S608 the database's clock
        f" (SELECT id FROM runs WHERE status <> 'running' AND ended_ms < {transaction.clock} - ?)",
        age_ms,
    )


def guard(transaction: Transaction, fence: Fence) -> int:
    """Check that this process owns the run, and lock it until the transaction ends; return the key of its conversation."""
    row = transaction.row(
        "SELECT conversation FROM runs"  # noqa: S608 the database's word for a lock
        f" WHERE id = ? AND epoch = ? AND status = 'running'{transaction.lock}",
        fence.run_id, fence.epoch,
    )  # fmt: skip
    if row is None:
        raise RunLost(fence.run_id)
    return row[0]


def _read_call(row: Row) -> RecordedCall:
    number, kind, name, state, attempts, idempotency_key, turn, result = row
    outcome = None if result is None else read_json(result)
    return RecordedCall(number, kind, name, state, attempts, idempotency_key, turn, outcome)
