"""What may be read: files below the given folders, and nothing else.

Rules:
1. A root is an existing folder. The whole disk, the home folder and what contains it, folders of the
   system and folders of secrets are refused, unless explicitly allowed.
2. A path is resolved, links and ``..`` included, and must then be inside a root. It is opened step by step
   from the root without following links, so that a link put there in between leads nowhere.
3. Only regular files and folders are opened: never devices, pipes or sockets.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from multi_llm_chat.errors import UsageError

#: Refused with everything below.
_SYSTEM: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin",
    "/sys", "/usr", "/System", "/Library", "/private/etc", "C:/Windows", "C:/Program Files",
    "C:/Program Files (x86)", "C:/ProgramData",
)  # fmt: skip
#: Refused themselves; projects live below them.
_CROWDED: Final = (
    "/home", "/root", "/Users", "/var", "/var/lib", "/var/log", "/private", "/private/var", "/opt", "/srv",
    "/mnt", "/media", "/Volumes", "/Applications", "C:/Users",
)  # fmt: skip
#: Refused with everything below, in the home folder.
_SECRETS: Final = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".password-store",
    ".local/share/keyrings", "Library/Keychains", ".mozilla", ".config/google-chrome",
)  # fmt: skip
_FOLLOW_NOTHING: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = getattr(os, "O_DIRECTORY", 0)
_NEVER_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_STEPWISE: Final = os.open in os.supports_dir_fd and bool(_FOLLOW_NOTHING)


class NotAllowed(UsageError):
    """The path is outside of the roots, or not a file or folder."""


class Roots:
    """The folders below which everything may be read.

    Args:
        folders: At least one.
        home: The user's home folder.
        allow_any: Take also those that are refused for being too much.

    Raises:
        UsageError: One is no folder, or too much.
    """

    def __init__(
        self, folders: Sequence[str | Path], *, home: Path | None = None, allow_any: bool = False
    ) -> None:
        if not folders:
            raise UsageError("name at least one folder that may be read")
        self.folders = tuple(Path(os.path.realpath(folder)) for folder in folders)
        for given, folder in zip(folders, self.folders, strict=True):
            if not folder.is_dir():
                raise UsageError(f"{given} is not a folder")
            if not allow_any:
                _require_modest(folder, Path(os.path.realpath(home or Path.home())))

    def resolve(self, path: str) -> tuple[Path, Path]:
        """The root and the path inside of it, without links; a relative path starts at the first root.

        Raises:
            NotAllowed: It leads elsewhere.
        """
        if "\0" in path:
            raise NotAllowed("a path cannot contain a zero byte")
        real = Path(os.path.realpath(self.folders[0] / path))
        for root in self.folders:
            if real.is_relative_to(root):
                return root, real.relative_to(root)
        raise NotAllowed(f"{path} is outside of the folders that may be read")

    def open(self, path: str, *, folder: bool = False) -> int:
        """A descriptor of the file or folder; the caller closes it.

        Raises:
            NotAllowed: It is outside, or of another kind.
            OSError: It is not there, or cannot be read.
        """
        root, inside = self.resolve(path)
        descriptor = open_inside(root, inside)
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
            os.close(descriptor)
            raise NotAllowed(f"{path} is not a {'folder' if folder else 'regular file'}")
        return descriptor


def _require_modest(folder: Path, home: Path) -> None:
    below = [Path(place) for place in _SYSTEM] + [home / place for place in _SECRETS]
    too_much = (
        folder == Path(folder.anchor)
        or home.is_relative_to(folder)
        or folder in {Path(place) for place in _CROWDED}
        or any(folder.is_relative_to(os.path.realpath(place)) for place in below)
    )
    if too_much:
        raise UsageError(
            f"{folder} is too much to hand over (a disk, a home folder, the system or secrets); "
            "name a folder inside, or pass --allow-any-root"
        )


def open_inside(root: Path, inside: Path) -> int:
    """A descriptor of what ``resolve`` found, opened step by step without following any link."""
    if not _STEPWISE:  # Windows: the resolved path has to do
        return os.open(root / inside, os.O_RDONLY | _BINARY)
    descriptor = os.open(root, os.O_RDONLY | _FOLDER)
    for position, step in enumerate(inside.parts, start=1):
        kind = _FOLDER if position < len(inside.parts) else _NEVER_WAIT
        try:
            following = os.open(step, os.O_RDONLY | _FOLLOW_NOTHING | kind, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = following
    return descriptor
