"""A store that is interrupted at a chosen transaction: before, inside or after it.

The store is a real one. ``open_interrupted`` wraps its connections, and an ``Interruption`` decides what happens there:
here the process is killed, in ``refusing`` the database refuses to write.
"""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from multi_llm_chat.store import Store
from multi_llm_chat.store._database_faults import DatabaseFault
from multi_llm_chat.store.executor import (
    TOGETHER,
    DatabaseEngine,
    NotificationListener,
    StoreExecutor,
)
from multi_llm_chat.store.postgres import PostgresEngine
from multi_llm_chat.store.sqlite import SQLiteEngine
from multi_llm_chat.store.transaction import DatabaseConnection, DatabaseName, Row

Phase: TypeAlias = Literal["before", "inside", "after"]
PHASES: tuple[Phase, ...] = ("before", "inside", "after")


class Kill(Struct, frozen=True):
    """The transaction of the process at which it dies, counted from one."""

    number: int
    phase: Phase


class Interruption(Protocol):
    """Decides what happens at the transactions of a process."""

    def begins(self) -> int:
        """Note that a transaction begins; return its number, counted from one."""
        ...

    def reach(self, number: int, phase: Phase) -> None:
        """Note that a transaction is at this point."""
        ...


class _Killing:
    def __init__(self, kill: Kill | None) -> None:
        self._kill = kill
        self._count = 0
        self._lock = threading.Lock()

    def begins(self) -> int:
        with self._lock:
            self._count += 1
            return self._count

    def reach(self, number: int, phase: Phase) -> None:
        if self._kill == Kill(number, phase):
            os.kill(os.getpid(), signal.SIGKILL)


class _InterruptedLink:
    def __init__(self, connection: DatabaseConnection, interruption: Interruption) -> None:
        self.database: DatabaseName = connection.database
        self._connection = connection
        self._interruption = interruption
        self._number = 0

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        if statement.startswith("BEGIN"):
            self._number = self._interruption.begins()
            self._interruption.reach(self._number, "before")
        if statement == "COMMIT":
            self._interruption.reach(self._number, "inside")
        rows = self._connection.execute(statement, parameters)
        if statement == "COMMIT":
            self._interruption.reach(self._number, "after")
        return rows

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._connection.execute_many(statement, rows)

    def roll_back(self) -> None:
        self._connection.roll_back()

    def close(self) -> None:
        self._connection.close()


class _InterruptedEngine:
    def __init__(self, engine: DatabaseEngine, interruption: Interruption) -> None:
        self.place = engine.place
        self.file: Path | None = engine.file
        self.errors = engine.errors
        self.begin = engine.begin
        self.checks_every = engine.checks_every
        self._engine = engine
        self._interruption = interruption

    def connect(self) -> DatabaseConnection:
        return _InterruptedLink(self._engine.connect(), self._interruption)

    def listen(self, channel: str) -> NotificationListener | None:
        return self._engine.listen(channel)

    def fault(self, error: Exception) -> tuple[DatabaseFault, str]:
        return self._engine.fault(error)


def open_killing(place: str, kill: Kill | None) -> Store:
    """Open the store at the place; its process dies at the given transaction."""
    return open_interrupted(place, _Killing(kill))


def open_interrupted(place: str, interruption: Interruption) -> Store:
    """Open the store at the place; its write transactions are interrupted."""
    if place.startswith("postgresql"):
        writing: DatabaseEngine = _InterruptedEngine(PostgresEngine(place), interruption)
        return Store(
            StoreExecutor(writing, threads=3),
            StoreExecutor(PostgresEngine(place, reads_only=True), threads=2),
            "local",
        )
    writing = _InterruptedEngine(SQLiteEngine(place), interruption)
    reading = StoreExecutor(SQLiteEngine(place, reads_only=True), threads=2)
    return Store(StoreExecutor(writing, threads=1, together=TOGETHER), reading, "local")
