"""A store that refuses to write for a while, from a chosen transaction on, with the database's own error for a full disk.

Rules:
1. The transaction with the given number, counted from one, is refused before it begins, at its commit, or after its commit, when
   only the reply is lost. Every later one is refused too, until the time is over.
2. When the time is over, the next transaction succeeds, or the process is killed there.
3. If the reply to a commit is lost, the database raises a different error, which asks for a retry.
4. Reads are never refused.
"""

import os
import signal
import sqlite3
import threading
import time
from contextlib import closing

import psycopg
from msgspec import Struct
from tests.runs.killing_store import Phase


class Refusal(Struct, frozen=True):
    """The first transaction that the store refuses, and how the refusals end; with None they never end.

    With ``is_passing`` the error is a transient one, after which the store retries by itself.
    """

    number: int
    phase: Phase
    seconds: float | None = 0.1
    kills: bool = False
    is_passing: bool = False


class Refusing:
    """Refuses transactions according to a ``Refusal``; ``allow`` ends it early."""

    def __init__(self, place: str, refusal: Refusal | None) -> None:
        self.count = 0
        self.refused = 0
        self._is_postgres = place.startswith("postgresql")
        self._refusal = refusal
        self._is_over = refusal is None
        self._began: float | None = None
        self._lock = threading.Lock()

    def begins(self) -> int:
        with self._lock:
            self.count += 1
            return self.count

    def refuse(self, refusal: Refusal) -> None:
        """Refuse transactions, from the one with this number on."""
        with self._lock:
            self._refusal, self._is_over, self._began = refusal, False, None

    def allow(self) -> None:
        """Stop refusing."""
        with self._lock:
            self._is_over = True

    def reach(self, number: int, phase: Phase) -> None:
        with self._lock:
            if not self._refuses(number, phase):
                return
            self.refused += 1
        if self._refusal is not None and self._refusal.is_passing:
            raise passing_error(postgres=self._is_postgres)
        raise full_error(postgres=self._is_postgres)

    def _refuses(self, number: int, phase: Phase) -> bool:
        refusal = self._refusal
        if self._is_over or refusal is None:
            return False
        if self._began is None:
            is_first = number == refusal.number and phase == refusal.phase
            if number <= refusal.number and not is_first:
                return False
            self._began = time.monotonic()
            return True
        if phase == "after":
            return False
        if refusal.seconds is not None and time.monotonic() > self._began + refusal.seconds:
            if refusal.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            self._is_over = True
        return not self._is_over


def full_error(*, postgres: bool) -> Exception:
    """Return the database's error for a full disk."""
    if postgres:
        return psycopg.errors.DiskFull("could not extend file: No space left on device")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA max_page_count = 1")
        try:
            connection.execute("CREATE TABLE full(disk)")
        except sqlite3.OperationalError as error:
            return error
    raise AssertionError("SQLite wrote more than it was allowed to")


def passing_error(*, postgres: bool) -> Exception:
    """Return the database's error for a lost connection, or for another program's write."""
    if postgres:
        return psycopg.OperationalError("the connection is lost")
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorname = "SQLITE_BUSY"
    return busy
