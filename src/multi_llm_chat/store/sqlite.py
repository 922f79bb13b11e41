"""Conversations in an SQLite file, or in memory.

Rules:
1. The file is in WAL mode with ``synchronous=FULL``: committed transactions survive a loss of power.
2. A writing transaction takes the lock at its start (``BEGIN IMMEDIATE``), so that it cannot fail half-way for lack of the lock.
3. Only its owner can read the file.
4. A read-only file is opened for reading; as immutable, if there is no WAL file next to it.
5. Before an existing file is migrated, a copy is saved next to it: written under another name, then renamed.
"""

import errno
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from multi_llm_chat.errors import StoreError
from multi_llm_chat.store._database_faults import (
    BUSY,
    DAMAGED,
    DISK,
    FULL,
    READ_ONLY,
    UNKNOWN,
    UNOPENED,
    DatabaseFault,
)
from multi_llm_chat.store._tables import APPLICATION_ID, check_version, migrate
from multi_llm_chat.store.transaction import DatabaseName, Row

MEMORY = ":memory:"

#: The part of SQLite's own error name before its second underscore, with the fault for it.
_FAULTS: dict[str, DatabaseFault] = {
    "BUSY": BUSY,
    "LOCKED": BUSY,
    "FULL": FULL,
    "READONLY": READ_ONLY,
    "PERM": READ_ONLY,
    "CANTOPEN": UNOPENED,
    "CORRUPT": DAMAGED,
    "NOTADB": DAMAGED,
    "IOERR": DISK,
}

_SYSTEM_FAULTS: dict[int | None, DatabaseFault] = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: READ_ONLY,
    errno.EPERM: READ_ONLY,
}

#: Short, in seconds, because the executor retries, which is fairer than SQLite's own growing pauses.
_WAIT = 0.02

_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)


class SQLiteConnection:
    """One connection."""

    database: DatabaseName = "sqlite"

    def __init__(self, path: str, *, is_address: bool = False) -> None:
        # Only the executor begins and ends transactions.
        self._connection = sqlite3.connect(
            path, timeout=_WAIT, isolation_level=None, cached_statements=256, uri=is_address
        )

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement."""
        return self._connection.execute(statement, parameters).fetchall()

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""
        self._connection.executemany(statement, rows)

    def roll_back(self) -> None:
        """Undo the open transaction, if there is one."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close it; nothing is raised."""
        try:
            self._connection.close()
        except sqlite3.Error:
            return  # the caller can do nothing about it

    def copy_to(self, path: Path) -> None:
        """Write a copy of the whole store into a new file."""
        with closing(sqlite3.connect(path)) as target:
            self._connection.backup(target)


class SQLiteEngine:
    """One file, opened for writing (and migrating) or for reading only."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error, OSError)

    def __init__(self, path: str, *, reads_only: bool = False) -> None:
        self.place = "memory" if path == MEMORY else path
        self.file: Path | None = None if path == MEMORY else Path(path)
        self.begin = "BEGIN" if reads_only else "BEGIN IMMEDIATE"
        self.checks_every: float | None = None if reads_only else 0.0
        self._path = path
        self._reads_only = reads_only

    def connect(self) -> SQLiteConnection:
        """Open the file; for writing, create and migrate it first."""
        if self._path != MEMORY and not self._reads_only:
            _make_private(Path(self._path))
        connection = SQLiteConnection(self._path)
        try:
            self._check_owner(connection)
            for setting in _SETTINGS:
                connection.execute(setting)
            if not self._reads_only:
                migrate(connection, self.place, back_up=self._back_up)
        except sqlite3.OperationalError:
            connection.close()
            if not self._reads_only or not _is_unchangeable(Path(self._path)):
                raise
            return self._connect_unchanging()
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_unchanging(self) -> SQLiteConnection:
        """Open a file as immutable, because no program can change it: SQLite then needs neither locks nor files next to it."""
        address = f"{Path(self._path).absolute().as_uri()}?immutable=1"
        connection = SQLiteConnection(address, is_address=True)
        try:
            self._check_owner(connection)
            check_version(connection, self.place)
        except BaseException:
            connection.close()
            raise
        return connection

    def listen(self, channel: str) -> None:
        """A file has no notifications."""
        del channel

    def fault(self, error: Exception) -> tuple[DatabaseFault, str]:
        """The kind of a failure, and the database's or the system's name for it."""
        if isinstance(error, OSError):
            name = errno.errorcode.get(error.errno or 0, "OSError")
            return _SYSTEM_FAULTS.get(error.errno, UNOPENED), name
        name = str(getattr(error, "sqlite_errorname", type(error).__name__))
        fault = _FAULTS.get(name.removeprefix("SQLITE_").partition("_")[0], UNKNOWN)
        if self._path == MEMORY:
            return replace(
                fault, broken=False
            ), name  # a new connection would be a new, empty store
        return fault, name

    def _check_owner(self, connection: SQLiteConnection) -> None:
        """Refuse a database of another program, before anything in it is changed."""
        used = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
        if used and connection.execute("PRAGMA application_id") != [(APPLICATION_ID,)]:
            raise StoreError(
                f"The file {self.place} belongs to another program. Choose another place.",
                reason="damaged",
            )

    def _back_up(self, version: int) -> None:
        # A second connection, which sees the file as it was before the first one's transaction.
        backup = Path(f"{self._path}.v{version}.backup")
        unfinished = backup.with_name(f"{backup.name}.unfinished")
        unfinished.unlink(missing_ok=True)
        _make_private(unfinished)
        with closing(SQLiteConnection(self._path)) as connection:
            connection.copy_to(unfinished)
        descriptor = os.open(unfinished, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(backup)


def _is_unchangeable(path: Path) -> bool:
    """Whether the file exists, is read-only, and has no WAL file with changes that it does not contain yet."""
    log = path.with_name(f"{path.name}-wal")
    if not os.path.isfile(path) or (os.path.isfile(log) and log.stat().st_size):
        return False
    return not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK)


def _make_private(path: Path) -> None:
    """Create an empty file that only its owner may read, unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
