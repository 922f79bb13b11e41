"""Runs as operators see them: list, stop and reopen the runs of all users.

Rules:
1. An operator sees ids, status and error of a run, never text of the conversation.
2. Stopping a run that has an owner sets ``stop_ms``, which the owner reads with its next write or renewal. A run
   without an owner ends at once.
3. Nothing changes a run that has ended, except ``reopen_run``.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.store.json_column import read_json
from multi_llm_chat.store.records import ErrorRecord, RunStatus
from multi_llm_chat.store.transaction import Row, Transaction, reading

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


@reading
def orphans(transaction: Transaction, grace_ms: int) -> tuple[RunInfo, ...]:
    """Runs that no process drives; empty while another process holds the advisory lock.

    ``grace_ms`` is how long a run may wait for its first owner before it counts.
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
    """Stop a run: ``stopped`` if it had no owner, ``asked`` if its owner will end it, ``over`` if it had ended."""
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
    """Reopen a failed run, so that it can be resumed; whether the run can be. A cancelled run stays cancelled."""
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
    told = dict(zip(names, row, strict=True))
    error = told["error"]
    told["error"] = None if error is None else msgspec.convert(read_json(error), ErrorRecord)
    told["stopping"] = told["stopping"] is not None
    return RunInfo(**told)
