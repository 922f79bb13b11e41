"""The JSON in which each provider wraps an error."""

import json
from collections.abc import Callable
from typing import Any

from multi_llm_chat.testing.validators.violation import Violation

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
