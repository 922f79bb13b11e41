"""The tools of an operation: its transaction, its time and new ids, and JSON columns.

Rules:
1. An operation is a plain function whose first parameter is a ``Transaction``; all of its changes are committed, or none. Operations may
   call operations within the same transaction.
2. It may be retried, so it must be idempotent; ids and time come from the transaction.
3. It sees the rows of ``transaction.user`` and no other user's.
4. An operation marked with ``reading`` writes nothing, and does not wait for writers.

Rules of time and ids:
5. A retried operation gets the same time and the same ids as before: if its first attempt was committed after all, it finds its rows and
   does not write them a second time.
6. Ids are UUIDs of version 7: their text sorts by time, and cannot be guessed.

Rules of JSON columns:
7. Reading returns exactly the value that was written, including infinities and lone surrogates.
8. The text contains neither NUL nor lone surrogates, which databases refuse.
9. A value that is not JSON is saved as the nearest JSON, and so is a value nested too deeply for some Python versions to read.
"""

import json
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from multi_llm_chat.errors import StoreError
from multi_llm_chat.history.json_values import as_list, as_object, clean_json

# The time and the ids of one operation.

_COUNTER_BITS = 12
_RANDOM_BITS = 62


class OperationContext:
    """One call of an operation, including its retries."""

    def __init__(self) -> None:
        self.now_ms = time.time_ns() // 1_000_000
        self._random = int.from_bytes(os.urandom(8)) >> 2
        self._given = 0

    def restart(self) -> None:
        """Start over: the next attempt gets the same ids in the same order."""
        self._given = 0

    def new_id(self) -> str:
        """The next id."""
        number = self._given
        self._given += 1
        # Beyond 4,096 ids the counter overflows into the time bits; the order is still kept.
        stamp = (self.now_ms << _COUNTER_BITS) + number
        milliseconds, counter = stamp >> _COUNTER_BITS, stamp & 0xFFF
        random = (self._random + number) % (1 << _RANDOM_BITS)
        return str(UUID(int=milliseconds << 80 | 0x7 << 76 | counter << 64 | 0x2 << 62 | random))


# The transaction.

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


class DatabaseConnection(Protocol):
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
    """One attempt of an operation: its statements, its user, and new ids."""

    __slots__ = ("_connection", "_context", "user")

    def __init__(
        self, connection: DatabaseConnection, user: str, context: OperationContext
    ) -> None:
        self._connection = connection
        self._context = context
        self.user = user

    @property
    def database(self) -> DatabaseName:
        """Which database it is; only the search uses this."""
        return self._connection.database

    @property
    def lock(self) -> str:
        """The clause that locks the selected rows; append it to a SELECT.

        Empty for SQLite, where a writing transaction locks the whole file.
        """
        return " FOR NO KEY UPDATE" if self._connection.database == "postgres" else ""

    @property
    def clock(self) -> str:
        """SQL expression for the database's own time in milliseconds since 1970, which all its processes share."""
        return _CLOCKS[self._connection.database]

    @property
    def now_ms(self) -> int:
        """The time of the operation, milliseconds since 1970."""
        return self._context.now_ms

    def new_id(self) -> str:
        """A new id."""
        return self._context.new_id()

    def rows(self, statement: str, *parameters: Any) -> list[Row]:
        """Run one statement and return its rows."""
        return self._connection.execute(statement, parameters)

    def row(self, statement: str, *parameters: Any) -> Row | None:
        """Run one statement and return its first row, if there is one."""
        return next(iter(self._connection.execute(statement, parameters)), None)

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row of parameters."""
        if gathered := list(rows):
            self._connection.execute_many(statement, gathered)


def chunks(items: Sequence[T]) -> Iterator[tuple[str, Sequence[T]]]:
    """Split items into chunks that one statement accepts, each with its question marks."""
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
    """Whether the operation is marked as read-only."""
    return operation in _READING


# JSON in a column.

#: Marks text that databases refuse: its bytes follow in base64. No JSON begins like this.
_PACKED = "="

#: The nesting depth that every Python version can read, whatever the depth of the call stack.
_DEEPEST: Final = 400

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_json(value: Any) -> str:
    """The value as text."""
    try:
        text = _write(value)
    except (TypeError, ValueError, RecursionError):
        text = _write(clean_json(value))
    if text.count("[") + text.count("{") > _DEEPEST and _is_too_deep(value):
        text = _write(clean_json(value))
    try:
        text.encode()
    except UnicodeEncodeError:
        # Escapes would join two adjacent surrogates to one character; bytes keep them separate.
        return _PACKED + b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    return text


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [item for each in level for item in _items(each)]
    return bool(level)


def _items(value: object) -> Iterable[object]:
    inside = as_object(value)
    return inside.values() if inside is not None else as_list(value) or ()


#: The exceptions of reading a row that was not written by this program.
DAMAGE: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def read_json(text: str) -> Any:
    """The value that was written.

    Raises:
        StoreError: The column holds anything else.
    """
    try:
        if text.startswith(_PACKED):
            text = b64decode(text[1:]).decode("utf-8", "surrogatepass")
        return json.loads(text)
    except DAMAGE:
        pass
    raise damaged_row()  # outside of the ``except`` block: the exception may contain text of a message


def read_record(text: str, kind: type[R]) -> R:
    """The value that was written, of this type.

    Raises:
        StoreError: The column holds anything else.
    """
    value = read_json(text)
    try:
        return msgspec.convert(value, kind)
    except DAMAGE:
        pass
    raise damaged_row()


def damaged_row() -> StoreError:
    """The error for an unreadable row, without the row's content."""
    return StoreError(
        "A row of the conversations is damaged: it was changed by another program, or by the disk. "
        "Put back a backup, or export what can still be read.",
        reason="damaged",
    )
