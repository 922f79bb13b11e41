"""How much each model can read and write.

Rules:
1. The first row of ``window_table`` whose pattern is found in the model's name decides.
2. What a caller or the configuration says comes before the table.
3. A model that nobody knows gets a cautious window that is marked as such.
4. From a window goes the room for the answer, at most a third, and a reserve of 2,000 tokens, at most an eighth.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from multi_llm_chat.metering.window_table import ROWS, SERVERS, UNKNOWN

#: Kept free: what counting misses, and what repair adds.
RESERVE: Final = 2_000


class Window(Struct, frozen=True):
    """How many tokens a model reads and writes together, and how many of them it writes at most."""

    tokens: int
    output: int = 0
    is_known: bool = True

    def budget(self, max_tokens: int | None = None) -> int:
        """How many tokens a request may have; ``max_tokens`` is what was asked for as answer."""
        wanted = max_tokens or self.output or self.tokens
        reserve = min(RESERVE, self.tokens // 8)
        return self.tokens - min(wanted, self.tokens // 3) - reserve


def window_of(
    model: str, provider: str = "", overrides: Mapping[str, int | Window] | None = None
) -> Window:
    """The window of a model.

    Args:
        model: Its name, with or without the maker's before it.
        provider: Who serves it: some servers give less than the model could take.
        overrides: Windows by model name or by pattern such as ``my-*``, as a configuration has them.
    """
    for pattern, told in (overrides or {}).items():
        if fnmatchcase(model, pattern):
            return told if isinstance(told, Window) else Window(told)
    served = SERVERS.get(provider)
    if served is not None:
        return Window(*served, is_known=False)
    name = model.lower()
    for row, tokens, output in ROWS:
        if row.search(name):
            return Window(tokens, output)
    return Window(*UNKNOWN, is_known=False)
