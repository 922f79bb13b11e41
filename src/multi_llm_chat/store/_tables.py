"""The tables as numbered steps from an empty database to the current schema, and the migration to the last step.

Rules:
1. A released step is never changed; every change is a new step.
2. Both databases use the same SQL; where they must differ, a word of ``WORDS`` is written in braces.
3. Rows refer to each other by numbers that no user sees. Users see ids, which are unique for each user (conversations) or within a
   conversation (turns). So no import can collide with another user's rows.
4. JSON is stored as text, which both databases keep unchanged.
5. Removing a conversation removes its rows. Turns have no cascade to their children: SQLite follows at most a thousand.

Rules of migration:
6. All missing steps are done in one transaction, under a lock: of several processes one does the work.
7. The program does not write to a store that is newer than itself, also not to one that became newer while the program runs: every writing
   transaction checks the version (``check_version``), on Postgres once a second.
8. Before a store with data is changed, ``back_up`` saves a copy.
9. Journals of version 4, whose rows were lists ``[name, field, …]``, are rewritten as rows of the one event union. A row
   without a matching event becomes a row of an unknown kind, which followers skip: dropping it would leave a gap in the
   numbers.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.store.transaction import DatabaseConnection, DatabaseName, read_json, write_json

# Rows of version 4.

_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "thinking_tokens",
)


def rewrite_old_events(connection: DatabaseConnection) -> None:
    """Rewrite every row of every journal."""
    errors = dict(connection.execute("SELECT id, error FROM runs WHERE error IS NOT NULL"))
    rows = connection.execute("SELECT run_id, sequence, payload FROM run_events")
    connection.execute_many(
        "UPDATE run_events SET payload = ? WHERE run_id = ? AND sequence = ?",
        [
            (write_json(rewritten(read_json(payload), errors.get(run_id))), run_id, sequence)
            for run_id, sequence, payload in rows
        ],
    )


def rewritten(row: list[Any], error: str | None = None) -> JsonObject:
    """One old row as a new one; ``error`` is the error of its run, as JSON."""
    name, *values = row
    if name == "ended":
        return _ended(*values, error=error)
    if name == "delayed":
        provider, seconds = values
        text = f"Waiting {seconds:.0f} s: the limit of {provider} is used up."
        return {"type": "run_waiting", "reason": "rate", "text": text}
    if name not in _FIELDS:
        return {"type": f"old_{name}", "fields": values}
    kind, fields = _FIELDS[name]
    fields_by_name = dict(zip(fields, values, strict=True))
    fields_by_name.pop("speaker", None)
    return {"type": kind} | {
        field: read_json(value) if field in _TEXTS else value
        for field, value in fields_by_name.items()
    }


def _ended(
    status: str,
    reason: str,
    usage: list[int],
    cost: str | None,
    seconds: float,
    *,
    error: str | None,
) -> JsonObject:
    counts = dict(zip(_COUNTS, usage, strict=True))
    row: JsonObject = {"usage": counts, "seconds": seconds}
    if cost is not None:
        row["cost"] = cost
    if status != "failed":
        return {"type": "run_finished", "stop_reason": reason, **row}
    unknown = {"kind": "MultiLLMChatError", "message": "The answer failed."}
    return {"type": "run_failed", "error": unknown if error is None else read_json(error), **row}


#: The new kind and the names of the fields of each old row.
_FIELDS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "begun": ("run_started", ("speaker", "model")),
    "resumed": ("run_resumed", ("attempt",)),
    "turn": ("turn_finished", ("turn_id", "role", "is_whole")),
    "text": ("text_delta", ("text",)),
    "thinking": ("thinking_delta", ("text",)),
    "call_start": ("tool_call_start", ("index", "tool_call_id", "name")),
    "call_delta": ("tool_call_delta", ("index", "arguments")),
    "call_end": ("tool_call_end", ("index", "call")),
    "usage": ("usage", _COUNTS),
    "finish": ("finish", ("reason", "raw")),
    "tool": ("tool_started", ("call",)),
    "result": ("tool_finished", ("call", "result", "seconds")),
}

#: Fields that were JSON strings within the JSON.
_TEXTS: Final = frozenset({"call", "result"})


# The tables.

#: The steps: SQL, and functions for changes that SQL cannot express.
Step: TypeAlias = tuple[str | Callable[[DatabaseConnection], None], ...]

APPLICATION_ID = 0x4D4C4368

WORDS: dict[DatabaseName, dict[str, str]] = {
    "sqlite": {
        "{key}": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "{integer}": "INTEGER",
        "{bytes}": "BLOB",
        # Distinguishes our files from those of other programs ("MLCh").
        "{mark}": f"PRAGMA application_id = {APPLICATION_ID}",
        # ``_search_terms`` makes the terms; the tokenizer only has to split them at spaces.
        "{search}": "CREATE VIRTUAL TABLE search USING "
        "fts5(terms, content='', detail=none, tokenize='ascii', prefix='1 2 3')",
        "{search index}": "",
    },
    "postgres": {
        "{key}": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "{integer}": "BIGINT",
        "{bytes}": "BYTEA",
        "{mark}": "",
        "{search}": "CREATE TABLE search(turn BIGINT PRIMARY KEY REFERENCES turns ON DELETE CASCADE, "
        "terms TSVECTOR NOT NULL)",
        "{search index}": "CREATE INDEX search_terms ON search USING GIN (terms)",
    },
}

_CONVERSATIONS: Step = (
    "{mark}",
    """CREATE TABLE conversations(
        key {key},
        user_id TEXT NOT NULL,
        id TEXT NOT NULL,
        made_by TEXT NOT NULL,
        title TEXT NOT NULL,
        settings TEXT NOT NULL,
        created_ms {integer} NOT NULL,
        changed_ms {integer} NOT NULL,
        archived_ms {integer},
        deleted_ms {integer},
        UNIQUE (user_id, id),
        UNIQUE (user_id, made_by))""",
    "CREATE INDEX conversations_newest ON conversations(user_id, changed_ms, key)",
    """CREATE TABLE turns(
        key {key},
        conversation {integer} NOT NULL REFERENCES conversations ON DELETE CASCADE,
        id TEXT NOT NULL,
        parent {integer} REFERENCES turns,
        run_id TEXT,
        author TEXT NOT NULL,
        model TEXT,
        created_ms {integer} NOT NULL,
        fields TEXT NOT NULL,
        UNIQUE (conversation, id))""",
    "CREATE INDEX turns_children ON turns(conversation, parent, key)",
    "CREATE INDEX turns_parents ON turns(parent)",
    "CREATE TABLE blobs(sha256 TEXT PRIMARY KEY, size {integer} NOT NULL, data {bytes} NOT NULL)",
    """CREATE TABLE parts(
        turn {integer} NOT NULL REFERENCES turns ON DELETE CASCADE,
        position {integer} NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        blob TEXT REFERENCES blobs,
        PRIMARY KEY (turn, position))""",
    "CREATE INDEX parts_blobs ON parts(blob) WHERE blob IS NOT NULL",
    """CREATE TABLE heads(
        conversation {integer} NOT NULL REFERENCES conversations ON DELETE CASCADE,
        name TEXT NOT NULL,
        turn {integer} NOT NULL REFERENCES turns ON DELETE CASCADE,
        PRIMARY KEY (conversation, name))""",
    "CREATE INDEX heads_turns ON heads(turn)",
    "{search}",
    "{search index}",
)

_RUNS: Step = (
    """CREATE TABLE runs(
        id TEXT PRIMARY KEY,
        conversation {integer} NOT NULL REFERENCES conversations ON DELETE CASCADE,
        base_turn {integer} REFERENCES turns ON DELETE CASCADE,
        speaker TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('running', 'done', 'failed', 'cancelled')),
        spec TEXT NOT NULL,
        error TEXT,
        began_ms {integer} NOT NULL,
        ended_ms {integer},
        owner TEXT,
        epoch {integer} NOT NULL DEFAULT 0,
        lease_until_ms {integer})""",
    "CREATE INDEX runs_conversations ON runs(conversation, began_ms)",
    "CREATE INDEX runs_bases ON runs(base_turn)",
    "CREATE INDEX runs_running ON runs(lease_until_ms) WHERE status = 'running'",
    """CREATE TABLE calls(
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
        number {integer} NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('started', 'done', 'failed', 'unknown')),
        attempts {integer} NOT NULL,
        epoch {integer} NOT NULL DEFAULT 0,
        idempotency_key TEXT,
        turn {integer} REFERENCES turns ON DELETE CASCADE,
        result TEXT,
        PRIMARY KEY (run_id, number))""",
    "CREATE INDEX calls_turns ON calls(turn)",
    """CREATE TABLE run_events(
        run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
        sequence {integer} NOT NULL,
        payload TEXT NOT NULL,
        PRIMARY KEY (run_id, sequence))""",
    """CREATE TABLE usage(
        conversation {integer} NOT NULL REFERENCES conversations ON DELETE CASCADE,
        id TEXT NOT NULL,
        turn {integer} REFERENCES turns ON DELETE CASCADE,
        run_id TEXT,
        speaker TEXT NOT NULL,
        model TEXT NOT NULL,
        input_tokens {integer},
        output_tokens {integer},
        cache_read_tokens {integer},
        cache_write_tokens {integer},
        thinking_tokens {integer},
        cost_nano {integer},
        currency TEXT NOT NULL,
        estimate {integer} NOT NULL,
        created_ms {integer} NOT NULL,
        PRIMARY KEY (conversation, id))""",
    "CREATE INDEX usage_turns ON usage(turn)",
)

_DURABLE: Step = (
    # How often the run was taken since its last progress; and the time of a stop request.
    "ALTER TABLE runs ADD COLUMN attempts {integer} NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN stop_ms {integer}",
    """CREATE TABLE rates(
        key TEXT PRIMARY KEY,
        requests DOUBLE PRECISION NOT NULL,
        tokens DOUBLE PRECISION NOT NULL,
        counted_ms {integer} NOT NULL,
        closed_until_ms {integer} NOT NULL)""",
    "CREATE TABLE workers(id TEXT PRIMARY KEY, seen_ms {integer} NOT NULL)",
)

_QUESTIONS: Step = (
    """CREATE TABLE questions(
        id TEXT PRIMARY KEY,
        conversation {integer} NOT NULL REFERENCES conversations ON DELETE CASCADE,
        asker TEXT NOT NULL,
        body TEXT NOT NULL,
        answer TEXT)""",
    "CREATE INDEX questions_conversations ON questions(conversation)",
)

_OUTBOX: Step = (
    """CREATE TABLE outbox(
        key {key},
        conversation {integer} NOT NULL REFERENCES conversations ON DELETE CASCADE,
        id TEXT NOT NULL,
        message TEXT NOT NULL,
        created_ms {integer} NOT NULL,
        UNIQUE (conversation, id))""",
    rewrite_old_events,
)

#: What each model was sent, as appended rows; each row of a series adds to the rows before it.
_TRANSCRIPTS: Step = (
    """CREATE TABLE transcripts(
        key {key},
        conversation {integer} NOT NULL REFERENCES conversations ON DELETE CASCADE,
        target TEXT NOT NULL,
        series TEXT NOT NULL,
        number {integer} NOT NULL,
        content {bytes} NOT NULL,
        UNIQUE (conversation, target, series, number))""",
)

#: Step number N has the index N - 1.
STEPS: tuple[Step, ...] = (_CONVERSATIONS, _RUNS, _DURABLE, _QUESTIONS, _OUTBOX, _TRANSCRIPTS)


def perform(step: Step, connection: DatabaseConnection) -> None:
    """Do a step."""
    for statement in statements(step, connection.database):
        connection.execute(statement)
    for function in step:
        if callable(function):
            function(connection)


def statements(step: Step, database: DatabaseName) -> list[str]:
    """The SQL of a step for the given database; a step's functions run after it."""
    written: list[str] = []
    for statement in step:
        if not isinstance(statement, str):
            continue
        for word, meaning in WORDS[database].items():
            statement = statement.replace(word, meaning)
        if statement:
            written.append(statement)
    return written


