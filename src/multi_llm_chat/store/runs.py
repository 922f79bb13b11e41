"""The rows of runs; and the operations for operators, who list, stop and reopen runs of all users.

Rules:
1. A run begins once and ends once; a second call of either changes nothing.
2. A failure is an ``ErrorRecord`` of the run, never text in the history.
3. Owners, leases and calls are in ``store.journal``.

Rules for operators:
4. An operator sees ids, status and error of a run, never text of the conversation.
5. Stopping a run that has an owner sets ``stop_ms``, which the owner reads with its next write or renewal. A run
   without an owner ends at once.
6. Nothing changes a run that has ended, except ``reopen_run``.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.conversations import checked_id, key_of
from multi_llm_chat.store.records import ErrorRecord, Run, RunStatus
from multi_llm_chat.store.transaction import (
    Row,
    Transaction,
    chunks,
    read_json,
    read_record,
    reading,
    write_json,
)
from multi_llm_chat.store.turns import keys_of, turn_key

# One run.

_RUN = (
    "SELECT runs.id, turns.id, speaker, status, spec, error, began_ms, ended_ms"
    " FROM runs LEFT JOIN turns ON turns.key = base_turn"
)


def begin_run(
    transaction: Transaction,
    conversation: str,
    speaker: str,
    *,
    base: str | None,
    spec: JsonObject | None = None,
    identifier: str | None = None,
) -> str:
    """Begin the run in which a speaker answers the turn ``base``; return the run's id."""
    key = key_of(transaction, conversation, lock=True)
    identifier = transaction.new_id() if identifier is None else checked_id(identifier)
    transaction.rows(
        "INSERT INTO runs(id, conversation, base_turn, speaker, status, spec, began_ms)"
        " VALUES (?, ?, ?, ?, 'running', ?, ?) ON CONFLICT DO NOTHING",
        identifier, key, None if base is None else turn_key(transaction, key, base),
        clean_text(speaker), write_json(spec or {}), transaction.now_ms,
    )  # fmt: skip
    if (
        transaction.row("SELECT 1 FROM runs WHERE id = ? AND conversation = ?", identifier, key)
        is None
    ):
        raise UsageError("Another conversation has a run with this id. Choose another id, or none.")
    return identifier


def end_run(
    transaction: Transaction,
    run_id: str,
    status: RunStatus,
    *,
    error: ErrorRecord | None = None,
) -> None:
    """End a run that no process drives, without a ``Fence``; a second end changes nothing."""
    own_run(transaction, run_id)
    transaction.rows(
        "UPDATE runs SET status = ?, error = ?, ended_ms = ? WHERE id = ? AND status = 'running'",
        status, None if error is None else write_json(msgspec.to_builtins(error)),
        transaction.now_ms, run_id,
    )  # fmt: skip


@reading
def runs(transaction: Transaction, conversation: str) -> tuple[Run, ...]:
    """All runs of a conversation, in the order in which they began."""
    rows = transaction.rows(
        f"{_RUN} WHERE runs.conversation = ? ORDER BY began_ms, runs.id",
        key_of(transaction, conversation),
    )
    return tuple(map(_read_run, rows))


@reading
def runs_at(
    transaction: Transaction, conversation: str, identifiers: Sequence[str], bases: Sequence[str]
) -> tuple[Run, ...]:
    """The runs with these ids and those that answer these turns, in the order in which they began."""
    key = key_of(transaction, conversation)
    found: dict[str, Run] = {}
    wanted: tuple[tuple[str, Sequence[object]], ...] = (
        ("runs.id", [clean_text(identifier) for identifier in identifiers]),
        ("base_turn", list(keys_of(transaction, key, bases).values())),
    )
    for column, values in wanted:
        for marks, chunk in chunks(values):
            rows = transaction.rows(
                # The unary plus keeps SQLite from using the conversation's index, which would read all its runs.
                f"{_RUN} WHERE {column} IN ({marks}) AND +runs.conversation = ?",
                *chunk,
                key,
            )
            found.update((row[0], _read_run(row)) for row in rows)
    return tuple(sorted(found.values(), key=lambda run: (run.began_ms, run.id)))


def own_run(transaction: Transaction, run_id: str) -> int:
    """The key of a run's conversation; ``StoreError`` if this user has no such run."""
    row = transaction.row(
        "SELECT conversations.key FROM runs JOIN conversations ON conversations.key = conversation"
        " WHERE runs.id = ? AND user_id = ? AND deleted_ms IS NULL",
        clean_text(run_id), transaction.user,
    )  # fmt: skip
    if row is None:
        raise StoreError(f"There is no run {clean_text(run_id)[:60]!r}.", reason="missing")
    return row[0]


