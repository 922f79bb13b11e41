"""Small disks that only one process sees; they end with it.

A disk that becomes read-only while files are open on it is ext4 after an error: the kernel allows no further writes.
"""

import ctypes
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

_NEW_MOUNTS: Final = 0x00020000
_IMAGE_SIZE: Final = 24 * 2**20


def own_mounts() -> None:
    """Make all further mounts private to this process; call it before the process has another thread."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), "unshare")
    _run("mount", "--make-rprivate", "/")


def mount_small(folder: Path, size: int) -> None:
    """Mount a disk in memory."""
    folder.mkdir(exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))


def make_image(image: Path) -> None:
    """Create an empty disk in a file."""
    with image.open("wb") as file:
        file.truncate(_IMAGE_SIZE)
    _run("mkfs.ext4", "-q", str(image))


def mount_image(image: Path, folder: Path) -> None:
    """Mount the disk in the file."""
    folder.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", str(image), str(folder))


def break_disk(folder: Path) -> None:
    """Simulate a disk error: the disk is read-only from now on."""
    _run("mount", "-o", "remount,abort", str(folder))


def fill(file: Path) -> None:
    """Write until there is no space."""
    with file.open("wb", buffering=0) as written:
        for size in (65_536, 4_096, 1):
            try:
                while written.write(bytes(size)):
                    pass
            except OSError:
                continue


@contextmanager
def files_no_larger_than(size: int) -> Generator[Callable[[], None]]:
    """Limit the size of files to simulate a full disk; the yielded function lifts the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def lift() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield lift
    finally:
        lift()


@cache
def why_not(*programs: str) -> str | None:
    """Return why disks cannot be created here; None if they can."""
    if sys.platform != "linux" or os.geteuid():
        return "only root on Linux mounts disks"
    for program in ("unshare", "mount", *programs):
        if shutil.which(program) is None:
            return f"{program} was not found"
    trying = 'mount --make-rprivate / && mount -t tmpfs tmpfs "$0"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", trying, "/mnt"], capture_output=True)
    return None if done.returncode == 0 else "disks cannot be mounted here"


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
