"""Reading files and folders below the given roots, within bounds.

Rules:
1. A root is an existing folder. The whole disk, the home folder and what contains it, folders of the
   system and folders of secrets are refused, unless explicitly allowed.
2. A path is resolved, links and ``..`` included, and must then be inside a root. It is opened step by step
   from the root without following links, so that a link put there in between leads nowhere.
3. Only regular files and folders are opened: never devices, pipes or sockets.
4. Every answer is bounded: bytes of a file, entries of a folder, files visited by a search. The answer says what was left out.
5. Paths in answers are relative to the first root if possible, else absolute; requests accept both.
"""

import fnmatch
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from multi_llm_chat.errors import UsageError

#: Refused with everything below.
_SYSTEM: Final = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin",
    "/sys", "/usr", "/System", "/Library", "/private/etc", "C:/Windows", "C:/Program Files",
    "C:/Program Files (x86)", "C:/ProgramData",
)  # fmt: skip
#: Refused themselves, because projects are below them.
_CROWDED: Final = (
    "/home", "/root", "/Users", "/var", "/var/lib", "/var/log", "/private", "/private/var", "/opt", "/srv",
    "/mnt", "/media", "/Volumes", "/Applications", "C:/Users",
)  # fmt: skip
#: Refused themselves, unless allowed; each folder below them belongs to one program.
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/private/tmp", "/private/var/tmp")  # noqa: S108 - refused, not used
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
        allow_any: Also accept folders that are refused because they contain too much.
        allow_tmp: Also accept the folder of temporary files.

    Raises:
        UsageError: One is not a folder, or contains too much.
    """

    def __init__(
        self,
        folders: Sequence[str | Path],
        *,
        home: Path | None = None,
        allow_any: bool = False,
        allow_tmp: bool = False,
    ) -> None:
        if not folders:
            raise UsageError("name at least one folder that may be read")
        self.folders = tuple(Path(os.path.realpath(folder)) for folder in folders)
        for given, folder in zip(folders, self.folders, strict=True):
            if not folder.is_dir():
                raise UsageError(f"{given} is not a folder")
            if not allow_any:
                _require_modest(folder, Path(os.path.realpath(home or Path.home())))
            if folder in _temporary() and not (allow_any or allow_tmp):
                raise UsageError(
                    f"{folder} holds the temporary files of all programs; name a folder inside, or pass --allow-tmp"
                )

    def resolve(self, path: str) -> tuple[Path, Path]:
        """The root and the path inside of it, without links; a relative path starts at the first root.

        Raises:
            NotAllowed: It leads out of the roots.
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
            NotAllowed: It is outside of the roots, or neither a file nor a folder.
            OSError: It does not exist, or cannot be read.
        """
        root, inside = self.resolve(path)
        descriptor = open_inside(root, inside)
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
            os.close(descriptor)
            raise NotAllowed(f"{path} is not a {'folder' if folder else 'regular file'}")
        return descriptor


def _temporary() -> set[Path]:
    """The folders of temporary files."""
    return {Path(os.path.realpath(place)) for place in (*_TEMPORARY, tempfile.gettempdir())}


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
            f"{folder} is too much to share (a disk, a home folder, the system or secrets); "
            "name a folder inside, or pass --allow-any-root"
        )


def open_inside(root: Path, inside: Path) -> int:
    """A descriptor of the path that ``resolve`` returned, opened step by step without following any link."""
    if not _STEPWISE:  # Windows cannot open it step by step: use the resolved path
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


# Reading.

READ_LIMIT: Final = 1_000_000
MOST_LINES: Final = 2_000
MOST_ENTRIES: Final = 1_000
MOST_HITS: Final = 200
MOST_VISITED: Final = 50_000
_SEARCHED_BYTES: Final = 1_000_000
_PICTURE_LIMIT: Final = 5_000_000
_PICTURES: Final = {
    ".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp",
}  # fmt: skip
_KINDS: Final = (
    (stat.S_ISLNK, "link"),
    (stat.S_ISDIR, "folder"),
    (stat.S_ISREG, "file"),
)


class ImageFile(Struct, frozen=True):
    """A picture's bytes."""

    data: bytes
    format: str


