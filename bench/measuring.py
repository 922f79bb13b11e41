"""Measure robustly on a busy machine, and report the results."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Result(Struct):
    """One group: its table, the figures behind it, and every limit that was exceeded."""

    title: str
    rows: dict[str, str]
    figures: dict[str, Any]
    failures: list[str] = []

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        lines = [f"  {name:<{width}}  {value}" for name, value in self.rows.items()]
        return "\n".join(["", self.title, *lines])


def cpu_minima(tasks: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """Return the minimum CPU seconds of each task; the tasks alternate, so that all run under the same load."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(rounds):
        for name, task in tasks.items():
            before = time.process_time()
            task()
            best[name] = min(best[name], time.process_time() - before)
    return best


def run_group(name: str) -> Result:
    """Measure one group; defined here and not in ``__main__``, so that another process can import it."""
    return import_module(f"bench.{name}").run()


def fresh(function: Callable[..., T], *arguments: Any) -> T:
    """Call the function in a fresh process, unaffected by anything that ran before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
