"""Run the benchmarks; exit with 1 and name every limit that was exceeded.

python -m bench [NAME …] [--json FILE]
"""

import argparse
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

import msgspec

from bench.measuring import Result, fresh, run_group

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
)
PACKAGES = ("aiohttp", "msgspec", "openai")


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), cpu)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "machine": f"{cpu}, {os.cpu_count()} cores, load {load}",
        "system": platform.platform(),
        "python": platform.python_version(),
    } | {package: version(package) for package in PACKAGES}


def main() -> int:
    """Measure the groups that were named, or all."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(GROUPS))
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there")
    told = parser.parse_args()
    names: list[str] = told.names or list(GROUPS)
    if unknown := set(names) - set(GROUPS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are: {', '.join(GROUPS)}")
    where = machine()
    print("\n".join(f"{key:<8} {value}" for key, value in where.items()), flush=True)
    results: dict[str, Result] = {}
    for name in names:
        results[name] = fresh(run_group, name)
        print(results[name], flush=True)
    if told.json is not None:
        told.json.write_bytes(msgspec.json.encode({"where": where, "groups": results}))
    failures = [f"{name}: {failure}" for name in names for failure in results[name].failures]
    for failure in failures:
        print(f"over the limit: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
