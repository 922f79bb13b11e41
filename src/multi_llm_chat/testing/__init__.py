"""Public aids for testing: judges of provider requests, a simulator of providers, their bills, the kit for authors of providers, hostile peers.

Names are loaded when they are first used: an import of the judges does not load the server.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from multi_llm_chat.testing.validators import PROVIDERS, Violation, error_body, validate

if TYPE_CHECKING:
    from multi_llm_chat.testing.billing import Bill, BilledRequest, bill, least_bill
    from multi_llm_chat.testing.conformance import ConformanceFailure, conform
    from multi_llm_chat.testing.hostile_files import HOSTILE_FILES
    from multi_llm_chat.testing.hostile_provider import HostileProvider
    from multi_llm_chat.testing.simulator import Call, Say, Script, Simulator

__all__ = [
    "HOSTILE_FILES",
    "PROVIDERS",
    "Bill",
    "BilledRequest",
    "Call",
    "ConformanceFailure",
    "HostileProvider",
    "Say",
    "Script",
    "Simulator",
    "Violation",
    "bill",
    "conform",
    "error_body",
    "least_bill",
    "validate",
]

_LAZY = {
    "billing": ("Bill", "BilledRequest", "bill", "least_bill"),
    "simulator": ("Call", "Say", "Script", "Simulator"),
    "conformance": ("ConformanceFailure", "conform"),
    "hostile_files": ("HOSTILE_FILES",),
    "hostile_provider": ("HostileProvider",),
}


def __getattr__(name: str) -> Any:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(f"multi_llm_chat.testing.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
