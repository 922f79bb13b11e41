"""JSON as it is kept in a column: exact, whatever strings and numbers it holds.

Rules:
1. What is read equals what was written, infinities and half surrogate pairs included.
2. The text contains neither NUL nor half characters, which databases refuse.
3. A value that is no JSON is kept as the nearest JSON there is.
"""

import json
from base64 import b64decode, b64encode
from typing import Any

from multi_llm_chat.history.json_values import clean_json

#: Marks text that no database takes as it is: the rest is its bytes in base64. No JSON begins so.
_PACKED = "="

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write_json(value: Any) -> str:
    """The value as text."""
    try:
        text = _write(value)
    except (TypeError, ValueError, RecursionError):
        text = _write(clean_json(value))
    try:
        text.encode()
    except UnicodeEncodeError:
        # Escapes would join two halves that stand side by side; bytes keep them apart.
        return _PACKED + b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    return text


def read_json(text: str) -> Any:
    """The value that was written."""
    if text.startswith(_PACKED):
        text = b64decode(text[1:]).decode("utf-8", "surrogatepass")
    return json.loads(text)
