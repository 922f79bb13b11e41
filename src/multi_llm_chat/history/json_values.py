"""JSON values that every provider's parser accepts.

Rules:
1. No lone surrogate, no NUL in any string or key (a surrogate pair is joined first).
2. No NaN or Infinity: they become the strings of that name.
3. Only dicts with string keys, lists, strings, finite numbers, booleans and None; nesting is bounded.
4. A value that already obeys is returned as it is, not copied.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from multi_llm_chat.history.values import JsonObject

#: Deeper nesting is replaced: protobuf parsers stop at 100 levels, and so do careful servers.
MAX_DEPTH = 64

TOO_DEEP = "[nested too deeply]"


def as_object(value: object) -> JsonObject | None:
    """The value as a JSON object, or None when it is something else."""
    return cast(JsonObject, value) if isinstance(value, dict) else None


def as_list(value: object) -> list[Any] | None:
    """The value as a list (a tuple counts), or None when it is something else."""
    if isinstance(value, list):
        return cast(list[Any], value)
    return list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else None


def as_text(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def clean_text(text: str) -> str:
    """The text without lone surrogates (U+FFFD stands for each) and without NUL."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    try:
        text.encode()
    except UnicodeEncodeError:
        # UTF-16 joins halves that belong together; what is still alone is replaced.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "") if "\0" in text else text


def clean_json(value: Any, depth: int = 0) -> Any:
    """The value as plain, finite, well-formed JSON; the very same object when it already is."""
    match value:
        case None | bool() | int():
            return value
        case str():
            return clean_text(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return _clean_mapping(cast(Mapping[Any, Any], value), depth)
        case list() | tuple() | set() | frozenset():
            return _clean_list(cast(Iterable[Any], value), depth)
        case _:
            return clean_text(str(value))


def _clean_mapping(value: Mapping[Any, Any], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    cleaned = {
        clean_text(key) if isinstance(key, str) else clean_text(str(key)): clean_json(
            item, depth + 1
        )
        for key, item in value.items()
    }
    same = isinstance(value, dict) and all(
        key in cleaned and cleaned[key] is item for key, item in value.items()
    )
    return value if same else cleaned


def _clean_list(value: Iterable[Any], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    cleaned = [clean_json(item, depth + 1) for item in value]
    same = isinstance(value, list) and all(
        old is new for old, new in zip(value, cleaned, strict=True)
    )
    return cast(Any, value) if same else cleaned


def compact_json(value: Any) -> str:
    """The value as JSON text without spaces, non-ASCII characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
