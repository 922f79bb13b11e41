"""Names that every provider accepts, and the way back.

Rules:
1. A name, once given, belongs to its tool as long as the registry lives, also while the tool is away:
   a call that a model makes later never reaches another tool.
2. A legal name is kept by the first tool that bears it. A tool of a server whose name is taken is
   called by its server's name and its own; an illegal name is spelled with legal characters.
3. Names are unique, legal for every provider, and lead back to their source and original.
"""

import difflib
import re
from collections.abc import Sequence
from typing import Final

from multi_llm_chat.errors import UsageError
from multi_llm_chat.repair.identifiers import NameMap

#: How many names a suggestion lists.
_MOST_LISTED: Final = 40
LEGAL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Names:
    """The names given so far."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._origins: dict[str, tuple[str, str]] = {}

    def give(self, source: str, originals: Sequence[str]) -> list[str]:
        """The name of each of this source's tools, in their order."""
        fresh = [name for name in dict.fromkeys(originals) if (source, name) not in self._given]
        wanted = {name: self._wanted(source, name) for name in fresh}
        spelled = NameMap([*self._origins, *wanted.values()], LEGAL_NAME)
        for original, candidate in wanted.items():
            name = spelled.sent(candidate)
            self._given[source, original] = name
            self._origins[name] = (source, original)
        return [self._given[source, name] for name in originals]

    def origin(self, name: str) -> tuple[str, str]:
        """The source and the original name behind a given one.

        Raises:
            UsageError: The name was never given.
        """
        if name not in self._origins:
            raise UsageError(f"there is no tool named {name!r}")
        return self._origins[name]

    def _wanted(self, source: str, original: str) -> str:
        # "/" is illegal, so what contains it is always spelled anew, and made unique.
        return f"{source}/{original}" if original in self._origins else original


def suggest(wrong: str, names: Sequence[str]) -> str:
    """What to say to a model that called a tool by a name that is not there."""
    close = difflib.get_close_matches(wrong, names, n=3)
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?"
    if not names:
        return "No tools are available."
    more = ", …" if len(names) > _MOST_LISTED else ""
    return f"Available: {', '.join(names[:_MOST_LISTED])}{more}."
