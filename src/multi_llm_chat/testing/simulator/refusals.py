"""Errors in each provider's own words, as replies and inside replies that began with 200.

Rules:
1. An error has the envelope of its provider, as the judges of requests write it.
2. The word for its kind follows from the status.
3. A key is never repeated in whole.
4. An error inside a stream ends it; ``[DONE]`` follows only at servers that send it even then. The words
   are those of the HTTP error of the same status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.events import CREATED, Request, StreamEvent
from multi_llm_chat.testing.simulator.faults import ErrorInStream, Status
from multi_llm_chat.testing.validators import Violation, error_body
from multi_llm_chat.testing.validators.typed_views import as_object, members

_MESSAGES: dict[int, str] = {
    400: "Bad request",
    401: "Incorrect API key provided.",
    403: "Your account may not use this model.",
    404: "Not found",
    408: "Request timed out.",
    413: "Request exceeds the maximum size",
    429: "Rate limit reached for requests",
    500: "The server had an error while processing your request. Sorry about that!",
    502: "Bad gateway",
    503: "The engine is currently overloaded, please try again later",
    504: "The upstream server took too long to answer.",
    529: "Overloaded",
}
_ANTHROPIC_MESSAGES: dict[int, str] = {
    401: "invalid x-api-key",
    429: "This request would exceed your organization's rate limit of 50 requests per minute.",
    500: "Internal server error",
    503: "Overloaded",
    529: "Overloaded",
}
_GEMINI_MESSAGES: dict[int, str] = {
    400: "Request contains an invalid argument.",
    429: "Resource has been exhausted (e.g. check quota).",
    500: "An internal error has occurred. Please retry or report in "
    "https://developers.generativeai.google/guide/troubleshooting",
    503: "The model is overloaded. Please try again later.",
    504: "Deadline expired before operation could complete.",
}
_PROVIDER_MESSAGES = {"anthropic": _ANTHROPIC_MESSAGES, "gemini": _GEMINI_MESSAGES}

_ANTHROPIC_KINDS: dict[int, str] = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_GEMINI_KINDS: dict[int, str] = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_OPENAI_KINDS: dict[int, str] = {429: "requests", 503: "service_unavailable"}
_COMPATIBLE_KINDS: dict[int, str] = {429: "rate_limit_error", 503: "service_unavailable"}
_XAI_CODES: dict[int, str] = {
    401: "The caller does not have permission to execute the specified operation",
    403: "The caller does not have permission to execute the specified operation",
    404: "Some requested entity was not found",
    429: "Some resource has been exhausted",
    500: "Internal error",
    503: "The service is currently unavailable",
}
_OPENAI_CODES: dict[int, str] = {
    401: "invalid_api_key",
    429: "rate_limit_exceeded",
    503: "service_unavailable",
}

_OPENAI_ROWS = frozenset({"openai", "openai-chat", "azure"})
_KEY_PAGES = "https://platform.openai.com/account/api-keys"


def status_body(provider: str, fault: Status) -> JsonObject:
    """The body of an HTTP error."""
    message = message_of(provider, fault.status, fault.message)
    code = fault.code or _OPENAI_CODES.get(fault.status)
    body = error_body(provider, Violation("", message, status=fault.status, code=code))
    error = as_object(body.get("error"))
    if provider == "gemini" and error is not None:
        error["status"] = kind_of(provider, fault.status)
        if fault.retry_delay is not None:
            kind = "type.googleapis.com/google.rpc.RetryInfo"
            error["details"] = [{"@type": kind, "retryDelay": f"{fault.retry_delay:g}s"}]
        return body
    if fault.status != 400:
        _name_kind(body if error is None else error, provider, fault.status)
    return body


def _name_kind(error: dict[str, Any], provider: str, status: int) -> None:
    """Replace the word for a bad request, which is what the judges' envelopes say."""
    kind = kind_of(provider, status)
    for member in ("type", "code"):
        if error.get(member) == "invalid_request_error":
            error[member] = kind
    if provider == "xai":
        error["code"] = _XAI_CODES.get(status, error["code"])


def message_of(provider: str, status: int, message: str | None = None) -> str:
    """The text of an error: the given one, or the provider's own."""
    own = _PROVIDER_MESSAGES.get(provider, {}).get(status)
    return message or own or _MESSAGES.get(status, "An error occurred")


def kind_of(provider: str, status: int) -> str:
    """The provider's word for an error of this status."""
    if provider == "gemini":
        return _GEMINI_KINDS.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT")
    if provider == "anthropic":
        return _ANTHROPIC_KINDS.get(
            status, "api_error" if status >= 500 else "invalid_request_error"
        )
    kinds = _OPENAI_KINDS if provider in _OPENAI_ROWS else _COMPATIBLE_KINDS
    return kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")


