"""Who speaks as ``local`` when nobody named a model.

Rules:
1. What somebody decided for comes first: the environment, then ``use``.
2. A running Ollama with at least one model comes next, for it is better than the default.
3. Otherwise the embedded default speaks.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from multi_llm_chat.local.catalogue import DEFAULT_MODEL
from multi_llm_chat.local.locations import wanted
from multi_llm_chat.local.ollama import running_ollama


class Choice(Struct, frozen=True):
    """The provider to ask and its model: ``ollama`` over HTTP, ``local`` in this process."""

    provider: Literal["local", "ollama"]
    model: str


def choose_local(
    *, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> Choice:
    """The provider and model behind the name ``local``."""
    decided = wanted(folder=folder, environment=environment)
    if decided:
        return Choice("local", decided)
    offered = running_ollama(environment)
    return Choice("ollama", offered[0]) if offered else Choice("local", DEFAULT_MODEL)