# Migration.

_HAS_VERSION: dict[DatabaseName, str] = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'",
    # Not ``to_regclass``, whose cached answer may be from before the wait for the lock.
    "postgres": "SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'meta' AND relkind = 'r'"
    " AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = current_schema())",
}

#: Takes the migration lock. The number is used for nothing else in that database.
_BEGIN: dict[DatabaseName, tuple[str, ...]] = {
    "sqlite": ("BEGIN IMMEDIATE",),
    "postgres": ("BEGIN", "SELECT pg_advisory_xact_lock(7365190204483920018)"),
}


def version_of(connection: DatabaseConnection) -> int:
    """The number of the last completed step; 0 if there is no store yet."""
    if not connection.execute(_HAS_VERSION[connection.database]):
        return 0
    return int(connection.execute("SELECT version FROM meta")[0][0])


def migrate(
    connection: DatabaseConnection,
    place: str,
    *,
    back_up: Callable[[int], None] | None = None,
    steps: Sequence[Step] = STEPS,
) -> None:
    """Do the steps that the store still needs.

    Args:
        connection: an open connection outside any transaction.
        place: the name of the store in errors.
        back_up: saves a copy of the store; its argument is the store's version.
        steps: all steps.

    Raises:
        StoreError: the store was made by a newer program.
    """
    if _is_current(version_of(connection), place, steps):
        return
    try:
        for statement in _BEGIN[connection.database]:
            connection.execute(statement)
        version = version_of(connection)  # another process may have migrated it meanwhile
        if not _is_current(version, place, steps):
            if version and back_up is not None:
                back_up(version)
            _do(connection, version, steps)
        connection.execute("COMMIT")
    except BaseException:
        connection.roll_back()
        raise


def check_version(connection: DatabaseConnection, place: str) -> None:
    """Make sure that no newer program has migrated the store since it was opened.

    Raises:
        StoreError: A newer program has migrated it: this program must not write any more.
    """
    rows = connection.execute("SELECT version FROM meta")
    _is_current(int(rows[0][0]) if rows else 0, place, STEPS)


def _is_current(version: int, place: str, steps: Sequence[Step]) -> bool:
    if version > len(steps):
        raise StoreError(
            f"The conversations in {place} were written by a newer version of this program "
            f"(store version {version}, this program knows {len(steps)}). Upgrade multi_llm_chat, or "
            "choose another place.",
            reason="newer",
        )
    return version == len(steps)


def _do(connection: DatabaseConnection, version: int, steps: Sequence[Step]) -> None:
    if not version:
        connection.execute("CREATE TABLE meta(version INTEGER NOT NULL)")
        connection.execute("INSERT INTO meta(version) VALUES (0)")
    for step in steps[version:]:
        perform(step, connection)
    connection.execute("UPDATE meta SET version = ?", (len(steps),))
