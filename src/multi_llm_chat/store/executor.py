"""The threads of a store, which run each operation in a transaction.

Rules:
1. Only the thread that opened a connection uses it.
2. The caller gets the result only after the commit.
3. Jobs that wait at the same time may share a commit, each in its own savepoint; if that fails for any reason but an error of the
   operations themselves, each job runs alone.
4. A transient failure is retried for as long as its ``DatabaseFault`` allows, at random intervals, so that no process always loses the
   race. After any other failure the connection is closed; the next operation opens a new one.
5. A transaction that writes checks first that no newer program has migrated the store.
6. Jobs submitted before ``close`` are still run; after ``close``, failures are retried for at most ``CLOSING`` seconds.
"""

import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any, Protocol

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.store._database_faults import DatabaseFault
from multi_llm_chat.store._tables import check_version
from multi_llm_chat.store.transaction import DatabaseConnection, OperationContext, Transaction

#: The most operations that share a commit.
TOGETHER = 64

#: For how many seconds a closing executor retries.
CLOSING = 2.0

#: The shortest and the longest pause between two retries, in seconds.
PAUSE = (0.0005, 0.005)


class NotificationListener(Protocol):
    """Receives the notifications of one channel of the database."""

    def wait(self, timeout: float) -> list[str]:
        """The notifications, after ``timeout`` seconds at most."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class DatabaseEngine(Protocol):
    """Opens connections to one database, and classifies its failures."""

    place: str
    file: Path | None
    errors: tuple[type[Exception], ...]
    begin: str
    #: Seconds between two checks of the store's version; None for a read-only engine.
    checks_every: float | None

    def connect(self) -> DatabaseConnection:
        """Open a connection to a store of the current version."""
        ...

    def fault(self, error: Exception) -> tuple[DatabaseFault, str]:
        """The kind of a failure, and the database's name for it."""
        ...

    def listen(self, channel: str) -> NotificationListener | None:
        """Listen to a channel; None if the database has no notifications."""
        ...


class Job:
    """A submitted operation, and the future of its result."""

    __slots__ = ("context", "future", "operation", "user")

    def __init__(self, operation: Callable[[Transaction], Any], user: str) -> None:
        self.operation = operation
        self.user = user
        self.context = OperationContext()
        self.future: Future[Any] = Future()

    def attempt(self, connection: DatabaseConnection) -> Any:
        """Run the operation on the connection; the caller begins and ends the transaction."""
        self.context.restart()
        return self.operation(Transaction(connection, self.user, self.context))


