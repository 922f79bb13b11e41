"""Finds model files: where they are stored, and which file a name refers to.

Rules:
1. The first of these that is set decides: the caller's argument, ``MULTI_LLM_CHAT_LOCAL_MODEL``, the model
   chosen with ``use``, the default.
2. Each may be a known name or the path of a GGUF file. A value with a path separator or the ending
   ``.gguf`` is a path.
3. Reading changes nothing; the choice is written atomically.
4. For the name ``local``, a running Ollama with at least one model takes precedence over the default, because it is better,
   but not over a chosen model. Only this machine, or the address in ``OLLAMA_HOST``, is asked, with a short timeout and without
   a proxy; any failure means that there is no Ollama.
"""

import http.client
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from multi_llm_chat.config.folders import program_folders
from multi_llm_chat.errors import ProviderError, UsageError
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.local.catalogue import (
    DEFAULT_MODEL,
    KNOWN_MODELS,
    PROVIDER,
    ModelRow,
    row_of_file,
)

VARIABLE = "MULTI_LLM_CHAT_LOCAL_MODEL"
_CHOICE = "chosen"
_ENDING = ".gguf"


class LocatedModel(Struct, frozen=True):
    """A model and its file, which may not be there yet."""

    row: ModelRow
    path: Path


def models_folder(folder: Path | None = None) -> Path:
    """The folder of installed models."""
    return folder or program_folders().data / "models"


def locate(
    name_or_path: str | Path | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> LocatedModel:
    """Find the model to which a name refers.

    Args:
        name_or_path: A known name or a file's path; the configured model otherwise.
        folder: Where installed models are kept, if not in the platform's data folder.
        environment: The environment variables.

    Raises:
        UsageError: The name is not known or there is no such file.
    """
    home = models_folder(folder)
    word = str(
        name_or_path or configured_model(folder=home, environment=environment) or DEFAULT_MODEL
    )
    row = KNOWN_MODELS.get(word)
    if row is not None:
        return LocatedModel(row, home / f"{row.name}{_ENDING}")
    if not (word.lower().endswith(_ENDING) or os.sep in word or "/" in word):
        known = ", ".join(KNOWN_MODELS)
        raise UsageError(
            f"There is no local model named {word!r}; known are: {known}. A GGUF file is "
            "given by its path."
        )
    path = Path(word).expanduser()
    if not path.is_file():
        raise UsageError(f"The model file {word!r} does not exist.")
    return LocatedModel(row_of_file(path), path.absolute())


def configured_model(
    *, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """The configured model: the environment first, then ``use``; None if neither names one."""
    return environment.get(VARIABLE, "").strip() or _read_choice(models_folder(folder)) or None


def installed(located: LocatedModel) -> Path:
    """The model's file.

    Raises:
        ProviderError: It is not installed.
    """
    if not located.path.is_file():
        name = located.row.name
        raise ProviderError(
            f"The embedded model {name!r} is not installed. Install it with "
            f"'mlc local install {name}', or set {VARIABLE} to a GGUF file.",
            provider=PROVIDER,
            code="not_installed",
        )
    return located.path


def write_choice(located: LocatedModel, folder: Path | None = None) -> None:
    """Save the model as the default of later runs."""
    home = models_folder(folder)
    home.mkdir(parents=True, exist_ok=True)
    known = located.row.name in KNOWN_MODELS
    draft = home / f"{_CHOICE}.{os.getpid()}.part"
    draft.write_text(located.row.name if known else str(located.path), encoding="utf-8")
    draft.replace(home / _CHOICE)


def _read_choice(home: Path) -> str:
    try:
        return (home / _CHOICE).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


class LocalChoice(Struct, frozen=True):
    """The provider to use and its model: ``ollama`` over HTTP, ``local`` in this process."""

    provider: Literal["local", "ollama"]
    model: str


def choose_local(
    *, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> LocalChoice:
    """The provider and model to which the name ``local`` refers."""
    configured = configured_model(folder=folder, environment=environment)
    if configured:
        return LocalChoice("local", configured)
    offered = running_ollama(environment)
    return LocalChoice("ollama", offered[0]) if offered else LocalChoice("local", DEFAULT_MODEL)


# A running Ollama.

_DEFAULT = "http://127.0.0.1:11434"
_TIMEOUT = 0.5


def running_ollama(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The names of the models that a running Ollama offers; none if it does not run."""
    host = environment.get("OLLAMA_HOST", "").strip() or _DEFAULT
    parts = urlsplit(host if "//" in host else f"//{host}")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "127.0.0.1", parts.port or 11434, timeout=_TIMEOUT)
        try:
            connection.request("GET", "/api/tags")
            reply = json.loads(connection.getresponse().read())
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError):
        return ()
    listed = as_list((as_object(reply) or {}).get("models")) or ()
    names = (as_text((as_object(model) or {}).get("name")) for model in listed)
    return tuple(name for name in names if name)
