"""What OpenAI's own models refuse, by name; both of its dialects ask."""

import re
from functools import lru_cache

_REASONING = re.compile(r"(?:^|/)(?:o[1-9]|gpt-(?:5|[6-9]|\d\d))(?!.*chat)")
_VERSION = re.compile(r"(?:^|/)gpt-(\d+)(?:\.(\d+))?")


@lru_cache(maxsize=256)  # the same few names, for every request
def refuses_sampling(model: str) -> bool:
    """Whether the model takes no temperature, no stop sequences and no ``max_tokens`` (OAI-19)."""
    return _REASONING.search(model) is not None


@lru_cache(maxsize=256)
def thinks_without_tools(model: str) -> bool:
    """Whether the model takes function tools here only with its reasoning off (OAI-16)."""
    found = _VERSION.search(model)
    if found is None or "chat" in model:
        return False
    return (int(found[1]), int(found[2] or 0)) >= (5, 4)
