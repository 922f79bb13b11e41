"""What an operation works with.

Rules:
1. An operation is a plain function whose first parameter is a ``Transaction``; whatever it does
   happens as a whole or not at all. Operations may call operations: it stays one transaction.
2. It may be tried again, so it does the same twice as once; ids and time come from the transaction.
3. It sees the rows of ``transaction.user`` and of nobody else.
4. An operation marked with ``reading`` writes nothing, and waits for no writer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from multi_llm_chat.store.operation_clock import Occasion

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_CHUNK = 500

Row: TypeAlias = tuple[Any, ...]
DatabaseName: TypeAlias = Literal["sqlite", "postgres"]

_CLOCKS: dict[DatabaseName, str] = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgres": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
}


class Link(Protocol):
    """An open connection to a database, used by one thread."""

    database: DatabaseName

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run one statement; ``?`` stands for each parameter."""
        ...

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""
        ...

    def roll_back(self) -> None:
        """Undo the open transaction, if there is one."""
        ...

    def close(self) -> None:
        """Close it; nothing is raised."""
        ...


class Transaction:
    """One try of an operation: rows in and out, the user they belong to, and new ids."""

    __slots__ = ("_link", "_occasion", "user")

    def __init__(self, link: Link, user: str, occasion: Occasion) -> None:
        self._link = link
        self._occasion = occasion
        self.user = user

    @property
    def database(self) -> DatabaseName:
        """Which database it is; only search asks."""
        return self._link.database

    @property
    def lock(self) -> str:
        """What to append to a SELECT of the row that others must not change meanwhile.

        SQLite needs nothing: who writes holds the whole file.
        """
        return " FOR NO KEY UPDATE" if self._link.database == "postgres" else ""

    @property
    def clock(self) -> str:
        """The database's own time in milliseconds since 1970, as an expression: the same for all who share it."""
        return _CLOCKS[self._link.database]

    @property
    def now_ms(self) -> int:
        """The time of the operation, milliseconds since 1970."""
        return self._occasion.now_ms

    def new_id(self) -> str:
        """An id that nobody has."""
        return self._occasion.new_id()

    def rows(self, statement: str, *parameters: Any) -> list[Row]:
        """Run one statement and give its rows."""
        return self._link.execute(statement, parameters)

    def row(self, statement: str, *parameters: Any) -> Row | None:
        """Run one statement and give its first row, if there is one."""
        return next(iter(self._link.execute(statement, parameters)), None)

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""
        if gathered := list(rows):
            self._link.execute_many(statement, gathered)


def chunks(items: Sequence[T]) -> Iterator[tuple[str, Sequence[T]]]:
    """The items in pieces that one statement can take, each with its question marks."""
    for start in range(0, len(items), _CHUNK):
        chunk = items[start : start + _CHUNK]
        yield ", ".join("?" * len(chunk)), chunk


Operation: TypeAlias = Callable[Concatenate[Transaction, P], R]

_READING: set[Callable[..., Any]] = set()


def reading(operation: Operation[P, R]) -> Operation[P, R]:
    """Mark an operation that only reads."""
    _READING.add(operation)
    return operation


def only_reads(operation: Callable[..., Any]) -> bool:
    """Whether the operation was marked as one that only reads."""
    return operation in _READING
