"""The queue of runs for workers on many machines: a thin use of DBOS on Postgres.

Rules:
1. A workflow is permission to drive runs: it takes one run after the other from the store until none waits. The store and ``FairShares``
   decide which run is next, not the order of the queue. Our journal records the steps, not DBOS.
2. A workflow's id is the id and epoch of the run for which it was queued: queueing them twice queues one workflow.
3. DBOS has a database of its own. Nothing in it is needed once the queue is empty.
4. While the queue's database cannot be reached, a run stays in the store. Nothing waits for the queue: the watcher of
   orphaned runs queues it later.
5. A worker that is told to stop takes no more runs, finishes those it drives if there is time, and releases the rest.
"""

import asyncio
import contextlib
import logging
from typing import Any, Final

from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer

from multi_llm_chat.errors import StoreError
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.orphans import FairShares, watch_orphans
from multi_llm_chat.runs.recovery import PATIENCE, Resolve, drive_taken
from multi_llm_chat.store import Taken, take_run
from multi_llm_chat.store.runs import sign_off, waiting_runs
from multi_llm_chat.tools.threads import in_thread

APPLICATION: Final = "multi_llm_chat"
#: Never changed: newer programs resume the runs of older ones; ``RunSpec``'s version says whether they can.
APPLICATION_VERSION: Final = "1"
QUEUE: Final = "turns"
WORKFLOW: Final = "turn"
POLL: Final = 0.1
#: How many connections to the engine's database a process keeps at most.
CLIENT_CONNECTIONS: Final = 2
WORKER_CONNECTIONS: Final = 6
#: Seconds to release the runs that were not finished in time.
_GIVING_BACK: Final = 10

_LOGGER = logging.getLogger(__name__)


class DbosQueue:
    """The sending side of the queue: servers and the watcher of orphaned runs put runs into it."""

    def __init__(self, address: str) -> None:
        try:
            self._client = DBOSClient(
                system_database_url=address,
                serializer=DBOSPortableJSONSerializer(),
                application_name=APPLICATION,
                system_database_pool_size=CLIENT_CONNECTIONS,
                retry_connection_errors=False,
            )
        except Exception:  # noqa: BLE001 the library's error text may contain the address, and with it a password
            failure: StoreError | None = _unreachable()
        else:
            failure = None
        if failure is not None:
            raise failure

    def enqueue(self, run_id: str, epoch: int = 0, *, minute: int = 0) -> None:
        """Let a worker take a run; once for each epoch, and each minute in which no process drives the run.

        Raises:
            StoreError: The queue's database cannot be reached.
        """
        for _ in range(2):  # after a restart of the database, connections of the pool are closed
            with contextlib.suppress(Exception):  # the library's error text may contain the address
                self._enqueue(run_id, epoch, minute)
                return
        raise _unreachable()

    def _enqueue(self, run_id: str, epoch: int, minute: int) -> None:
        if minute and self._listed(run_id, epoch, status="ENQUEUED"):
            return  # it is only queued
        self._client.enqueue(
            {
                "workflow_name": WORKFLOW,
                "queue_name": QUEUE,
                "workflow_id": f"{run_id}@{epoch}" + (f".{minute}" if minute else ""),
                "app_version": APPLICATION_VERSION,
            },
            run_id,
        )

    def _listed(self, run_id: str, epoch: int, **conditions: Any) -> list[str]:
        """The queue's entries for a run in one epoch."""
        name = f"{run_id}@{epoch}"
        found = self._client.list_workflows(
            workflow_id_prefix=name, load_input=False, load_output=False, **conditions
        )
        listed = [each.workflow_id for each in found]
        return [each for each in listed if each == name or each.startswith(f"{name}.")]

    def close(self) -> None:
        """Close the connections."""
        self._client.destroy()


def migrate_engine(address: str) -> None:
    """Create or migrate the queue's database.

    Raises:
        StoreError: It cannot be reached.
    """
    try:
        DBOS.migrate(address)
    except Exception:  # noqa: BLE001 see above
        failure: StoreError | None = _unreachable()
    else:
        failure = None
    if failure is not None:
        raise failure


