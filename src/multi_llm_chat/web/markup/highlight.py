"""Code in colours: the words' kinds as classes, which the style sheet colours.

Rules:
1. A language nobody knows, and code too long to look at, is shown plain.
2. While a block is still growing it is plain: colours come when it is complete.
"""

from functools import lru_cache
from html import escape
from importlib import import_module
from typing import Any, Final

#: Longer code is shown without colours.
LONGEST: Final = 40_000


@lru_cache(maxsize=256)
def highlight(code: str, language: str) -> str:
    """The code as HTML."""
    lexer = _lexer(language) if language and len(code) <= LONGEST else None
    if lexer is None:
        return escape(code, quote=False)
    from pygments import highlight as colour  # noqa: PLC0415  slow to load: only who writes code pays
    from pygments.formatters.html import HtmlFormatter  # noqa: PLC0415  as above

    return colour(code, lexer, HtmlFormatter(nowrap=True))


@lru_cache(maxsize=64)
def _lexer(language: str) -> Any:
    lexers: Any = import_module("pygments.lexers")
    from pygments.util import ClassNotFound  # noqa: PLC0415  as above

    try:
        return lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
