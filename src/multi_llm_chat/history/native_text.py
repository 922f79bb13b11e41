"""The readable text of a provider-specific item, and the fields of a block that our parts do not express."""

import re
from collections.abc import Collection, Iterator
from typing import Any

from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject, Native

#: Keys whose values are not readable text: types, ids, signatures and encrypted data.
_WORDLESS = re.compile(
    r"(?:^|_)(?:type|ids?|caller|cache_control|signature|encrypted\w*|index)$|(?:Type|Ids?|Signature|Index)$"
)
_NAMED = ("title", "name", "url", "uri")
_DEEPEST = 8


def native_text(part: Native) -> str:
    """The text that replaces a native item in a request that cannot contain the item itself."""
    return f"[{part.text or part.kind}]"


def remaining_fields(block: JsonObject, known: Collection[str]) -> JsonObject:
    """The fields of a block that our parts do not express, without nulls and empty values."""
    return {
        key: value
        for key, value in block.items()
        if key not in known and value is not None and value != [] and value != {}
    }


def plain_words(value: Any) -> str:
    """The readable text in a provider's item: titles with URLs, texts, code, output, error codes."""
    return "\n".join(_words(value, 0))


def _words(value: Any, depth: int) -> Iterator[str]:
    entry = as_object(value)
    if entry is not None:
        yield from _entry_words(entry, depth)
    elif isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
    elif depth < _DEEPEST:
        for item in as_list(value) or ():
            yield from _words(item, depth + 1)


def _entry_words(entry: JsonObject, depth: int) -> Iterator[str]:
    if depth >= _DEEPEST:
        return
    title = as_text(entry.get("title")) or as_text(entry.get("name"))
    address = as_text(entry.get("url")) or as_text(entry.get("uri"))
    if title or address:
        yield f"{title} ({address})" if title and address else title or address
    if file := as_text(entry.get("file_id")):
        yield f"file {file}"
    for key, inner in entry.items():
        if key in _NAMED and isinstance(inner, str):
            continue
        if _WORDLESS.search(key) or (key == "data" and not _is_plain_source(entry)):
            continue
        if key.endswith("_code") and isinstance(inner, (str, int)):
            yield f"{key.replace('_', ' ')}: {inner}"
        else:
            yield from _words(inner, depth + 1)


def _is_plain_source(entry: JsonObject) -> bool:
    return entry.get("type") == "text" or as_text(entry.get("media_type")).startswith("text/")
