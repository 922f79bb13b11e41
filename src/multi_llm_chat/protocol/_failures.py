"""Turns a provider's error reply into a typed error that says whose fault it was.

Rules:
1. Any body is accepted: the providers' JSON shapes, a list around them, a
   nested upstream error (OpenRouter), a bare string, HTML, or nothing.
2. The text takes precedence over the status: servers send 400 for a bad key, 500 for a request
   that can never succeed (llama.cpp), 429 for an account without money.
3. Codes are looked up before texts, texts before the status.
4. An error text is short and contains no key; headers are read for the waiting time only.
5. The waiting time is read as seconds; a date is not read, because the core has no clock.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

from multi_llm_chat.errors import (
    AuthError,
    BadRequest,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
)
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.protocol._rejections import find_rejection
from multi_llm_chat.protocol.lenient_json import clean_text, read_json

MAX_MESSAGE = 600

_ADVICE: Final[dict[type[ProviderError], tuple[str, str]]] = {
    AuthError: (
        "refused the key or the account",
        "Check the key, its permissions and the balance.",
    ),
    RateLimited: ("limits how often it may be asked", "Wait and try again."),
    Overloaded: ("is busy or failed", "Try again later."),
    ContextTooLong: (
        "cannot take a request this long",
        "Shorten the conversation or choose a model with a larger window.",
    ),
    BadRequest: ("rejected the request", ""),
    Refused: ("declined to answer", "Change the wording or ask another model."),
    ProviderError: ("answered with an error", ""),
}

#: Words that providers use as ``type``, ``code`` or ``status`` of an error.
_CODES: Final[dict[str, type[ProviderError]]] = {
    "authentication_error": AuthError,
    "permission_error": AuthError,
    "permission_denied": AuthError,
    "unauthenticated": AuthError,
    "invalid_api_key": AuthError,
    "api_key_invalid": AuthError,
    "insufficient_quota": AuthError,
    "billing_error": AuthError,
    "billing_not_active": AuthError,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "rate_limited": RateLimited,
    "resource_exhausted": RateLimited,
    "too_many_requests": RateLimited,
    "overloaded_error": Overloaded,
    "api_error": Overloaded,
    "server_error": Overloaded,
    "internal_server_error": Overloaded,
    "timeout_error": Overloaded,
    "service_unavailable": Overloaded,
    "unavailable": Overloaded,
    "internal": Overloaded,
    "deadline_exceeded": Overloaded,
    "engine_overloaded_error": Overloaded,
    "insufficient_system_resource": Overloaded,
    "context_length_exceeded": ContextTooLong,
    "too_many_prompt_tokens": ContextTooLong,
    "exceed_context_size_error": ContextTooLong,
    "request_too_large": ContextTooLong,
    "model_context_window_exceeded": ContextTooLong,
    "content_filter": Refused,
    "content_policy_violation": Refused,
    "image_content_policy_violation": Refused,
    "responsibleaipolicyviolation": Refused,
    "bio_policy": Refused,
    "misalignment_policy_violation": Refused,
    "moderation_blocked": Refused,
    "invalid_prompt": Refused,
}

_TEXTS: Final[tuple[tuple[re.Pattern[str], type[ProviderError]], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (
            r"api[ _]?key (not valid|is invalid|expired)|incorrect api key|invalid api key",
            AuthError,
        ),
        (r"credit balance is too low|insufficient (credits|balance|quota)", AuthError),
        (
            r"maximum context length|prompt is too long|context[ _](window|length|size)",
            ContextTooLong,
        ),
        (r"input token count.{0,40}exceeds|too large for model|input is too long", ContextTooLong),
        (r"input tokens exceeded|length of all messages is too long", ContextTooLong),
        (r"reduce the length of the (messages|prompt)|too many (input )?tokens", ContextTooLong),
        (r"flagged (by|as|for)|content management policy|moderation", Refused),
        (r"overloaded|at capacity|try again later", Overloaded),
    )
)

#: Texts of errors inside a stream, which has neither a status nor a code.
_PASSING_TEXTS: Final[tuple[tuple[re.Pattern[str], type[ProviderError]], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"rate[ -]?limit|too many requests|quota exceeded", RateLimited),
        (r"(temporarily |service |server |currently )unavailable|bad gateway", Overloaded),
        (r"internal (server )?error|server (had|encountered) an error|server is busy", Overloaded),
        (r"timed? ?out|deadline exceeded|model (has )?(crashed|unloaded)", Overloaded),
    )
)

_STATUSES: Final[dict[int, type[ProviderError]]] = {
    401: AuthError,
    402: AuthError,
    403: AuthError,
    408: Overloaded,
    413: ContextTooLong,
    425: Overloaded,
    429: RateLimited,
}

_SECRETS = re.compile(
    r"\b(sk|pk|gsk|csk|fw|hf|xai|nvapi|r8)[-_][A-Za-z0-9*._-]{6,}|AIza[\w-]{10,}"
    r"|(?<=[Bb]earer )[\w.~+/=-]+|(?<=[?&]key=)[\w-]+"
)
_DELAY = re.compile(r"(?:try again|retry) in (?:(\d+)m(?!s))?\s*(?:([\d.]+)(ms|s))?", re.IGNORECASE)
_SECONDS = re.compile(r"^\s*(\d+(?:\.\d+)?)s?\s*$")


class ErrorDetails(Struct, frozen=True):
    """The details of a provider's error, before it is classified."""

    message: str = ""
    codes: tuple[str, ...] = ()
    status: int | None = None
    retry_after: float | None = None
    upstream: str = ""
    failed_generation: str = ""