def _read_run(row: Row) -> Run:
    identifier, base, speaker, status, spec, error, began, ended = row
    record = None if error is None else read_record(error, ErrorRecord)
    return Run(identifier, base, speaker, status, read_json(spec), record, began, ended)


# All runs, for operators.

#: The advisory lock of the process that queues orphaned runs.
_JANITOR = 7365190204483920019

Stopped: TypeAlias = Literal["over", "stopped", "asked"]

_INFO = """SELECT runs.id, user_id, conversations.id, speaker, status, owner, epoch, attempts,
    lease_until_ms - {clock}, stop_ms, began_ms, ended_ms, error
    FROM runs JOIN conversations ON conversations.key = conversation"""


class RunInfo(Struct, frozen=True):
    """A run as an operator sees it; ``lease_left_ms`` is negative when the lease has run out."""

    id: str
    user: str
    conversation: str
    speaker: str
    status: RunStatus
    owner: str | None
    epoch: int
    attempts: int
    lease_left_ms: int | None
    stopping: bool
    began_ms: int
    ended_ms: int | None
    error: ErrorRecord | None

    @property
    def is_free(self) -> bool:
        """Whether any process may take it."""
        left = self.lease_left_ms
        return self.status == "running" and (self.owner is None or left is None or left < 0)


@reading
def list_runs(
    transaction: Transaction, status: RunStatus | None = "running", *, limit: int = 1000
) -> tuple[RunInfo, ...]:
    """The runs with this status, or all; the newest last."""
    condition = "" if status is None else " AND status = ?"
    rows = transaction.rows(
        f"{_INFO.format(clock=transaction.clock)} WHERE deleted_ms IS NULL{condition}"
        " ORDER BY began_ms DESC, runs.id DESC LIMIT ?",
        *(() if status is None else (status,)), limit,
    )  # fmt: skip
    return tuple(map(_info, reversed(rows)))


@reading
def run_info(transaction: Transaction, run_id: str) -> RunInfo:
    """One run."""
    row = transaction.row(
        f"{_INFO.format(clock=transaction.clock)} WHERE runs.id = ?", clean_text(run_id)
    )
    if row is None:
        raise StoreError(f"There is no run {clean_text(run_id)[:60]!r}.", reason="missing")
    return _info(row)


class WaitingRun(Struct, frozen=True):
    """The first run of a user that waits for a process, and how many runs of that user are driven."""

    id: str
    user: str
    driven: int
    began_ms: int


@reading
def waiting_runs(transaction: Transaction) -> tuple[WaitingRun, ...]:
    """One run for each user who has runs that wait; users with the fewest driven runs first.

    The runs of one speaker in one conversation are driven one after the other: only the first of them counts.
    """
    clock = transaction.clock
    rows = transaction.rows(
        "WITH running AS ("  # noqa: S608 the database's clock
        " SELECT runs.id AS id, user_id, began_ms,"
        f" CASE WHEN owner IS NOT NULL AND lease_until_ms >= {clock} THEN 1 ELSE 0 END AS driven,"
        " row_number() OVER (PARTITION BY conversation, speaker ORDER BY began_ms, runs.id) AS place"
        " FROM runs JOIN conversations ON conversations.key = conversation"
        " WHERE status = 'running' AND deleted_ms IS NULL), "
        "shares AS (SELECT user_id, sum(driven) AS driven FROM running GROUP BY user_id), "
        "ready AS (SELECT id, user_id, began_ms,"
        " row_number() OVER (PARTITION BY user_id ORDER BY began_ms, id) AS place"
        " FROM running WHERE driven = 0 AND place = 1) "
        "SELECT ready.id, ready.user_id, shares.driven, began_ms"
        " FROM ready JOIN shares ON shares.user_id = ready.user_id"
        " WHERE place = 1 ORDER BY shares.driven, began_ms, ready.id LIMIT 1000"
    )
    return tuple(
        WaitingRun(run_id, user, int(driven), began) for run_id, user, driven, began in rows
    )


@reading
def orphans(transaction: Transaction, grace_ms: int) -> tuple[RunInfo, ...]:
    """Runs that no process drives; empty while another process holds the advisory lock.

    ``grace_ms`` is how long a run may wait for its first owner before it counts as orphaned.
    """
    if transaction.database == "postgres":
        (alone,) = transaction.rows("SELECT pg_try_advisory_xact_lock(?)", _JANITOR)
        if not alone[0]:
            return ()
    clock = transaction.clock
    rows = transaction.rows(
        f"{_INFO.format(clock=clock)} WHERE deleted_ms IS NULL AND status = 'running'"
        f" AND (lease_until_ms < {clock} OR (owner IS NULL AND (epoch > 0 OR began_ms < {clock} - ?)))"
        " ORDER BY began_ms LIMIT 1000",
        grace_ms,
    )
    return tuple(map(_info, rows))


