"""A real Postgres in a temporary folder, shared by all processes of one test run.

The first user starts it, the last one stops it. Postgres refuses to run as root, so then it runs as
another user.
"""

import fcntl
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

_SETTINGS = ("fsync=off", "listen_addresses=''", "max_connections=300", "shared_buffers=32MB")


def binaries() -> Path | None:
    """Return the folder of the newest Postgres on this machine, if there is one."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max(
        (path.parent for path in folders), key=lambda path: int(path.parent.name), default=None
    )


def unprivileged() -> int | None:
    """Return the unprivileged user that runs Postgres if this process is root; else None."""
    if os.getuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return 65534


def _call(*command: str) -> None:
    user = unprivileged()
    subprocess.run(
        command, check=True, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL, cwd="/", timeout=60, env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
    )  # fmt: skip


def start(folder: Path) -> str:
    """Create a database in the folder and serve it there; return its address."""
    programs = binaries()
    assert programs is not None
    if (user := unprivileged()) is not None:
        os.chown(folder, user, -1)
    data = folder / "data"
    _call(f"{programs}/initdb", "-D", f"{data}", "-U", "tester", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")  # fmt: skip
    options = " ".join(f"-c {setting}" for setting in _SETTINGS)
    _call(f"{programs}/pg_ctl", "-D", f"{data}", "-w", "-o", f"-k {folder} {options}", "-l", f"{folder}/log", "start")  # fmt: skip
    return f"postgresql://tester@/postgres?host={folder}"


def halt(folder: Path) -> None:
    """End the server as a crash would; its data stays."""
    _call(f"{binaries()}/pg_ctl", "-D", f"{folder / 'data'}", "-m", "immediate", "stop")


def start_again(folder: Path) -> None:
    """Start a server that was halted."""
    options = (folder / "data" / "postmaster.opts").read_text(encoding="utf-8").split(" ", 1)[1]
    _call(
        f"{binaries()}/pg_ctl", "-D", f"{folder / 'data'}", "-w", "-o", options.replace('"', ""),
        "-l", f"{folder}/log", "start",
    )  # fmt: skip


def restart(folder: Path, away: float = 0.0) -> None:
    """End the server as a crash would, and start it again after so many seconds."""
    if away:
        halt(folder)
        time.sleep(away)  # the tests wait for the server on purpose
        start_again(folder)
    else:
        control = (f"{binaries()}/pg_ctl", "-D", f"{folder / 'data'}")
        _call(*control, "-w", "-m", "immediate", "-l", f"{folder}/log", "restart")


def stop(folder: Path) -> None:
    """End the server and remove the folder."""
    _call(f"{binaries()}/pg_ctl", "-D", f"{folder / 'data'}", "-m", "immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server() -> Generator[str]:
    """Run a separate server."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        yield start(folder)
    finally:
        stop(folder)


@contextmanager
def shared_server(meeting: Path) -> Generator[str]:
    """Use the server that all processes with the same file share."""
    with _state(meeting) as (state, file):
        if not state:
            folder = tempfile.mkdtemp(prefix="pg-")
            state |= {"folder": folder, "address": start(Path(folder)), "users": 0}
        state["users"] += 1
        _write(file, state)
    try:
        yield state["address"]
    finally:
        with _state(meeting) as (state, file):
            state["users"] -= 1
            if not state["users"]:
                stop(Path(state["folder"]))
                state = {}
            _write(file, state)


@contextmanager
def _state(meeting: Path) -> Generator[tuple[dict[str, Any], TextIO]]:
    with meeting.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield json.loads(file.read() or "{}"), file


def _write(file: TextIO, state: dict[str, Any]) -> None:
    file.seek(0)
    file.truncate()
    file.write(json.dumps(state))
    file.flush()
