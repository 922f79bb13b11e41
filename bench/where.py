"""The machine that figures were measured on, and where the figures are stored."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parents[1]
#: The page and its summaries.
PAGE = _ROOT / "docs" / "benchmarks"
#: The complete results of the last runs; not part of the repository.
RAW = _ROOT / ".bench"
PACKAGES = ("aiohttp", "msgspec", "openai")


def load() -> str:
    """Return the machine's load average."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def machine() -> dict[str, str]:
    """Describe the machine that the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), cpu)
    return {
        "machine": f"{cpu}, {os.cpu_count()} cores, load {load()}",
        "system": platform.platform(),
        "python": platform.python_version(),
    } | {package: version(package) for package in PACKAGES}
