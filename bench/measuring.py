"""Measure CPU time so that a busy machine does not spoil it: minima over interleaved rounds."""

import time
from collections.abc import Callable, Mapping


def cpu_minima(tasks: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """The least CPU seconds each task took; tasks take turns, so that all meet the same machine."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            before = time.process_time()
            task()
            best[name] = min(best[name], time.process_time() - before)
    return best


def show(title: str, rows: Mapping[str, str]) -> None:
    """Print one group of results."""
    print(f"\n{title}")
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"  {name:<{width}}  {value}")