def key_refusal(provider: str, key: str | None) -> tuple[int, JsonObject]:
    """The answer to a wrong or missing key."""
    if provider == "gemini":
        return _gemini_key_refusal(key)
    if provider == "anthropic":
        message = "invalid x-api-key" if key else "x-api-key header is required"
    elif provider in {"openai", "openai-chat"}:
        message = _openai_key_message(key)
    else:
        message = _KEY_MESSAGES.get(provider, "Invalid API Key" if key else "Unauthorized")
    return 401, status_body(provider, Status(401, message))


def _openai_key_message(key: str | None) -> str:
    if key is None:
        return (
            "You didn't provide an API key. You need to provide your API key in an Authorization "
            f"header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY). {_KEY_PAGES}"
        )
    hidden = f"{key[:3]}***{key[-4:]}" if len(key) > 12 else "***"
    return f"Incorrect API key provided: {hidden}. You can find your API key at {_KEY_PAGES}."


def _gemini_key_refusal(key: str | None) -> tuple[int, JsonObject]:
    if key is None:
        message = (
            "Method doesn't allow unregistered callers (callers without established identity). "
            "Please use API Key or other form of API consumer identity to call this API."
        )
        return 403, {"error": {"code": 403, "message": message, "status": "PERMISSION_DENIED"}}
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "API_KEY_INVALID",
        "domain": "googleapis.com",
        "metadata": {"service": "generativelanguage.googleapis.com"},
    }
    error = {
        "code": 400,
        "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT",
        "details": [detail],
    }
    return 400, {"error": error}


_KEY_MESSAGES: dict[str, str] = {
    "groq": "Invalid API Key",
    "cerebras": "Wrong API Key",
    "mistral": "Unauthorized",
    "deepseek": "Authentication Fails, Your api key is invalid",
    "kimi": "Invalid Authentication",
    "dashscope": "Incorrect API key provided.",
    "zai": "token expired or incorrect",
    "xai": "Incorrect API key provided. You can obtain an API key from https://console.x.ai.",
    "openrouter": "No auth credentials found",
    "together": "Invalid API key provided. You can find your API key at "
    "https://api.together.ai/settings/api-keys.",
    "fireworks": "The API key you provided is invalid.",
    "azure": "Access denied due to invalid subscription key or wrong API endpoint. Make sure to "
    "provide a valid key for an active subscription and use a correct regional API endpoint for "
    "your resource.",
    "huggingface": "Invalid username or password.",
}


# Errors inside a reply that began with 200.

_DONE = StreamEvent("[DONE]")


def error_events(request: Request, fault: ErrorInStream, sent: int) -> list[StreamEvent]:
    """The events of an error that comes after ``sent`` others."""
    return _FORMS.get(request.provider, _plain)(request, fault, sent)


def _body(request: Request, fault: ErrorInStream) -> JsonObject:
    return status_body(request.provider, Status(fault.status, fault.message))


def _plain(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    return [StreamEvent(_body(request, fault))]


def _plain_then_done(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    return [StreamEvent(_body(request, fault)), _DONE]


def _anthropic(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    body = _body(request, fault)
    return [StreamEvent({"type": "error", "error": body["error"]}, name="error")]


def _responses(request: Request, fault: ErrorInStream, sent: int) -> list[StreamEvent]:
    error = members(_body(request, fault).get("error"))
    data: JsonObject = {
        "type": "error",
        "sequence_number": sent,
        "code": error.get("code") or error.get("type"),
        "message": error.get("message"),
        "param": None,
    }
    return [StreamEvent(data, name="error")]


def _groq(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    error = members(_body(request, fault).get("error")) | {"status_code": fault.status}
    return [StreamEvent({"error": error}, name="error"), _DONE]


def _openrouter(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    data: JsonObject = {
        "id": f"gen-1794700000-{request.identifier('reply', 29)}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": request.model,
        "provider": "OpenAI",
        "error": {
            "code": fault.status,
            "message": message_of(request.provider, fault.status, fault.message),
        },
        "choices": [choice],
    }
    return [StreamEvent(data), _DONE]


_FORMS: dict[str, Callable[[Request, ErrorInStream, int], list[StreamEvent]]] = {
    "anthropic": _anthropic,
    "openai": _responses,
    "groq": _groq,
    "openrouter": _openrouter,
    "vllm": _plain_then_done,
    "llamacpp": _plain_then_done,
    "together": _plain_then_done,
}