def _unreachable() -> StoreError:
    return StoreError(
        "The engine's database cannot be used. Check that the server runs, the address (--engine), the name and the "
        "password, and that it was prepared: mlc migrate",
        reason="unreachable",
    )


class Worker:
    """Drives runs from the queue, in this process."""

    def __init__(
        self, host: RunHost, address: str, resolve: Resolve, *, concurrency: int = 50
    ) -> None:
        self._host = host
        self._store = host.store
        self._address = address
        self._resolve = resolve
        self._concurrency = concurrency
        self._tasks: set[asyncio.Task[Any]] = set()
        self._shares = FairShares()
        self._taking = asyncio.Lock()
        self._is_ending = False

    @property
    def busy(self) -> int:
        """How many runs the worker drives."""
        return len(self._tasks)

    async def run(self, stop: asyncio.Event, *, drain: float = 30.0) -> None:
        """Drive runs until ``stop`` is set; then finish what can be finished within ``drain`` seconds."""
        self._launch()
        await DBOS.register_queue_async(
            QUEUE,
            worker_concurrency=self._concurrency,
            polling_interval_sec=POLL,
        )
        queue = await asyncio.to_thread(DbosQueue, self._address)
        watching = asyncio.create_task(watch_orphans(self._store, queue, self._host.owner))
        try:
            await stop.wait()
        finally:
            self._is_ending = True
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            await in_thread(queue.close, "queue")
            await self._drain(drain)
            with contextlib.suppress(StoreError):
                await self._store.arun(sign_off, self._host.owner)

    def _launch(self) -> None:
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": self._address,
                "sys_db_pool_size": WORKER_CONNECTIONS,
                "executor_id": self._host.owner,
                "application_version": APPLICATION_VERSION,
                "serializer": DBOSPortableJSONSerializer(),
                "max_executor_threads": self._concurrency + 8,
                "console_log_level": "ERROR",
                "run_migrations": False,
            }
        )

        @DBOS.workflow(name=WORKFLOW)
        async def turn(run_id: str) -> str:
            """Drive runs; ``run_id`` is the one for which the workflow was queued."""
            del run_id
            return await self._turn()

        del turn
        DBOS.launch()

    async def _turn(self) -> str:
        task = asyncio.ensure_future(self._drive())
        self._tasks.add(task)
        try:
            # A task of its own: only the draining worker cancels it, never DBOS.
            await asyncio.wait({task})
        finally:
            self._tasks.discard(task)
        if task.cancelled():
            return "given back"
        if (error := task.exception()) is not None:
            _LOGGER.error("a run could not be driven", exc_info=error)
            return "error"
        return "done"

    async def _drive(self) -> None:
        """Drive one run after the other, until none waits or the worker ends."""
        while not self._is_ending:
            try:
                taken = await self._take()
                if taken is None:
                    return
                await drive_taken(self._host, taken, self._resolve)
            except StoreError as error:
                # The workflow must not end before its run does: no process would queue the run again in this epoch.
                _LOGGER.warning("a run waits for the database: %s", error)
                await asyncio.sleep(PATIENCE)

    async def _take(self) -> Taken | None:
        """Take the next run; None if no run waits."""
        host = self._host
        async with self._taking:
            # Another worker may take the same run first: then choose again.
            while chosen := self._shares.choose(await self._store.arun(waiting_runs)):
                taken = await self._store.arun(take_run, chosen.id, host.owner, host.lease_ms)
                if taken is not None:
                    return taken
        return None

    async def _drain(self, seconds: float) -> None:
        """Take no more runs, wait for those that run, release the rest."""
        # ``destroy`` makes DBOS take no more workflows and wait for the running ones. It runs in a thread of our own,
        # because it shuts down the event loop's thread pool.
        patience = int(seconds) + _GIVING_BACK
        ending = asyncio.create_task(
            in_thread(lambda: DBOS.destroy(workflow_completion_timeout_sec=patience), "drain")
        )
        await asyncio.wait({ending}, timeout=seconds)
        for task in set(self._tasks):
            task.cancel()
        await ending
