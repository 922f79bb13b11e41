"""The journal of runs: who has them, which calls they made, what they tell while they go on.

Rules:
1. Who takes a run gets its next epoch and a lease by the database's clock. Whatever is written for the run is
   written only while that epoch is the run's own; otherwise ``RunLost`` is raised and nothing is written.
2. A lease that has run out is still good as long as nobody else took the run.
3. A transaction that is tried again first asks whether it has landed.
4. A call is begun before it is made. A call that is done, or whose outcome is unknown for good, is never begun again.
5. Events are numbered by who holds the run, without gaps; a number is written once.
6. Who runs a run serves all users: it takes and writes runs by their ids. What was said and found out is read by the
   run's own user alone.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from multi_llm_chat.errors import RunLost
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.json_column import read_json, write_json
from multi_llm_chat.store.records import Call, CallState, ErrorRecord, RunStatus
from multi_llm_chat.store.runs import own_run
from multi_llm_chat.store.transaction import Row, Transaction, chunks, reading
from multi_llm_chat.store.turns import turn_key

#: Where Postgres tells that events of a run were written.
CHANNEL = "multi_llm_chat_runs"
#: How many events are read at once.
MOST_EVENTS = 1000
#: How many events are written by one statement.
_ROWS = 100

_FREE = "(owner IS NULL OR lease_until_ms IS NULL OR lease_until_ms < {clock} OR owner = ?)"


class Fence(Struct, frozen=True):
    """The right to write for a run, for as long as the epoch is the run's own."""

    run_id: str
    epoch: int


class Taken(Struct, frozen=True):
    """A run in one's own hands.

    ``attempts`` tells how often it was taken since it last came any further, ``sequence`` the number of its next event,
    ``stopped`` that somebody wants it ended.
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
    """A call that is about to be made; ``key`` is the same at every attempt."""

    number: int
    kind: str
    name: str
    key: str | None = None


class Events(Struct, frozen=True):
    """Numbered events of one run."""

    fence: Fence
    numbered: tuple[tuple[int, str], ...]


class Told(Struct, frozen=True):
    """What a run has told since a number, and how it stands."""

    events: tuple[tuple[int, str], ...]
    status: RunStatus
    error: ErrorRecord | None


def take_run(
    transaction: Transaction, run_id: str, owner: str, lease_ms: int, *, dead: str | None = None
) -> Taken | None:
    """Take a run that nobody has, or whose lease has run out; None if that cannot be.

    Args:
        transaction: within which it happens.
        run_id: the run.
        owner: who takes it.
        lease_ms: for how long, in milliseconds.
        dead: an owner that is known to be gone, whatever its lease says.
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
    last = _mend_events(transaction, run_id)
    fence = Fence(run_id, epoch)
    told: JsonObject = read_json(spec)
    return Taken(
        fence, user, conversation, base, speaker, told, attempts, last + 1, stop_ms is not None
    )


def _mend_events(transaction: Transaction, run_id: str) -> int:
    """Forget what stands behind a gap that nobody will fill any more; the last number before it."""
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
    """Lengthen the leases; the runs that are still ours, and those of them that are to be stopped."""
    ours: set[str] = set()
    stopped: set[str] = set()
    for fence in sorted(fences, key=lambda each: each.run_id):
        row = transaction.row(
            f"UPDATE runs SET lease_until_ms = {transaction.clock} + ?"  # noqa: S608 the database's clock
            " WHERE id = ? AND epoch = ? AND status = 'running' RETURNING stop_ms",
            lease_ms, fence.run_id, fence.epoch,
        )  # fmt: skip
        if row is not None:
            ours.add(fence.run_id)
            if row[0] is not None:
                stopped.add(fence.run_id)
    return ours, stopped


