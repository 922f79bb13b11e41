"""The owner of a run: a process, named so that other processes of the same machine can see whether it still runs."""

import os
import socket
from pathlib import Path
from uuid import uuid4


def new_owner() -> str:
    """A name for this process: machine, process number, and a random part."""
    return f"{host_name()}:{os.getpid()}:{uuid4().hex[:12]}"


def host_name() -> str:
    """The name of this machine."""
    return socket.gethostname().replace(":", "-")


def is_dead(owner: str) -> bool:
    """Whether the owner was a process of this machine that has ended."""
    host, _, rest = owner.partition(":")
    number = rest.partition(":")[0]
    return host == host_name() and number.isdigit() and not _is_alive(int(number))


def is_alive_here(owner: str) -> bool:
    """Whether the owner is a process of this machine that runs."""
    return owner.partition(":")[0] == host_name() and not is_dead(owner)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(process)


def _is_zombie(process: int) -> bool:
    """Whether the process has ended and its parent has not reaped it; in containers without an init none ever is."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False  # no /proc, or the process ended just now: the lease decides
    return status.rpartition(")")[2].split()[:1] in (["Z"], ["X"])
