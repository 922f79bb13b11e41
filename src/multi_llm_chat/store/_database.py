"""Open a store and run operations on it.

Rules:
1. ``run`` blocks, ``arun`` does not block the event loop; both run the very same operations.
2. When either returns, the transaction is committed.
3. A read-only file can be opened, too: reading works, and each write raises a ``StoreError`` with the reason ``read-only``.
4. A store belongs to one user; ``as_user`` gives another user's view through the same connections.
"""

import asyncio
from concurrent.futures import Future
from importlib import import_module
from os import PathLike, fspath
from os.path import isfile
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, Self, TypeVar
from urllib.parse import unquote

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.store.executor import (
    TOGETHER,
    DatabaseEngine,
    Job,
    NotificationListener,
    StoreExecutor,
)
from multi_llm_chat.store.sqlite import MEMORY, SQLiteEngine
from multi_llm_chat.store.transaction import Operation, Transaction, only_reads

P = ParamSpec("P")
R = TypeVar("R")

#: The user of a program with only one user.
LOCAL_USER = "local"

#: The most connections of a store: for reading a file, and to Postgres for each purpose.
READING_CONNECTIONS = 2
POSTGRES_CONNECTIONS = 3


class Store:
    """Conversations of one user; close it, or use it in a ``with`` statement."""

    def __init__(self, writing: StoreExecutor, reading: StoreExecutor, user: str) -> None:
        self._writing = writing
        self._reading = reading
        self.user = user

    @property
    def file(self) -> Path | None:
        """The path of the SQLite file; None for another kind of store."""
        return self._writing.file

    def listen(self, channel: str) -> NotificationListener | None:
        """Listen to a channel; None if the database has no notifications."""
        return self._reading.listen(channel)

    def run(self, operation: Operation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run an operation in one transaction; return its result after the commit."""
        return self.submit(operation, *args, **kwargs).result()

    async def arun(self, operation: Operation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Like ``run``, to be awaited. An operation that has started is finished even if its caller is cancelled."""
        return await asyncio.wrap_future(self.submit(operation, *args, **kwargs))

    def as_user(self, user: str) -> "Store":
        """The store of another user, on the same connections; closed together with this store."""
        return Store(self._writing, self._reading, _checked(user))

    def close(self) -> None:
        """Finish started operations and close the connections; a second call does nothing."""
        self._reading.close()
        self._writing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def submit(
        self, operation: Operation[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> "Future[R]":
        """Run an operation in the background; return the future of its result."""
        job = Job(lambda transaction: operation(transaction, *args, **kwargs), self.user)
        (self._reading if only_reads(operation) else self._writing).submit(job)
        return job.future


def open_store(place: str | PathLike[str], *, user: str = LOCAL_USER) -> Store:
    """Open a store: an SQLite file, which is created if it does not exist, ``:memory:``, or a Postgres address.

    Args:
        place: a path, ``sqlite:///path``, ``:memory:``, or ``postgresql://user:password@host/database``.
        user: whose conversations they are.

    Raises:
        StoreError: The store cannot be opened; the text says why and what to do.
    """
    user = _checked(user)
    writing, reading = _executors(fspath(place))
    store = Store(writing, reading, user)
    try:
        writing.submit(job := Job(_nothing, user))
        job.future.result()
    except StoreError as error:
        if error.reason not in {"read-only", "unreachable"} or not _is_readable(reading, user):
            store.close()
            raise
    except BaseException:
        store.close()
        raise
    return store


def _is_readable(reading: StoreExecutor, user: str) -> bool:
    """Whether the file can be read although it cannot be written; each write then raises an error with the reason."""
    if reading.file is None or not isfile(reading.file):
        return False
    reading.submit(job := Job(_read_something, user))
    return job.future.exception() is None


def _executors(place: str) -> tuple[StoreExecutor, StoreExecutor]:
    scheme, separator, rest = place.partition("://")
    match scheme if separator else "":
        case "postgresql" | "postgres":
            writing, reading = _postgres(place)
            connections = POSTGRES_CONNECTIONS
            return StoreExecutor(writing, threads=connections), StoreExecutor(
                reading, threads=connections
            )
        case "sqlite":
            path = unquote(rest.removeprefix("/")) or MEMORY
        case "":
            path = place
        case _:
            raise UsageError(
                f"Conversations cannot be stored in a place of the kind {scheme!r}. "
                "Give a path, sqlite:///path, :memory: or postgresql://…"
            )
    if not path:
        raise UsageError("The place of the conversations is empty. Give a path, or :memory:.")
    writing = StoreExecutor(SQLiteEngine(path), threads=1, together=TOGETHER)
    if path == MEMORY:
        return writing, writing
    return writing, StoreExecutor(SQLiteEngine(path, reads_only=True), threads=READING_CONNECTIONS)


def _postgres(address: str) -> tuple[DatabaseEngine, DatabaseEngine]:
    # psycopg is an extra, and takes long to import: it is imported on first use.
    try:
        module = import_module("multi_llm_chat.store.postgres")
    except ImportError as error:
        raise StoreError(
            "Conversations in Postgres need psycopg. Install it: pip install 'multi_llm_chat[postgres]'",
            reason="unreachable",
        ) from error
    return module.PostgresEngine(address), module.PostgresEngine(address, reads_only=True)


def _nothing(transaction: Transaction) -> None:
    """Do nothing: running any operation opens the connection, which creates or migrates the store."""


def _read_something(transaction: Transaction) -> None:
    transaction.rows("SELECT 1 FROM conversations LIMIT 1")


def _checked(user: str) -> str:
    if user != clean_text(user):
        raise UsageError("The name of a user must be text without NUL and half characters.")
    return user
