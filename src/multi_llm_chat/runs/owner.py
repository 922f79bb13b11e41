"""The owner of a run: a process, named so that other processes of the same machine can see whether it still runs.

Rules:
1. A process is its machine, its number and the time at which it started. The machine is the boot id of its kernel and its PID
   namespace: two containers may have the same host name and the same process numbers, and neither sees the other's processes.
2. A process with the same number that started at another time is another process: the owner has ended.
3. On a system without a boot id (not Linux) the machine is its host name and network address, and start times are not compared.
4. Whether a process of another machine is alive cannot be seen: its lease decides.
"""

import os
import socket
from functools import lru_cache
from pathlib import Path
from uuid import getnode, uuid4


def new_owner() -> str:
    """A name for this process: machine, process number and start time, and a random part."""
    return f"{process_name(os.getpid())}:{uuid4().hex[:12]}"


def process_name(process: int) -> str:
    """The machine, the number and the start time of a process of this machine."""
    return f"{machine_name()}:{process}-{_start_of(process) or 0}"


@lru_cache(maxsize=1)
def machine_name() -> str:
    """The name of one set of process numbers: a booted kernel and a PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return f"{socket.gethostname()}-{getnode():x}".replace(":", "-")
    return f"{boot}-{namespace}"


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended."""
    machine, _, rest = owner.partition(":")
    number, _, start = rest.partition(":")[0].partition("-")
    if machine != machine_name() or not number.isdigit():
        return False
    process = int(number)
    if process == os.getpid() and start == _own_start(
        process
    ):  # called once a second for every open page
        return False
    return not _is_alive(process) or _is_another(process, start)


@lru_cache(maxsize=1)
def _own_start(process: int) -> str:
    """When this process started, in ticks; cached by process number, since a forked child has another one."""
    return str(_start_of(process) or 0)


def is_alive_here(owner: str) -> bool:
    """Whether the owner is a process of this machine that runs."""
    return owner.partition(":")[0] == machine_name() and not is_dead(owner)


def _is_another(process: int, start: str) -> bool:
    """Whether the process with this number started at another time."""
    known = _start_of(process)
    return known is not None and start.isdigit() and int(start) not in {0, known}


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    fields = _status(process)
    # A process that has ended and is not reaped; containers without an init process never reap any.
    return fields is None or fields[0] not in {"Z", "X"}


def _start_of(process: int) -> int | None:
    """When the process started, in ticks after the start of the machine; None if unknown."""
    fields = _status(process)
    return int(fields[19]) if fields is not None else None


def _status(process: int) -> list[str] | None:
    """The fields of ``/proc/PID/stat`` after the name of the program, from the state on (proc(5))."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # no /proc, or the process ended just now: the lease decides
    fields = status.rpartition(")")[2].split()
    return fields if len(fields) > 19 else None
