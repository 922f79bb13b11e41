"""Fifty concurrent streams over faulty connections, for any length of time: nothing may leak.

    python -m tests.soak.soak [SECONDS] [SEED]

Half of the streams are read by threads, half by tasks. They are read to their end, closed early,
stopped from another thread or cancelled with their task. Rules:

1. Whatever the server does, the request ends within a time limit, with an answer or an error that names the server's fault.
2. No reply contains a word of another one.
3. In the end there are as many threads and open files as before, and no task.
4. The last third of the time needs no more memory than the first, with a tolerance of a tenth.
"""

import asyncio
import ctypes
import faulthandler
import gc
import os
import resource
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from tests.soak.trouble import Trouble
from tests.soak.workers import Tally, Worker

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.http import Timeouts
from multi_llm_chat.http.transports import Breaker
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.testing.simulator import Simulator

THREADS = 25
TASKS = 25
SECONDS = 300.0
GROWTH = 1.1

#: How long a server may be silent, and how long a request may take: three attempts, with a large margin.
SILENCE = 2.0
LONGEST = 60.0

#: The warm-up in which caches, pools and arenas reach their size; it is not compared.
WARMING = 0.1


class Report(Struct):
    """The results of a soak; ``faults`` is empty if all is well."""

    seconds: float
    outcomes: Counter[str]
    memory: list[int]
    faults: list[str]

    @property
    def growth(self) -> float:
        """The ratio of the memory of the last third to that of the first."""
        warm = self.memory[int(len(self.memory) * WARMING) :]
        third = max(1, len(warm) // 3)
        return statistics.median(warm[-third:]) / statistics.median(warm[:third])

    def __str__(self) -> str:
        counted = ", ".join(f"{name} {count:,}" for name, count in self.outcomes.most_common())
        tenths = self.memory[:: max(1, len(self.memory) // 10)]
        lines = [
            f"{self.outcomes.total():,} questions in {self.seconds:.0f} s: {counted}",
            f"memory in MB: {' '.join(f'{size / 2**20:.1f}' for size in tenths)}; "
            f"last third over first x{self.growth:.3f}",
            *self.faults,
        ]
        return "\n".join(lines)


def soak(seconds: float, seed: int = 1) -> Report:
    """Send requests for so many seconds; the report lists all faults."""
    _run(0.5, seed)  # everything that is opened only once
    before = _held()
    report = _run(seconds, seed)
    after = _held()
    report.faults += [
        f"{name}: {before[name]} before, {count} after"
        for name, count in after.items()
        if count > before[name]
    ]
    if report.growth > GROWTH:
        report.faults.append(f"memory grew {report.growth:.2f} times")
    return report


def _held() -> dict[str, int]:
    gc.collect()
    return {"open files": len(os.listdir("/proc/self/fd")), "threads": threading.active_count()}


def _run(seconds: float, seed: int) -> Report:
    began = time.monotonic()
    tally, memory = Tally(), list[int]()
    with Simulator(Trouble(seed)) as simulator:
        providers = [_provider(name, simulator) for name in ROWS]
        workers = [
            Worker(f"asker-{number}", providers, tally, seed=seed, deadline=began + seconds)
            for number in range(THREADS + TASKS)
        ]
        jobs: list[Callable[[], None]] = [worker.run for worker in workers[:THREADS]]
        jobs.append(lambda: asyncio.run(_tasks(workers[THREADS:], providers)))
        # Daemons: one that hangs is reported, and must not keep the process alive.
        threads = [
            threading.Thread(target=_guarded, args=(job, tally), daemon=True) for job in jobs
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(min(0.25, seconds / 8))
            memory.append(_resident())
            simulator.requests.clear()
            _watch(workers)
        for provider in providers:
            provider.close()
    return Report(time.monotonic() - began, tally.outcomes, memory, tally.faults)


def _provider(name: str, simulator: Simulator) -> LLMProvider:
    return create_provider(
        name,
        api_key="k",
        base_url=simulator.base_url(name),
        retry=RetryPolicy(attempts=3, first_wait=0.01),
        breaker=Breaker(threshold=10**9),
        timeouts=Timeouts(read=SILENCE),
    )


def _guarded(job: Callable[[], None], tally: Tally) -> None:
    try:
        job()
    except Exception as failure:  # noqa: BLE001  any failure is reported
        tally.faults.append(f"unexpected: {failure!r}")


async def _tasks(workers: list[Worker], providers: list[LLMProvider]) -> None:
    async with asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(worker.run_async())
    for provider in providers:
        await provider.aclose()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks are left: {left}"


def _watch(workers: list[Worker]) -> None:
    """Give up when a worker has waited for too long."""
    if time.monotonic() - min(worker.since for worker in workers) > LONGEST:
        faulthandler.dump_traceback(all_threads=True)
        raise TimeoutError(f"A question takes more than {LONGEST:.0f} seconds")


def _resident() -> int:
    """Return the memory in use, after the allocator has released the free memory of its threads."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def main() -> int:
    """Print the counts; return 1 if anything was wrong."""
    given = sys.argv[1:]
    report = soak(float(given[0]) if given else SECONDS, int(given[1]) if given[1:] else 1)
    print(report)  # noqa: T201
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
