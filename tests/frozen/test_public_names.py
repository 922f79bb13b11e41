"""Every import path that users rely on keeps working.

``public_names.json`` lists them: the names of the package itself, of its public modules and of the seeds' modules.
Add a name when it becomes public; never remove one. A name may move and give a ``DeprecationWarning``, but it resolves.
"""

import importlib
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest

NAMES = msgspec.json.decode(
    Path(__file__).with_name("public_names.json").read_bytes(), type=dict[str, list[str]]
)
PATHS = [(module, name) for module, names in NAMES.items() for name in names]
#: Classes of these modules are caught and compared: other import paths must give the same objects.
SHARED = ("multi_llm_chat.errors", "multi_llm_chat.events", "multi_llm_chat.history.values")


def resolve(module: str, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(importlib.import_module(module), name)


def test_every_public_name_can_be_imported():
    missing: list[str] = []
    for module, name in PATHS:
        try:
            found = resolve(module, name)
        except (ImportError, AttributeError):
            found = None
        if found is None:
            missing.append(f"{module}.{name}")
    assert missing == []


@pytest.mark.parametrize("module", SHARED)
def test_the_package_gives_the_same_objects_as_the_module(module: str):
    for name in set(NAMES["multi_llm_chat"]) & set(NAMES[module]):
        assert resolve("multi_llm_chat", name) is resolve(module, name)
