"""What Gemini models demand, by name."""

import re

_VERSION = re.compile(r"gemini-(\d+)")


def generation(model: str) -> int:
    """The generation in a model's name; an unnumbered alias is taken for a current one."""
    found = _VERSION.search(model)
    if found is not None:
        return int(found[1])
    return 3 if "gemini" in model else 0


def signs_calls(model: str) -> bool:
    """Whether the first call of each step must bear a thought signature (GEM-04)."""
    return generation(model) >= 3
