"""One real model for the whole session; without it the tests that need it are skipped, with a reason."""

import importlib.util
from pathlib import Path

import pytest

from multi_llm_chat.errors import ProviderError
from multi_llm_chat.local import DEFAULT_MODEL, KNOWN_MODELS, LocalModel, install
from multi_llm_chat.local._installation import digest
from multi_llm_chat.local.locations import models_folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the default model is installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the runtime of the embedded model is not installed (extra 'local')")
    held = models_folder() / f"{DEFAULT_MODEL}.gguf"
    if held.is_file() and digest(held) == KNOWN_MODELS[DEFAULT_MODEL].sha256:
        return held.parent
    folder = tmp_path_factory.mktemp("models")
    try:
        install(folder=folder)
    except ProviderError as error:
        pytest.skip(f"the embedded model cannot be had here: {error}")
    return folder


@pytest.fixture(scope="session")
def model(models: Path) -> LocalModel:
    return LocalModel(DEFAULT_MODEL, folder=models)
