"""A store whose process is killed at a chosen transaction: before it, inside it, or after it."""

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from multi_llm_chat.store import Store
from multi_llm_chat.store.database_faults import Fault
from multi_llm_chat.store.executor import TOGETHER, Engine, Lane, Listening
from multi_llm_chat.store.postgres import PostgresEngine
from multi_llm_chat.store.sqlite import SQLiteEngine
from multi_llm_chat.store.transaction import DatabaseName, Link, Row

Phase: TypeAlias = Literal["before", "inside", "after"]
PHASES: tuple[Phase, ...] = ("before", "inside", "after")


class Kill(Struct, frozen=True):
    """At which transaction of the process, counted from one."""

    number: int
    phase: Phase


class _Counter:
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


class _KillingLink:
    def __init__(self, link: Link, counter: _Counter) -> None:
        self.database: DatabaseName = link.database
        self._link = link
        self._counter = counter
        self._number = 0

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        if statement.startswith("BEGIN"):
            self._number = self._counter.begins()
            self._counter.reach(self._number, "before")
        if statement == "COMMIT":
            self._counter.reach(self._number, "inside")
        rows = self._link.execute(statement, parameters)
        if statement == "COMMIT":
            self._counter.reach(self._number, "after")
        return rows

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self._link.execute_many(statement, rows)

    def roll_back(self) -> None:
        self._link.roll_back()

    def close(self) -> None:
        self._link.close()


class _KillingEngine:
    def __init__(self, engine: Engine, counter: _Counter) -> None:
        self.place = engine.place
        self.file: Path | None = engine.file
        self.errors = engine.errors
        self.begin = engine.begin
        self._engine = engine
        self._counter = counter

    def connect(self) -> Link:
        return _KillingLink(self._engine.connect(), self._counter)

    def listen(self, channel: str) -> Listening | None:
        return self._engine.listen(channel)

    def fault(self, error: Exception) -> tuple[Fault, str]:
        return self._engine.fault(error)


def open_killing(place: str, kill: Kill | None) -> Store:
    """The store at the place; its process dies as the kill says."""
    counter = _Counter(kill)
    if place.startswith("postgresql"):
        writing: Engine = _KillingEngine(PostgresEngine(place), counter)
        return Store(
            Lane(writing, threads=3),
            Lane(PostgresEngine(place, reads_only=True), threads=2),
            "local",
        )
    writing = _KillingEngine(SQLiteEngine(place), counter)
    reading = Lane(SQLiteEngine(place, reads_only=True), threads=2)
    return Store(Lane(writing, threads=1, together=TOGETHER), reading, "local")
