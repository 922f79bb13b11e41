"""Real coding agents against ``mlc simulate``: ``make clients``; skipped where node, npm's packages or namespaces are missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.clients.session import CLIENTS, SECONDS, VARIABLE, Report

FOLDER = os.environ.get(VARIABLE)


def missing() -> str:
    """Return what is missing to run a client; empty if nothing is."""
    if not FOLDER:
        return f"{VARIABLE} names no folder of installed clients (make clients)"
    if shutil.which("node") is None:
        return "node is missing"
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return "unshare or ip is missing: clients run with loopback only"
    return ""


def namespace() -> list[str]:
    """Return the command prefix that runs a program with no network but its own loopback."""
    return ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_completes_a_task_with_two_rounds_of_tools(name: str) -> None:
    assert FOLDER is not None
    if not (Path(FOLDER) / "node_modules" / ".bin" / name).exists():
        pytest.skip(f"{name} is not installed in {FOLDER}")
    done = subprocess.run(
        [*namespace(), sys.executable, "-m", "tests.clients.session", name],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS + 60,
    )
    assert done.returncode == 0, done.stderr
    report = msgspec.json.decode(done.stdout, type=Report)
    assert report.note == "forty-two", report  # the first round wrote it
    assert "The note says:" in report.output, report
    assert "forty-two" in report.output, report  # the second round read it
    assert report.code == 0, report
