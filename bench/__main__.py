"""Run the benchmarks; exit with 1 and name every limit that was exceeded.

    python -m bench [NAME …] [--json FILE]
    python -m bench --quick [--record]     ratios only, against bench/recorded.json, in two minutes
    python -m bench --page                 every group; the figures go to docs/benchmarks

The peers are measured by ``python -m bench.peers``, and compared by ``python -m bench.compare``.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from bench import page, quick
from bench.measuring import Result, fresh, run_group
from bench.where import PAGE, load, machine

GROUPS = (
    "growth",
    "startup",
    "requests",
    "streaming",
    "memory",
    "cancel",
    "terminal",
    "agent_tools",
    "store",
    "journal",
    "web",
    "sessions",
    "faults",
)


def main() -> int:
    """Measure the named groups, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(GROUPS))
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="ratios only, against recorded ones")
    parser.add_argument("--record", action="store_true", help="with --quick: record the ratios")
    parser.add_argument("--page", action="store_true", help="write the figures to docs/benchmarks")
    options = parser.parse_args()
    if options.quick:
        return quick.run(options.record)
    names: list[str] = options.names or list(GROUPS)
    if unknown := set(names) - set(GROUPS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are: {', '.join(GROUPS)}")
    where = machine()
    print("\n".join(f"{key:<8} {value}" for key, value in where.items()), flush=True)
    results: dict[str, Result] = {}
    for name in names:
        results[name] = fresh(run_group, name)
        print(results[name], flush=True)
    figures = msgspec.json.encode({"where": where | {"load": load()}, "groups": results})
    if options.json is not None:
        options.json.write_bytes(figures)
    if options.page:
        (PAGE / "own.json").write_bytes(msgspec.json.format(figures, indent=1) + b"\n")
        page.write()
    failures = [f"{name}: {failure}" for name in names for failure in results[name].failures]
    for failure in failures:
        print(f"over the limit: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