def release_run(transaction: Transaction, fence: Fence) -> None:
    """Give a run back unfinished, for anybody to take; it does not count as an attempt."""
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
    """The run is over; calls that were begun and not ended have failed."""
    state = transaction.row("SELECT epoch, status FROM runs WHERE id = ?", fence.run_id)
    if state is not None and state[0] == fence.epoch and state[1] != "running":
        return  # it has landed
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
    """Calls are about to be made, for the first time or once more."""
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
    """The call has an outcome; the first one stays."""
    key = guard(transaction, fence)
    transaction.rows(
        "UPDATE calls SET state = ?, result = ?, turn = ?"
        " WHERE run_id = ? AND number = ? AND state NOT IN ('done', 'unknown')",
        state, write_json(result), None if turn is None else turn_key(transaction, key, turn),
        fence.run_id, number,
    )  # fmt: skip
    transaction.rows("UPDATE runs SET attempts = 0 WHERE id = ? AND attempts > 0", fence.run_id)


@reading
def calls(transaction: Transaction, run_id: str) -> tuple[Call, ...]:
    """The calls of a run in order."""
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
        The runs that are no longer ours, of which nothing was written; and the runs that are to be stopped.
    """
    epochs: dict[str, int] = {}
    stopped: set[str] = set()
    for marks, chunk in chunks([batch.fence.run_id for batch in batches]):
        # In one order, so that no two who write at once wait for each other.
        found = transaction.rows(
            f"SELECT id, epoch, stop_ms FROM runs WHERE id IN ({marks}) ORDER BY id{transaction.lock}",  # noqa: S608 only question marks
            *chunk,
        )
        epochs.update((run_id, epoch) for run_id, epoch, _ in found)
        stopped.update(run_id for run_id, _, stop_ms in found if stop_ms is not None)
    lost = {
        batch.fence.run_id
        for batch in batches
        if epochs.get(batch.fence.run_id) != batch.fence.epoch
    }
    _write_all(transaction, [batch for batch in batches if batch.fence.run_id not in lost])
    return lost, stopped - lost


def write_events(
    transaction: Transaction, fence: Fence, numbered: Sequence[tuple[int, str]]
) -> None:
    """Write events of a run that is known to be ours."""
    _write_all(transaction, [Events(fence, tuple(numbered))])


def _write_all(transaction: Transaction, batches: Sequence[Events]) -> None:
    """Write events of runs that are ours, in as few statements as can be: each costs a turn of the interpreter's lock."""
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
        told = [batch.fence.run_id for batch in batches if batch.numbered]
        for marks, chunk in chunks(told):
            transaction.rows(
                f"SELECT pg_notify(?, id) FROM runs WHERE id IN ({marks})",  # noqa: S608 only question marks
                CHANNEL, *chunk,
            )  # fmt: skip


@reading
def read_events(
    transaction: Transaction, run_id: str, after: int = 0, *, limit: int = MOST_EVENTS
) -> Told:
    """What the run has told after a number: without a gap, and how the run stands."""
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
    error = None if failure is None else msgspec.convert(read_json(failure), ErrorRecord)
    return Told(tuple(whole), status, error)


def prune_events(transaction: Transaction, age_ms: int) -> None:
    """Forget the events of runs that ended so long ago: their turns tell it all."""
    transaction.rows(
        "DELETE FROM run_events WHERE run_id IN"  # noqa: S608 the database's clock
        f" (SELECT id FROM runs WHERE status <> 'running' AND ended_ms < {transaction.clock} - ?)",
        age_ms,
    )


def guard(transaction: Transaction, fence: Fence) -> int:
    """Make sure that the run is ours until the transaction ends; its conversation."""
    row = transaction.row(
        "SELECT conversation FROM runs"  # noqa: S608 the database's word for a lock
        f" WHERE id = ? AND epoch = ? AND status = 'running'{transaction.lock}",
        fence.run_id, fence.epoch,
    )  # fmt: skip
    if row is None:
        raise RunLost(fence.run_id)
    return row[0]


def _read_call(row: Row) -> Call:
    number, kind, name, state, attempts, idempotency_key, turn, result = row
    outcome = None if result is None else read_json(result)
    return Call(number, kind, name, state, attempts, idempotency_key, turn, outcome)
