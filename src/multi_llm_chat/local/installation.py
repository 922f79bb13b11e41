"""What ``mlc local install|use|list`` do.

Rules:
1. Installing what is there already, unharmed, changes nothing.
2. A harmed file is replaced, and stays in its place until the good one is there.
3. Only what can be used can be chosen.
"""

from pathlib import Path

from msgspec import Struct

from multi_llm_chat.errors import UsageError
from multi_llm_chat.local.catalogue import DEFAULT_MODEL, KNOWN_MODELS, ModelRow
from multi_llm_chat.local.download import Progress, Watch, digest, fetch
from multi_llm_chat.local.locations import (
    Located,
    installed,
    locate,
    models_folder,
    wanted,
    write_choice,
)


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
    progress: Watch | None = None,
    folder: Path | None = None,
) -> Path:
    """Install a known model; its file's path is returned.

    Args:
        name: A known model's name, or a row of one's own.
        progress: Told how far it is.
        folder: Where installed models are kept, if not in the platform's data folder.

    Raises:
        UsageError: The name is not known.
        ProviderError: It cannot be had; ``code`` tells why in one word, the text what to do.
    """
    row = KNOWN_MODELS.get(name) if isinstance(name, str) else name
    if row is None:
        raise UsageError(
            f"There is no local model named {name!r}; known are: {', '.join(KNOWN_MODELS)}. "
            "A GGUF file is not installed but used: mlc local use FILE."
        )
    watch = progress or _unwatched
    path = models_folder(folder) / f"{row.name}.gguf"
    if not (path.is_file() and digest(path, watch) == row.sha256):
        fetch(row, path, watch)
    return path


def use(name_or_path: str | Path, *, folder: Path | None = None) -> Located:
    """Choose the model for the next time: an installed one by name, or any GGUF file by path."""
    located = locate(name_or_path, folder=folder)
    installed(located)
    write_choice(located, folder)
    return located


def list_models(*, folder: Path | None = None) -> tuple[ListedModel, ...]:
    """The known models, and the chosen file if it is none of them."""
    home = models_folder(folder)
    chosen = wanted(folder=home) or DEFAULT_MODEL
    known = [_listed(locate(name, folder=home), chosen == name) for name in KNOWN_MODELS]
    if chosen in KNOWN_MODELS or not Path(chosen).expanduser().is_file():
        return tuple(known)
    return (*known, _listed(locate(chosen, folder=home), True))


def _listed(located: Located, is_chosen: bool) -> ListedModel:
    row, path = located.row, located.path
    return ListedModel(row.name, row.title, row.size, row.licence, path, path.is_file(), is_chosen)


def _unwatched(_: Progress) -> None:
    """Nobody watches."""
