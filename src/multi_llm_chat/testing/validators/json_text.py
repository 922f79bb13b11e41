"""Whether a value can be written as JSON that a server can read back.

1. Every value is an object, an array, a string, a finite number, a boolean or null.
2. Object keys are strings.
3. No string holds a lone surrogate: it has no UTF-8 form, and its escape is refused by parsers.
4. Nesting stays below the depth at which parsers give up.
"""

import json
import math
import re
from typing import Any, cast

from multi_llm_chat.testing.validators.violation import Violation, Wording

#: Deeper than any real request; protobuf's JSON parser stops at 100, most others at 128 or more.
MAXIMUM_DEPTH = 120

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*(\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])|\\ud[c-f])")

_OPENAI_TEXT = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using "
    "your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was "
    "not valid JSON. If you have trouble figuring out how to fix this, please contact us through "
    "our help center at help.openai.com.)"
)

_WORDINGS: dict[str, Wording] = {
    "anthropic": Wording("ANT-22", "The request body is not valid JSON: {reason}: {position}"),
    "gemini": Wording("GEM-JSON", "Invalid JSON payload received. {reason}."),
    "mistral": Wording("MIS-JSON", "JSON decode error: {reason}: {position}", status=422),
    "ollama": Wording("OLL-JSON", "invalid character in JSON body: {reason}"),
    "llamacpp": Wording("LCP-JSON", "[json.exception.parse_error.101] parse error: {reason}"),
    "vllm": Wording("VLL-JSON", "JSON decode error: {reason}: {position}"),
}
_DEFAULT = Wording("OAI-JSON", _OPENAI_TEXT)


def check_encoding(provider: str, body: object) -> Violation | None:
    """The violation by which ``body`` could not even be parsed, if there is one."""
    reason = _first_fault(body)
    if reason is None:
        return None
    wording = _WORDINGS.get(provider, _DEFAULT)
    return wording.fill(reason=reason, position=_position(reason, body))


def _first_fault(body: object) -> str | None:
    pending: list[tuple[Any, int]] = [(body, 0)]
    while pending:
        value, depth = pending.pop()
        fault = _scalar_fault(value) if depth <= MAXIMUM_DEPTH else "nesting is too deep"
        if fault is not None:
            return fault
        if isinstance(value, dict):
            mapping = cast("dict[Any, Any]", value)
            pending.extend((child, depth + 1) for child in mapping.values())
            pending.extend((_Key(key), depth) for key in mapping)
        elif isinstance(value, list):
            pending.extend((child, depth + 1) for child in cast("list[Any]", value))
    return None


class _Key:
    """Marks an object's key on the worklist: only a string may be one."""

    def __init__(self, key: object) -> None:
        self.key = key


def _scalar_fault(value: object) -> str | None:
    if isinstance(value, _Key):
        if not isinstance(value.key, str):
            return "object key is not a string"
        value = value.key
    if isinstance(value, str):
        return "no low surrogate in string" if _SURROGATE.search(value) else None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"unexpected token {value}"
    if value is None or isinstance(value, dict | list | bool | int):
        return None
    return f"value of type {type(value).__name__} has no JSON form"


def _position(reason: str, body: object) -> str:
    """Where the escape of a lone surrogate stands, as Anthropic reports it."""
    offset = 0
    if "surrogate" in reason:
        try:
            found = _ESCAPED_SURROGATE.search(json.dumps(body, default=str, skipkeys=True))
        except (ValueError, TypeError, RecursionError):
            found = None
        offset = found.start(1) if found else 0
    return f"line 1 column {offset + 1} (char {offset})"