def sign_of_life(transaction: Transaction, worker: str) -> None:
    """Record that a worker is alive."""
    transaction.rows(
        f"INSERT INTO workers(id, seen_ms) VALUES (?, {transaction.clock})"  # noqa: S608 the database's clock
        " ON CONFLICT (id) DO UPDATE SET seen_ms = excluded.seen_ms",
        worker,
    )


def sign_off(transaction: Transaction, worker: str) -> None:
    """Remove a worker, and every worker that was not seen for a day."""
    transaction.rows(
        f"DELETE FROM workers WHERE id = ? OR seen_ms < {transaction.clock} - 86400000",  # noqa: S608 the database's clock
        worker,
    )


@reading
def workers(transaction: Transaction) -> dict[str, int]:
    """The workers, and how many milliseconds ago each was last seen."""
    rows = transaction.rows(f"SELECT id, {transaction.clock} - seen_ms FROM workers ORDER BY id")  # noqa: S608 the database's clock
    return {worker: age for worker, age in rows}  # noqa: C416 rows are tuples of any length


def stop_run(transaction: Transaction, run_id: str) -> Stopped:
    """Stop a run; return ``stopped`` if it had no owner, ``asked`` if its owner will end it, ``over`` if it had ended before."""
    info = run_info(transaction, run_id)
    if info.status != "running":
        return "over"
    ended = transaction.rows(
        "UPDATE runs SET status = 'cancelled', epoch = epoch + 1, ended_ms = ?, lease_until_ms = NULL"  # noqa: S608 the database's clock
        " WHERE id = ? AND status = 'running' AND"
        f" (owner IS NULL OR lease_until_ms IS NULL OR lease_until_ms < {transaction.clock}) RETURNING 1",
        transaction.now_ms, run_id,
    )  # fmt: skip
    if ended:
        return "stopped"
    transaction.rows(
        "UPDATE runs SET stop_ms = ? WHERE id = ? AND status = 'running' AND stop_ms IS NULL",
        transaction.now_ms, run_id,
    )  # fmt: skip
    return "asked"


def reopen_run(transaction: Transaction, run_id: str) -> bool:
    """Reopen a failed run, so that it can be resumed; return whether it can. A cancelled run stays cancelled."""
    info = run_info(transaction, run_id)
    transaction.rows(
        "UPDATE runs SET status = 'running', owner = NULL, lease_until_ms = NULL, attempts = 0, stop_ms = NULL,"
        " error = NULL, ended_ms = NULL WHERE id = ? AND status = 'failed'",
        run_id,
    )  # fmt: skip
    return info.status in {"failed", "running"}


@reading
def count_runs(transaction: Transaction) -> dict[str, int]:
    """How many runs have each status."""
    rows = transaction.rows("SELECT status, count(*) FROM runs GROUP BY status ORDER BY status")
    return {status: number for status, number in rows}  # noqa: C416 rows are tuples of any length


def _info(row: Row) -> RunInfo:
    names = RunInfo.__struct_fields__
    values = dict(zip(names, row, strict=True))
    error = values["error"]
    values["error"] = None if error is None else read_record(error, ErrorRecord)
    values["stopping"] = values["stopping"] is not None
    return RunInfo(**values)


# What the models of a conversation were sent.

#: How many series of one target are kept; a request that continues no transcript begins a new series.
_MOST_SERIES: Final = 2


class SentRow(Struct, frozen=True):
    """A row of a transcript: its target, its series, its number in the series, and its content."""

    target: str
    series: str
    number: int
    content: bytes


def save_sent(transaction: Transaction, conversation: str, row: SentRow) -> None:
    """Append a row to a transcript; a new series removes the oldest ones of its target."""
    key = key_of(transaction, conversation, lock=True)
    transaction.rows(
        "INSERT INTO transcripts(conversation, target, series, number, content) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        key, row.target, row.series, row.number, row.content,
    )  # fmt: skip
    if row.number:
        return
    newest = transaction.rows(
        "SELECT series FROM transcripts WHERE conversation = ? AND target = ? GROUP BY series"
        " ORDER BY max(key) DESC",
        key, row.target,
    )  # fmt: skip
    for (series,) in newest[_MOST_SERIES:]:
        transaction.rows(
            "DELETE FROM transcripts WHERE conversation = ? AND target = ? AND series = ?",
            key, row.target, series,
        )  # fmt: skip


@reading
def read_sent(transaction: Transaction, conversation: str, target: str) -> list[SentRow]:
    """All rows of a target's transcripts, in the order in which they were appended."""
    rows = transaction.rows(
        "SELECT series, number, content FROM transcripts WHERE conversation = ? AND target = ? ORDER BY key",
        key_of(transaction, conversation), target,
    )  # fmt: skip
    return [SentRow(target, series, number, bytes(content)) for series, number, content in rows]
