"""Measure ours, the limit and every peer; write ``.bench/peers.json``, its summary in ``docs/benchmarks`` and the page.

python -m bench.peers [--only GROUP …] [--contenders NAME …] [--patience SECONDS]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import page, summary
from bench.peers import groups
from bench.peers.environments import LIMIT, OURS, PEERS, make, versions
from bench.peers.field import PATIENCE, Contestant, Measured, field, measure
from bench.where import PAGE, load, machine

#: The server must be this many times as fast as the fastest contender; otherwise the benchmark measures the server.
LEAST_SERVER_RATIO = 3.0


def _running(
    contestants: list[Contestant], urls: dict[str, str], only: list[str], patience: float
) -> Iterator[tuple[groups.Column, dict[str, Measured]]]:
    known: dict[str, dict[str, Measured]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for column in groups.columns(urls, Path(folder)):
            if only and column.group not in only:
                continue
            key = json.dumps(column.job, sort_keys=True)
            if key not in known:
                known[key] = measure(contestants, column.job, column.rounds, patience)
            yield column, known[key]
    if not only or "store" in only:
        yield groups.appending(contestants)


def _all(
    urls: dict[str, str], only: list[str], names: list[str] | None, patience: float
) -> Iterator[tuple[groups.Column, dict[str, Measured]]]:
    with field(names) as contestants:
        yield from _running(contestants, urls, only, patience)
    if not only or "memory" in only:
        yield from groups.memory(urls)
    if not only or {"import", "cold start"} & set(only):
        yield from groups.starts(urls)


def _written(column: groups.Column, found: dict[str, Measured]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, one in found.items():
        if one.failure:
            cells[name] = {"failure": one.failure}
            continue
        raw = {"cpu": one.cpu, "wall": one.wall, **one.more}[column.figure]
        cells[name] = {"value": (raw or 0.0) * column.scale, "noise": one.noise}
    return {
        "group": column.group,
        "title": column.title,
        "unit": column.unit,
        "figure": column.figure,
        "cells": cells,
    }


def _shown(written: dict[str, Any]) -> str:
    values = [
        f"{name} {cell['value']:.2f}" for name, cell in written["cells"].items() if "value" in cell
    ]
    return f"{written['group']}: {written['title']}, {written['unit']}: {', '.join(values)}"


class Book:
    """The results so far, saved after every column: an interrupted run loses nothing."""

    def __init__(self, failures: dict[str, str], floor: float) -> None:
        self._failures = failures
        self._floor = floor * 1e6
        self._began = load()
        self._columns: list[dict[str, Any]] = []
        self._versions = {
            peer.name: versions(peer) for peer in (OURS, LIMIT, *PEERS) if peer.name not in failures
        }
        #: How many times as fast as the fastest contender the server is.
        self.server_ratio = float("inf")

    def add(self, column: dict[str, Any]) -> None:
        """Add a column; it replaces an older one of the same task."""
        self._columns.append(column)
        today = time.strftime("%Y-%m-%d", time.gmtime())
        raw: dict[str, Any] = {
            "where": machine()
            | {"date": today, "load": f"{self._began} at first, {load()} at last"},
            "versions": self._versions,
            "not installed": self._failures,
            "server": {"µs a delta": self._floor},
            "columns": self._columns,
        }
        summary.write_raw("peers.json", raw)
        file = PAGE / "peers.json"
        # Read again each time: another run may have written the file.
        found = summary.of_peers(raw, summary.read(file))
        self.server_ratio = found["server"]["times faster than the fastest"]
        summary.write(file, found)


def main() -> int:
    """Measure everything, or only the requested groups; all other groups keep their earlier figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="GROUP")
    parser.add_argument("--contenders", nargs="+", metavar="NAME")
    parser.add_argument("--patience", type=float, default=PATIENCE, metavar="SECONDS", help="slower contenders get two rounds")  # fmt: skip
    options = parser.parse_args()
    failures = {peer.name: error for peer in PEERS if (error := make(peer)) is not None}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        urls = json.loads(server.stdout.readline())
        book = Book(failures, groups.server_speed(urls))
        for column, found in _all(urls, options.only, options.contenders, options.patience):
            written = _written(column, found)
            book.add(written)
            print(_shown(written), flush=True)
        server.communicate()
    page.write()
    print(f"the server is {book.server_ratio:.1f} times as fast as the fastest contender")
    if book.server_ratio < LEAST_SERVER_RATIO:
        print("the server is too slow: these figures measure it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
