"""Fifty sessions at a hundred tokens a second each through the persisted stream.

The benchmark appends every token to the run's lease; the group commit writes it to the store. The latency is the time from the append
until a follower receives the token. Followers in the writing process, such as those of a web page, receive committed events directly;
followers in other processes read them from the store. The writer's share is the CPU time of the collecting thread and of the
committing thread.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from bench.measuring import Result
from multi_llm_chat.events import RunFinished, TextDelta
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.runs.follow import follow
from multi_llm_chat.runs.leases import Lease, RunHost
from multi_llm_chat.store import Store, append, begin_run, create, open_store, take_run
from multi_llm_chat.store.transaction import Transaction

SESSIONS = 50
TOKENS_A_SECOND = 100
SECONDS = 10.0
LIMIT_MS = 150.0
LIMIT_CORES = 0.15


def _thread_cpu(transaction: Transaction) -> float:
    """Return the CPU seconds of the writing thread; it runs in that thread."""
    del transaction
    return time.thread_time()


def _begin(store: Store, number: int) -> str:
    conversation = store.run(create, f"Talk {number}").id
    store.run(append, conversation, [Turn("user", (Text("Go on."),), id="q")])
    return store.run(begin_run, conversation, "bench", base="q", spec={"version": 1})


async def _emit(leases: dict[str, Lease], until: float, sent: dict[str, list[float]]) -> None:
    """Emit a token of each session every ten milliseconds, catching up when the machine is late."""
    number = 0
    began = time.monotonic()
    while time.monotonic() < until:
        due = began + number / TOKENS_A_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        for run_id, moments in sent.items():
            moments.append(time.monotonic())
            leases[run_id].append([TextDelta(f"{number:>4} ")])
        number += 1
    for lease in leases.values():
        lease.append([RunFinished("answered")])


async def _follow(host: RunHost, run_id: str, received: list[float]) -> None:
    """Record when each token arrives; a token has five characters."""
    async for _, event in follow(host, run_id):
        if isinstance(event, TextDelta):
            now = time.monotonic()
            received.extend(now for _ in range(len(event.text) // 5))


async def _measure(store: Store, read: Store) -> tuple[list[float], float, float]:
    """Return the latencies in milliseconds, the writer's share of a core and the elapsed seconds; followers read from ``read``."""
    host = RunHost(store)
    reading = host if read is store else RunHost(read)
    leases: dict[str, Lease] = {}
    runs = [_begin(store, number) for number in range(SESSIONS)]
    sent: dict[str, list[float]] = {run_id: [] for run_id in runs}
    received: dict[str, list[float]] = {run_id: [] for run_id in runs}
    for run_id in runs:
        taken = store.run(take_run, run_id, host.owner, host.lease_ms)
        assert taken is not None
        leases[run_id] = Lease(host, taken.fence)
        leases[run_id].hold()
    commits = store.run(_thread_cpu)
    collects = host.cpu_seconds
    began = time.monotonic()
    until = began + SECONDS
    await asyncio.gather(
        _emit(leases, until, sent),
        *(_follow(reading, run_id, received[run_id]) for run_id in runs),
    )
    elapsed = time.monotonic() - began
    cpu = store.run(_thread_cpu) - commits + host.cpu_seconds - collects
    for lease in leases.values():
        lease.release()
    waits = [
        (arrived - left) * 1000
        for run_id in runs
        for left, arrived in zip(sent[run_id], received[run_id], strict=True)
    ]
    return waits, cpu / elapsed, elapsed


def run() -> Result:
    """Measure it on SQLite."""
    with (
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "c.db") as store,
        open_store(Path(folder) / "c.db") as second,
    ):
        waits, share, elapsed = asyncio.run(_measure(store, store))
        others, _, _ = asyncio.run(_measure(store, second))
    cuts = statistics.quantiles(waits, n=1000)
    p50, p99 = cuts[499], cuts[989]
    far = statistics.quantiles(others, n=1000)
    rate = len(waits) / elapsed
    failures: list[str] = []
    if p99 > LIMIT_MS:
        failures.append(f"p99 {p99:.0f} ms from end to end, allowed are {LIMIT_MS:.0f}")
    if share > LIMIT_CORES:
        failures.append(f"the writer takes {share:.2f} core, allowed are {LIMIT_CORES}")
    return Result(
        f"{SESSIONS} sessions x {TOKENS_A_SECOND} tokens/s through the persisted stream (SQLite)",
        {
            "tokens": f"{len(waits):,} ({rate:,.0f}/s)",
            "end to end, p50": f"{p50:.0f} ms",
            "end to end, p99": f"{p99:.0f} ms (limit {LIMIT_MS:.0f})",
            "longest": f"{max(waits):.0f} ms",
            "read in another process": f"p50 {far[499]:.0f} ms, p99 {far[989]:.0f} ms",
            "writer": f"{share:.3f} core (limit {LIMIT_CORES})",
        },
        {
            "p50_ms": p50,
            "p99_ms": p99,
            "elsewhere_p99_ms": far[989],
            "writer_cores": share,
            "tokens_a_second": rate,
        },
        failures,
    )
