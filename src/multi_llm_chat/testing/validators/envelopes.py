"""The JSON in which each provider wraps an error, and what each says of a body that is no JSON.

A body can be read back when:
1. every value is an object, an array, a string, a finite number, a boolean or null, and object keys are strings;
2. no string holds a lone surrogate: it has no UTF-8 form, and parsers refuse its escape;
3. nesting stays below the depth at which parsers give up.
"""

import json
import math
import re
from collections.abc import Callable
from typing import Any, cast

from multi_llm_chat.testing.validators.violation import Violation, Wording

_KIND = "invalid_request_error"


def _openai(found: Violation) -> dict[str, Any]:
    error = {"message": found.message, "type": _KIND, "param": found.param, "code": found.code}
    return {"error": error}


def _anthropic(found: Violation) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": _KIND, "message": found.message},
        "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    }


def _gemini(found: Violation) -> dict[str, Any]:
    error = {"code": found.status, "message": found.message, "status": "INVALID_ARGUMENT"}
    return {"error": error}


def _groq(found: Violation) -> dict[str, Any]:
    error: dict[str, Any] = {"message": found.message, "type": _KIND}
    if found.param is not None:
        error["param"] = found.param
    if found.code is not None:
        error["code"] = found.code
    return {"error": error}


def _cerebras(found: Violation) -> dict[str, Any]:
    return {
        "message": found.message,
        "type": _KIND,
        "param": found.param,
        "code": found.code or "wrong_api_format",
    }


def _fireworks(found: Violation) -> dict[str, Any]:
    error = {"object": "error", "type": _KIND, "code": _KIND, "message": found.message}
    return {"error": error}


def _mistral(found: Violation) -> dict[str, Any]:
    if found.status == 422:
        detail = {
            "type": found.code,
            "loc": (found.param or "body").split("."),
            "msg": found.message,
            "input": None,
        }
        message: Any = {"detail": [detail]}
        return {
            "object": "error",
            "message": message,
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
    kinds = {"3280": "invalid_function_call", "3230": "invalid_request_message_order"}
    return {
        "object": "error",
        "message": found.message,
        "type": kinds.get(found.code or "", _KIND),
        "param": None,
        "code": found.code,
    }


def _xai(found: Violation) -> dict[str, Any]:
    return {"code": "Client specified an invalid argument", "error": found.message}


def _deepseek(found: Violation) -> dict[str, Any]:
    error = {"message": found.message, "type": _KIND, "param": None, "code": _KIND}
    return {"error": error}


def _openrouter(found: Violation) -> dict[str, Any]:
    return {
        "error": {
            "message": "Provider returned error",
            "code": found.status,
            "metadata": {"raw": json.dumps(_openai(found)), "provider_name": "OpenAI"},
        },
        "user_id": "user_2test",
    }


def _vllm(found: Violation) -> dict[str, Any]:
    error = {
        "message": found.message,
        "type": "BadRequestError",
        "param": found.param,
        "code": found.status,
    }
    return {"error": error}


def _llamacpp(found: Violation) -> dict[str, Any]:
    kind = "server_error" if found.status >= 500 else _KIND
    return {"error": {"code": found.status, "message": found.message, "type": kind}}


def _plain_string(found: Violation) -> dict[str, Any]:
    return {"error": found.message}


_ENVELOPES: dict[str, Callable[[Violation], dict[str, Any]]] = {
    "anthropic": _anthropic,
    "gemini": _gemini,
    "groq": _groq,
    "cerebras": _cerebras,
    "fireworks": _fireworks,
    "mistral": _mistral,
    "deepseek": _deepseek,
    "xai": _xai,
    "openrouter": _openrouter,
    "vllm": _vllm,
    "llamacpp": _llamacpp,
    "lmstudio": _plain_string,
}


def wrap(provider: str, found: Violation) -> dict[str, Any]:
    """The body with which the provider answers; most use OpenAI's."""
    return _ENVELOPES.get(provider, _openai)(found)


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