def read_file(
    roots: Roots, path: str, first_line: int = 1, lines: int = MOST_LINES
) -> str | ImageFile:
    """Lines of a text file, or a picture."""
    format_name = _PICTURES.get(Path(path).suffix.lower())
    limit = READ_LIMIT if format_name is None else _PICTURE_LIMIT
    data = _bytes(roots, path, limit)
    if format_name is not None:
        if len(data) > limit:
            raise NotAllowed(f"{path} is a picture of more than {limit:,} bytes")
        return ImageFile(data, format_name)
    if b"\0" in data[:8192]:
        raise NotAllowed(f"{path} is not a text file")
    text = data[:limit].decode(errors="replace").splitlines()
    start = max(1, first_line) - 1
    shown = text[start : start + max(1, min(lines, MOST_LINES))]
    rest = len(text) - start - len(shown)
    notes = [f"[{rest} more lines]"] if rest > 0 else []
    if len(data) > limit:
        notes.append(f"[only the first {limit:,} bytes were read]")
    return "\n".join(shown + notes)


def list_directory(roots: Roots, path: str = "") -> list[str]:
    """One line for each entry: its kind, its size, its name."""
    descriptor = roots.open(path, folder=True)
    try:
        folder = _listable(roots, path, descriptor)
        names = sorted(os.listdir(folder))
        entries = [_entry(folder, name) for name in names[:MOST_ENTRIES]]
    finally:
        os.close(descriptor)
    if len(names) > MOST_ENTRIES:
        entries.append(f"[{len(names) - MOST_ENTRIES} more entries]")
    if not path and len(roots.folders) > 1:
        entries += [f"other folder that may be read: {folder}" for folder in roots.folders[1:]]
    return entries


def search_files(roots: Roots, pattern: str = "*", path: str = "", text: str = "") -> list[str]:
    """Paths of files whose name fits the pattern and that contain the text."""
    hits: list[str] = []
    for visited, file in enumerate(_files(roots, path)):
        if visited >= MOST_VISITED:
            return [*hits, f"[stopped after {MOST_VISITED:,} files; search in a smaller folder]"]
        if not fnmatch.fnmatch(file.name, pattern):
            continue
        found = _hit(roots, file, text)
        if found is not None:
            hits.append(found)
        if len(hits) >= MOST_HITS:
            return [*hits, f"[stopped after {MOST_HITS} hits; be more specific]"]
    return hits


def file_info(roots: Roots, path: str) -> dict[str, str | int]:
    """Kind, size and time of the last change."""
    root, inside = roots.resolve(path)
    facts = os.lstat(root / inside)
    changed = datetime.fromtimestamp(facts.st_mtime, UTC).isoformat(timespec="seconds")
    return {
        "path": _shown(roots, root / inside),
        "kind": _kind(facts.st_mode),
        "size": facts.st_size,
        "changed": changed,
    }


def _bytes(roots: Roots, path: str, limit: int) -> bytes:
    with os.fdopen(roots.open(path), "rb") as file:
        return file.read(limit + 1)


def _listable(roots: Roots, path: str, descriptor: int) -> int | Path:
    """The argument for listing: the open descriptor if the system supports it, else the resolved path."""
    if os.listdir in os.supports_fd:
        return descriptor
    root, inside = roots.resolve(path)
    return root / inside


def _entry(folder: int | Path, name: str) -> str:
    try:
        if isinstance(folder, int):
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        else:
            facts = os.lstat(folder / name)
    except OSError:
        return f"gone    {name}"
    size = f"{facts.st_size:,} bytes" if stat.S_ISREG(facts.st_mode) else ""
    return f"{_kind(facts.st_mode):6}  {name}  {size}".rstrip()


def _kind(mode: int) -> str:
    return next((name for fits, name in _KINDS if fits(mode)), "other")


def _files(roots: Roots, path: str) -> Iterator[Path]:
    root, inside = roots.resolve(path)
    for folder, folders, files in os.walk(root / inside, followlinks=False):
        folders.sort()
        yield from (Path(folder) / name for name in sorted(files))


def _hit(roots: Roots, file: Path, text: str) -> str | None:
    shown = _shown(roots, file)
    if not text:
        return shown
    try:
        data = _bytes(roots, str(file), _SEARCHED_BYTES)
    except (OSError, NotAllowed):
        return None
    for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
        if text in line:
            return f"{shown}:{number}: {line.strip()[:200]}"
    return None


def _shown(roots: Roots, path: Path) -> str:
    first = roots.folders[0]
    return str(path.relative_to(first)) if path.is_relative_to(first) else str(path)
