"""A real model inside the process: no key, no network.

Importing this package loads neither the runtime nor a model.
"""

from multi_llm_chat.local.catalogue import DEFAULT_MODEL, KNOWN_MODELS, NOTICE
from multi_llm_chat.local.choosing import Choice, choose_local
from multi_llm_chat.local.fetching import Progress
from multi_llm_chat.local.installing import ListedModel, install, list_models, use
from multi_llm_chat.local.model import Completed, LocalModel
from multi_llm_chat.local.tool_examples import Example

__all__ = [
    "DEFAULT_MODEL",
    "KNOWN_MODELS",
    "NOTICE",
    "Choice",
    "Completed",
    "Example",
    "ListedModel",
    "LocalModel",
    "Progress",
    "choose_local",
    "install",
    "list_models",
    "use",
]
