"""The rows of runs: one speaker's answer each.

Rules:
1. A run begins once and ends once; beginning or ending it again changes nothing.
2. A failure is an ``ErrorRecord`` of the run, never text in the history.
3. Owners, leases and calls are in ``store.journal``.
"""

import msgspec

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.conversations import checked_id, key_of
from multi_llm_chat.store.json_column import read_json, write_json
from multi_llm_chat.store.records import ErrorRecord, Run, RunStatus
from multi_llm_chat.store.transaction import Row, Transaction, reading
from multi_llm_chat.store.turns import turn_key

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
    """Begin the run in which a speaker answers the turn ``base``; the run's id."""
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
    """End a run that no process drives, without a ``Fence``; the first end stays."""
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
    record = None if error is None else msgspec.convert(read_json(error), ErrorRecord)
    return Run(identifier, base, speaker, status, read_json(spec), record, began, ended)
