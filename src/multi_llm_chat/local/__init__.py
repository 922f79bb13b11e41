"""The embedded model: runs inside the process, without a key and without a network.

The names are imported lazily, on first use; this loads neither the runtime nor a model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multi_llm_chat.local._installation import ListedModel, Progress, install, list_models, use
    from multi_llm_chat.local._model import Completed, LocalModel
    from multi_llm_chat.local._tool_choice import Example
    from multi_llm_chat.local.catalogue import DEFAULT_MODEL, KNOWN_MODELS, NOTICE
    from multi_llm_chat.local.locations import LocalChoice, choose_local

_HOMES = {
    "catalogue": ("DEFAULT_MODEL", "KNOWN_MODELS", "NOTICE"),
    "locations": ("LocalChoice", "choose_local"),
    "_installation": ("ListedModel", "Progress", "install", "list_models", "use"),
    "_model": ("Completed", "LocalModel"),
    "_tool_choice": ("Example",),
}

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "DEFAULT_MODEL",
    "KNOWN_MODELS",
    "NOTICE",
    "Completed",
    "Example",
    "ListedModel",
    "LocalChoice",
    "LocalModel",
    "Progress",
    "choose_local",
    "install",
    "list_models",
    "use",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
