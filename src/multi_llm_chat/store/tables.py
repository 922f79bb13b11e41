"""The tables, as numbered steps from nothing to today.

Rules:
1. A step that was released is never changed; what is wanted beyond it is a new step.
2. One text serves both databases; where they must differ, a word of ``WORDS`` stands in braces.
3. Rows point to each other by numbers that no user sees; what users see are ids, unique for each user
   (conversations) or within a conversation (turns). So nobody's import can collide with another's rows.
4. JSON is text: both databases keep it to the letter.
5. Removing a conversation removes its rows. Turns do not remove their children one by one: SQLite would follow
   a thousand of them and no more.
"""

from collections.abc import Callable
from typing import TypeAlias

from multi_llm_chat.store.old_events import rewrite_old_events
from multi_llm_chat.store.transaction import DatabaseName, Link

#: SQL, and functions for what SQL cannot say.
Step: TypeAlias = tuple[str | Callable[[Link], None], ...]

APPLICATION_ID = 0x4D4C4368

WORDS: dict[DatabaseName, dict[str, str]] = {
    "sqlite": {
        "{key}": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "{integer}": "INTEGER",
        "{bytes}": "BLOB",
        # Tells our files from other programs' ("MLCh").
        "{mark}": f"PRAGMA application_id = {APPLICATION_ID}",
        # The terms are made by us (terms.py): the tokenizer only has to part them at spaces.
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
    # How often the run was taken since it last came any further; the wish that it be stopped.
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

#: Step number N stands at N - 1.
STEPS: tuple[Step, ...] = (_CONVERSATIONS, _RUNS, _DURABLE, _QUESTIONS, _OUTBOX)


def perform(step: Step, link: Link) -> None:
    """Do a step."""
    for statement in statements(step, link.database):
        link.execute(statement)
    for function in step:
        if callable(function):
            function(link)


def statements(step: Step, database: DatabaseName) -> list[str]:
    """The SQL of a step, in the database's own words; a step's functions come after it."""
    written: list[str] = []
    for statement in step:
        if not isinstance(statement, str):
            continue
        for word, meaning in WORDS[database].items():
            statement = statement.replace(word, meaning)
        if statement:
            written.append(statement)
    return written
