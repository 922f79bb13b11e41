"""Tool names that every provider accepts, and the original names behind them.

Rules:
1. A name belongs to its tool as long as the registry lives, also while the tool is missing: a later call of a model never reaches another
   tool.
2. The first tool with a legal name keeps it. A server's tool whose name is taken gets its server's name as a prefix; in an illegal name,
   illegal characters are replaced.
3. Names are unique, legal for every provider, and can be mapped back to source and original name.
"""

import difflib
import re
from collections.abc import Sequence
from typing import Final

from multi_llm_chat.errors import UsageError
from multi_llm_chat.repair.identifiers import NameMap

#: The most names that a suggestion lists.
_MOST_LISTED: Final = 40
LEGAL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Names:
    """Assigns names, and remembers those assigned so far."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._origins: dict[str, tuple[str, str]] = {}

    def give(self, source: str, originals: Sequence[str]) -> list[str]:
        """Assign names to this source's tools; return them in the order of the tools."""
        fresh = [name for name in dict.fromkeys(originals) if (source, name) not in self._given]
        wanted = {name: self._wanted(source, name) for name in fresh}
        spelled = NameMap([*self._origins, *wanted.values()], LEGAL_NAME)
        for original, candidate in wanted.items():
            name = spelled.sent(candidate)
            self._given[source, original] = name
            self._origins[name] = (source, original)
        return [self._given[source, name] for name in originals]

    def origin(self, name: str) -> tuple[str, str]:
        """The source and the original name of an assigned name.

        Raises:
            UsageError: The name was never assigned.
        """
        if name not in self._origins:
            raise UsageError(f"there is no tool named {name!r}")
        return self._origins[name]

    def _wanted(self, source: str, original: str) -> str:
        # "/" is illegal, so a name with it is always replaced, and made unique.
        return f"{source}/{original}" if original in self._origins else original


def suggest(wrong: str, names: Sequence[str]) -> str:
    """The text for a model that called a tool by an unknown name."""
    close = difflib.get_close_matches(wrong, names, n=3)
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    if not names:
        return "No tools are available."
    more = ", …" if len(names) > _MOST_LISTED else ""
    return f"Available: {', '.join(names[:_MOST_LISTED])}{more}."
