"""JSON as it is kept in a column: exact, whatever strings and numbers it holds.

Rules:
1. What is read equals what was written, infinities and half surrogate pairs included.
2. The text contains neither NUL nor half characters, which databases refuse.
3. A value that is no JSON is kept as the nearest JSON there is, and so is one nested more deeply than every Python reads.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final

from multi_llm_chat.history.json_values import as_list, as_object, clean_json

#: Marks text that no database takes as it is: the rest is its bytes in base64. No JSON begins so.
_PACKED = "="

#: What a Python of any version reads again, whatever it was called from.
_DEEPEST: Final = 400

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_json(value: Any) -> str:
    """The value as text."""
    try:
        text = _write(value)
    except (TypeError, ValueError, RecursionError):
        text = _write(clean_json(value))
    if text.count("[") + text.count("{") > _DEEPEST and _is_too_deep(value):
        text = _write(clean_json(value))
    try:
        text.encode()
    except UnicodeEncodeError:
        # Escapes would join two halves that stand side by side; bytes keep them apart.
        return _PACKED + b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    return text


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [item for each in level for item in _items(each)]
    return bool(level)


def _items(value: object) -> Iterable[object]:
    inside = as_object(value)
    return inside.values() if inside is not None else as_list(value) or ()


def read_json(text: str) -> Any:
    """The value that was written."""
    if text.startswith(_PACKED):
        text = b64decode(text[1:]).decode("utf-8", "surrogatepass")
    return json.loads(text)