def read_failure(
    status: int, headers: Mapping[str, str], body: bytes, *, provider: str
) -> ProviderError:
    """Make a typed error from a reply whose status is not 200."""
    value = read_json(body)
    if value is None:
        plain = re.sub(r"<[^>]*>", " ", body.decode(errors="replace"))
        value = " ".join(plain.split())
    fault = read_error_details(value)
    waiting = _waiting_time(headers)
    return judge(
        fault,
        provider=provider,
        status=status,
        retry_after=fault.retry_after if waiting is None else waiting,
    )


def read_error_details(value: object) -> ErrorDetails:
    """Read an error object in any of the providers' shapes."""
    if isinstance(value, list) and value:
        return read_error_details(cast("list[object]", value)[0])
    if not isinstance(value, dict):
        return ErrorDetails(value if isinstance(value, str) else "")
    outer = cast("dict[str, Any]", value)
    inner: object = outer.get("error")
    error = _mapping(inner) or outer
    message = _as_text(error.get("message") or error.get("detail") or cast("object", inner))
    metadata = _mapping(error.get("metadata"))
    details = [_mapping(item) for item in _sequence(error.get("details"))]
    upstream = _upstream(metadata.get("raw"))
    words = [error.get(key) for key in ("code", "type", "status")]
    words += [detail.get("reason") for detail in details]
    words += [_mapping(error.get("innererror")).get("code"), outer.get("code")]
    return ErrorDetails(
        message=message,
        codes=(*(word for word in words if isinstance(word, str) and word), *upstream.codes),
        status=next((word for word in words if _is_status(word)), None),
        retry_after=_stated_delay(details, message),
        upstream=upstream.message,
        failed_generation=_as_text(error.get("failed_generation")),
    )


def judge(
    fault: ErrorDetails,
    *,
    provider: str,
    status: int | None = None,
    retry_after: float | None = None,
    partial: Turn | None = None,
) -> ProviderError:
    """Choose the type of the error, and write its text with advice."""
    status = fault.status if status in {None, 200} else status
    text = f"{fault.message} {fault.upstream} {' '.join(fault.codes)}"
    kind = _kind(fault, text, status)
    rejection = find_rejection(text) if kind is BadRequest else None
    if fault.failed_generation and partial is None:
        partial = Turn(
            "assistant",
            (Text(fault.failed_generation),),
            meta={"failed_generation": fault.failed_generation},
        )
    return kind(
        _wording(kind, fault, provider, status),
        provider=provider,
        status=status,
        code=fault.codes[0] if fault.codes else None,
        retry_after=fault.retry_after if retry_after is None else retry_after,
        repair=rejection.repair if rejection else None,
        partial=partial,
    )


def _kind(fault: ErrorDetails, text: str, status: int | None) -> type[ProviderError]:
    by_code = next((_CODES[code.lower()] for code in fault.codes if code.lower() in _CODES), None)
    if by_code is not None and by_code not in {Overloaded, RateLimited}:
        return by_code
    by_text = next((kind for pattern, kind in _TEXTS if pattern.search(text)), None)
    if status == 429 or by_code is RateLimited:
        return by_text if by_text in {AuthError, ContextTooLong} else RateLimited
    if status not in {401, 402} and find_rejection(text) is not None:
        return BadRequest
    found = by_text or by_code or _STATUSES.get(status or 0)
    if found is not None:
        return found
    if status is None:
        passing = (kind for pattern, kind in _PASSING_TEXTS if pattern.search(text))
        return next(passing, ProviderError)
    return Overloaded if status >= 500 else BadRequest


def words_of(fault: ErrorDetails) -> str:
    """The text of the provider's error, shortened and without a key."""
    return _trim(fault.upstream or fault.message)


def _wording(
    kind: type[ProviderError], fault: ErrorDetails, provider: str, status: int | None
) -> str:
    what, advice = _ADVICE[kind]
    said = words_of(fault)
    number = f" ({status})" if status else ""
    sentences = [f"{provider or 'The provider'} {what}{number}"]
    sentences[0] += f": {said}" if said else ""
    if not sentences[0].endswith((".", "!", "?", "…", "。")):
        sentences[0] += "."
    if advice:
        sentences.append(advice)
    return " ".join(sentences)


def _trim(text: str) -> str:
    text = _SECRETS.sub("[key]", clean_text(text)).strip()
    return text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(filter(None, (_as_text(item) for item in cast("list[object]", value)[:5])))
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        place = ".".join(str(step) for step in _sequence(entries.get("loc")))
        said = _as_text(
            entries.get("msg")
            or entries.get("message")
            or entries.get("detail")
            or entries.get("error")
        )
        return f"{place}: {said}" if place else said
    return ""


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _sequence(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _upstream(raw: object) -> ErrorDetails:
    """Read the error of the provider behind a gateway: JSON, JSON in a string, or plain text."""
    if not isinstance(raw, str):
        return read_error_details(raw) if raw else ErrorDetails()
    value = read_json(clean_text(raw).encode())
    return (
        read_error_details(cast("object", value)) if isinstance(value, dict) else ErrorDetails(raw)
    )


def _is_status(value: object) -> bool:
    return isinstance(value, int) and 400 <= value < 600


def _stated_delay(details: list[dict[str, Any]], message: str) -> float | None:
    for detail in details:
        seconds = _SECONDS.match(_as_text(detail.get("retryDelay")))
        if seconds:
            return float(seconds[1])
    said = _DELAY.search(message)
    if said is None or not (said[1] or said[2]):
        return None
    try:
        amount = float(said[2] or 0)
    except ValueError:
        return None
    return int(said[1] or 0) * 60 + (amount / 1000 if said[3] == "ms" else amount)


def _waiting_time(headers: Mapping[str, str]) -> float | None:
    found = {name.lower(): value for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _SECONDS.match(found.get(name, ""))
        if seconds:
            return float(seconds[1]) * scale
    return None