class StoreExecutor:
    """Threads with one connection each, and the queue of their jobs."""

    def __init__(self, engine: DatabaseEngine, *, threads: int, together: int = 1) -> None:
        self._engine = engine
        self._together = together
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._lock = Lock()
        self._closed = False
        self._retry_deadline = RetryDeadline()
        self._process = os.getpid()
        self._threads = [
            Thread(target=self._work, name="multi_llm_chat store", daemon=True)
            for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def file(self) -> Path | None:
        """The path of the file, if the database is a file."""
        return self._engine.file

    def listen(self, channel: str) -> NotificationListener | None:
        """Listen to a channel; None if the database has no notifications.

        Raises:
            ConnectionError: The database cannot be reached.
        """
        try:
            return self._engine.listen(channel)
        except self._engine.errors:
            pass
        raise ConnectionError("The database cannot be reached.")

    def submit(self, job: Job) -> None:
        """Queue the job."""
        if current_thread() in self._threads:
            raise UsageError("Within a transaction call the operation itself, not the store.")
        if os.getpid() != self._process:
            raise StoreError(
                "The store was opened by another process. Open it in this one.", reason="closed"
            )
        with self._lock:
            if self._closed:
                raise StoreError("The store is closed. Open it again.", reason="closed")
            self._waiting.put(job)

    def close(self) -> None:
        """Finish the submitted jobs, and end the threads."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._retry_deadline.end_soon()
                for _ in self._threads:
                    self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        worker = _Worker(self._engine, self._retry_deadline)
        open_ = True
        while open_:
            jobs, open_ = self._take()
            worker.perform([job for job in jobs if job.future.set_running_or_notify_cancel()])
        worker.disconnect()

    def _take(self) -> tuple[list[Job], bool]:
        """Wait for a job, and take the other waiting ones; return False after the last one."""
        jobs: list[Job] = []
        job = self._waiting.get()
        try:
            while job is not None:
                jobs.append(job)
                if len(jobs) >= self._together:
                    return jobs, True
                job = self._waiting.get_nowait()
        except Empty:
            return jobs, True
        return jobs, False


class RetryDeadline:
    """The time limit for retries of transient failures; it is shorter while the executor closes."""

    def __init__(self) -> None:
        self._end: float | None = None

    def end_soon(self) -> None:
        """From now on, retry for at most ``CLOSING`` seconds."""
        self._end = time.monotonic() + CLOSING

    def lasts(self, elapsed: float, fault: DatabaseFault) -> bool:
        """Whether an operation that failed with this fault is retried."""
        is_late = self._end is not None and time.monotonic() > self._end
        return elapsed < fault.patience and not is_late


class _Worker:
    """One thread and its connection."""

    def __init__(self, engine: DatabaseEngine, retry_deadline: RetryDeadline) -> None:
        self._engine = engine
        self._retry_deadline = retry_deadline
        self._connection: DatabaseConnection | None = None
        self._checked_at = 0.0

    def perform(self, jobs: Sequence[Job]) -> None:
        if len(jobs) < 2 or not self._all_at_once(jobs):
            for job in jobs:
                self._alone(job)

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> DatabaseConnection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _begin(self) -> DatabaseConnection:
        connection = self._connected()
        connection.execute(self._engine.begin)
        pause = self._engine.checks_every
        if pause is not None and time.monotonic() - self._checked_at >= pause:
            check_version(connection, self._engine.place)
            self._checked_at = time.monotonic()
        return connection

    def _all_at_once(self, jobs: Sequence[Job]) -> bool:
        try:
            connection = self._begin()
            outcomes = [self._in_savepoint(connection, job) for job in jobs]
            connection.execute("COMMIT")
        except (StoreError, *self._engine.errors):
            self._roll_back()
            return False
        for job, (result, error) in zip(jobs, outcomes, strict=True):
            _settle(job, result, error)
        return True

    def _in_savepoint(
        self, connection: DatabaseConnection, job: Job
    ) -> tuple[Any, BaseException | None]:
        connection.execute("SAVEPOINT job")
        try:
            result = job.attempt(connection)
        except self._engine.errors:
            raise
        except BaseException as error:  # noqa: BLE001 it is the caller's, who gets it from the future
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            return None, error
        connection.execute("RELEASE job")
        return result, None

    def _alone(self, job: Job) -> None:
        began = time.monotonic()
        while True:
            result, error, again = self._try(job, time.monotonic() - began)
            if not again:
                # Outside of the ``except`` block: the error must not have the database's own error as its context.
                _settle(job, result, error)
                return
            time.sleep(random.uniform(*PAUSE))  # noqa: S311 fairness, not secrecy

    def _try(self, job: Job, elapsed: float) -> tuple[Any, BaseException | None, bool]:
        """Run the job once; return its result, its error, and whether to retry it."""
        try:
            connection = self._begin()
            result = job.attempt(connection)
            connection.execute("COMMIT")
        except self._engine.errors as error:
            fault, code = self._engine.fault(error)
        except BaseException as error:  # noqa: BLE001 it is the caller's, who gets it from the future
            self._roll_back()
            return None, error, False
        else:
            return result, None, False
        if fault.broken:
            self.disconnect()
        else:
            self._roll_back()
        if self._retry_deadline.lasts(elapsed, fault):
            return None, None, True
        return None, fault.error(self._engine.place, code), False

    def _roll_back(self) -> None:
        try:
            if self._connection is not None:
                self._connection.roll_back()
        except self._engine.errors:
            self.disconnect()


def _settle(job: Job, result: Any, error: BaseException | None) -> None:
    if error is None:
        job.future.set_result(result)
    else:
        job.future.set_exception(error)
