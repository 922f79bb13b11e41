"""JSON values that every provider's parser accepts.

Rules:
1. No lone surrogate, no NUL in any string or key (a surrogate pair is joined first).
2. No NaN or Infinity: they become the strings of that name.
3. Only dicts with string keys, lists, strings, finite numbers, booleans and None; nesting is bounded.
4. A value that already follows these rules is returned as it is, not copied.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec

#: Deeper nesting is replaced: protobuf parsers stop at 100 levels, and so do other servers.
MAX_DEPTH = 64

TOO_DEEP = "[nested too deeply]"

#: ``type`` for type checkers, which otherwise infer unknown values from a bare ``dict`` or ``list``.
type_of: Callable[[object], type[object]] = type


def as_object(value: object) -> dict[str, Any] | None:
    """The value as a JSON object, or None when it is something else."""
    # Not cast: this is called for every part of a history, and a cast is one more call.
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def as_list(value: object) -> list[Any] | None:
    """The value as a list (a tuple counts), or None when it is something else."""
    if isinstance(value, list):
        return cast(list[Any], value)
    return list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else None


def as_text(value: object) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def clean_text(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, and without NUL."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    try:
        text.encode("utf-16-le")  # to find a surrogate, several times as fast as UTF-8
    except UnicodeEncodeError:
        # The way through UTF-16 joins surrogate pairs; lone surrogates are replaced.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "") if "\0" in text else text


def clean_json(value: Any, depth: int = 0) -> Any:
    """The value as plain, finite, well-formed JSON; the same object if it already is."""
    kind = type_of(value)
    if kind is str:
        return clean_text(value)
    if kind is dict:
        return _clean_mapping(value, depth)
    if kind is int or kind is bool or value is None:
        return value
    if kind is list:
        return _clean_list(value, depth)
    return _clean_unusual(value, depth)


def _clean_unusual(value: Any, depth: int) -> Any:
    """Clean floats, subclasses, other mappings and sequences; any other value becomes a string."""
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return clean_text(str(value))
        case bool() | int():
            return int(value)
        case Mapping():
            return _clean_mapping(cast(Mapping[Any, Any], value), depth)
        case list() | tuple() | set() | frozenset():
            return _clean_list(cast(Iterable[Any], value), depth)
        case _:
            return clean_text(str(value))


def _clean_mapping(value: Mapping[Any, Any], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    same = type(value) is dict
    cleaned: dict[str, Any] = {}
    for key, item in value.items():
        name = clean_text(key if type(key) is str else str(key))
        new = clean_text(item) if type(item) is str else clean_json(item, depth + 1)
        if new is not item or name is not key:
            same = False
        cleaned[name] = new
    return value if same else cleaned


def _clean_list(value: Iterable[Any], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    same = type(value) is list
    cleaned: list[Any] = []
    for item in value:
        new = clean_json(item, depth + 1)
        if new is not item:
            same = False
        cleaned.append(new)
    return cast(Any, value) if same else cleaned


_encode = msgspec.json.Encoder().encode
_encode_any = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def compact_json(value: Any) -> str:
    """The value as JSON text without spaces, non-ASCII characters as they are."""
    try:
        return _encode(value).decode()
    except (OverflowError, TypeError, UnicodeError):
        return _encode_any(value)  # integers beyond 64 bits, half surrogate pairs
