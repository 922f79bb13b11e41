"""What Claude models accept, by name.

From 4.7 on, and in the whole 5 family, thinking is ``adaptive`` and a fixed budget is refused,
and so are sampling parameters; 4.6 takes both forms of thinking; before that only a budget exists.
"""

import re

_VERSION = re.compile(r"(\d+)(?:[-.](\d{1,2}))?(?![\d])")
_NEWEST = (99, 0)


def version(model: str) -> tuple[int, int]:
    """The generation in a model's name; a name without one is taken for the newest."""
    found = _VERSION.search(model.split("claude", 1)[-1])
    if found is None:
        return _NEWEST
    return int(found[1]), int(found[2] or 0)


def thinks_adaptively(model: str) -> bool:
    """Whether thinking is asked for as ``adaptive``."""
    return version(model) >= (4, 6)


def takes_temperature(model: str) -> bool:
    """Whether the model still takes sampling parameters."""
    return version(model) < (4, 7)
