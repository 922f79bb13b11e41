"""Conversations in Postgres, for many writers.

Rules:
1. Statements are written with ``?``, which becomes ``$1``, ``$2``, …; values are sent as parameters and never escaped by us.
2. A lost connection, a deadlock or a conflict is retried: operations are idempotent.
3. The server ends a transaction whose program has stopped, so that others do not wait long for its row locks.
4. The place in an error is host and database; never the whole address, which may hold a password.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
import psycopg.sql
from psycopg.conninfo import conninfo_to_dict

from multi_llm_chat.errors import UsageError
from multi_llm_chat.store._database_faults import (
    COLLISION,
    CONTENTION,
    FORBIDDEN,
    FULL,
    UNKNOWN,
    UNREACHABLE,
    DatabaseFault,
)
from multi_llm_chat.store._tables import migrate
from multi_llm_chat.store.transaction import DatabaseName, Row

#: By SQLSTATE, or by the two letters of its class.
_FAULTS: dict[str, DatabaseFault] = {
    "40": CONTENTION,  # serialization failure, deadlock
    "55P03": CONTENTION,  # lock not available
    "23503": COLLISION,  # a blob was purged while another transaction began to use it again
    "23505": COLLISION,  # two transactions inserted the same row; the retry finds it
    "42P07": COLLISION,  # two processes created the tables; the retry finds them
    "08": UNREACHABLE,
    "57P": UNREACHABLE,  # the server is stopping, has crashed or is just starting
    "53300": UNREACHABLE,  # too many connections
    "25P03": UNREACHABLE,  # this program was idle in a transaction, and the server ended it
    "53100": FULL,
    "25006": FORBIDDEN,
    "42501": FORBIDDEN,
    "3F": FORBIDDEN,  # no schema in which this user may create tables
}


#: A transaction never waits between two statements, so ten idle seconds mean a stopped program or a lost machine.
_STANDSTILL = "SET idle_in_transaction_session_timeout = 10000"


class PostgresConnection:
    """One connection."""

    database: DatabaseName = "postgres"

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(
            address, autocommit=True, connect_timeout=10, cursor_factory=psycopg.RawCursor
        )
        self._connection.execute(_STANDSTILL)

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement."""
        cursor = self._connection.execute(_numbered(statement), parameters)
        return cursor.fetchall() if cursor.description is not None else []

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_numbered(statement), rows)

    def roll_back(self) -> None:
        """Undo the open transaction, if there is one."""
        self._connection.rollback()

    def close(self) -> None:
        """Close it; nothing is raised."""
        self._connection.close()


class PostgresListener:
    """One connection that receives the notifications of a channel."""

    def __init__(self, address: str, channel: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True, connect_timeout=10)
        self._connection.execute(
            psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel))
        )

    def wait(self, timeout: float) -> list[str]:
        """The notifications, after ``timeout`` seconds at most; raises ``ConnectionError`` when the server is gone."""
        try:
            return [
                each.payload for each in self._connection.notifies(timeout=timeout, stop_after=1)
            ]
        except psycopg.Error:
            pass
        raise ConnectionError("The database cannot be reached.")

    def close(self) -> None:
        """Stop listening."""
        self._connection.close()


class PostgresEngine:
    """One database on one server."""

    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, address: str, *, reads_only: bool = False) -> None:
        # A reading transaction sees one snapshot in all its statements.
        reading = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        self.begin = reading if reads_only else "BEGIN"
        # Each check costs a round trip.
        self.checks_every: float | None = None if reads_only else 1.0
        self.file: Path | None = None
        self._reads_only = reads_only
        self._address = address
        self.place = _place(address)
        self._was_reached = False

    def connect(self) -> PostgresConnection:
        """Connect, and migrate the store if it is old."""
        connection = PostgresConnection(self._address)
        try:
            if not self._reads_only:
                migrate(connection, self.place)
        except BaseException:
            connection.close()
            raise
        self._was_reached = True
        return connection

    def listen(self, channel: str) -> PostgresListener:
        """Listen to a channel."""
        return PostgresListener(self._address, channel)

    def fault(self, error: Exception) -> tuple[DatabaseFault, str]:
        """The kind of a failure, and its SQLSTATE."""
        state = getattr(error, "sqlstate", None)
        if state is None:
            # No answer at all. A wrong address is reported at once; a server that was reached before is retried.
            known = isinstance(error, psycopg.OperationalError)
            fault = UNREACHABLE if known else UNKNOWN
            return (fault if self._was_reached else _AT_ONCE), type(error).__name__
        fault = _FAULTS.get(state) or _FAULTS.get(state[:3]) or _FAULTS.get(state[:2])
        return fault or UNKNOWN, state


_AT_ONCE = DatabaseFault(UNREACHABLE.reason, UNREACHABLE.advice)


@lru_cache(maxsize=512)
def _numbered(statement: str) -> LiteralString:
    """The statement with ``$1``, ``$2``, … in place of each ``?``."""
    first, *others = statement.split("?")
    numbers = count(1)
    numbered = first + "".join(f"${next(numbers)}{other}" for other in others)
    # All statements are literals of this package; values are sent as parameters.
    return cast("LiteralString", numbered)


def _place(address: str) -> str:
    try:
        parameters = conninfo_to_dict(address)
    except psycopg.Error:
        parameters = None
    if parameters is None:
        # Not the library's own text, which repeats the address that it could not parse.
        raise UsageError(
            "The address of the database cannot be read. Expected: "
            "postgresql://user:password@host:port/database, special characters as %XX."
        )
    host = parameters.get("host") or parameters.get("hostaddr") or "localhost"
    return f"{parameters.get('dbname') or parameters.get('user') or 'postgres'} on {host}"
