"""Public aids for testing: conformance judges of provider requests, and a simulator of providers.

Names are loaded when they are first used: an import of the judges does not load the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from multi_llm_chat.testing.validators import PROVIDERS, Violation, error_body, validate

if TYPE_CHECKING:
    from multi_llm_chat.testing.simulator import Call, Say, Script, Simulator

__all__ = [
    "PROVIDERS",
    "Call",
    "Say",
    "Script",
    "Simulator",
    "Violation",
    "error_body",
    "validate",
]

_LAZY = frozenset({"Call", "Say", "Script", "Simulator"})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module("multi_llm_chat.testing.simulator"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
