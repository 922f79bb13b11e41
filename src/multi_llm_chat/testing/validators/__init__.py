"""Strict judges of LLM requests: would the provider accept this body, and if not, what does it say?

    >>> validate("anthropic", {"model": "claude-sonnet-5", "max_tokens": 9, "messages": []})
    [Violation(rule='ANT-07', message='messages: at least one message is required', ...)]

A judge sees only the JSON body. It answers with every violation it finds, the first being the one
that the provider would report, each with the provider's own text and the id of the rule. Ids like
``OAI-02`` are rows of the project's rule catalogue; ids that end in ``-DOC`` are requirements of
the published API beyond it, and ids in ``-JSON`` say that the body is not valid JSON.

A violation of status 200 marks what the server accepts and then mishandles silently.
"""

from collections.abc import Mapping
from typing import Any

from multi_llm_chat.testing.validators.anthropic.validator import validate_anthropic
from multi_llm_chat.testing.validators.chat.rows import CHAT_ROWS, validate_chat
from multi_llm_chat.testing.validators.envelopes import check_encoding, wrap
from multi_llm_chat.testing.validators.gemini.validator import validate_gemini
from multi_llm_chat.testing.validators.responses.validator import validate_responses
from multi_llm_chat.testing.validators.violation import Violation

__all__ = ["PROVIDERS", "Violation", "error_body", "validate"]

_OWN_DIALECTS = {"openai": validate_responses, "gemini": validate_gemini}

PROVIDERS: frozenset[str] = frozenset({*_OWN_DIALECTS, "anthropic", *CHAT_ROWS})


def validate(
    provider: str,
    body: object,
    *,
    model: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> list[Violation]:
    """Judge a request body as the provider would.

    Args:
        provider: One of :data:`PROVIDERS`; ``openai`` is the Responses API, ``openai-chat`` is
            Chat Completions.
        body: The request body as a JSON value.
        model: The model, where it is not in the body (Gemini) or where another is meant.
        headers: The request's headers, names in lower case. Fields of a beta need its name there; without headers they are
            taken for announced.

    Returns:
        All violations, the one the provider would report first; empty where it would accept.

    Raises:
        ValueError: If the provider is not known.
    """
    if provider not in PROVIDERS:
        raise ValueError(f"Unknown provider {provider!r}; known are {sorted(PROVIDERS)}")
    broken = check_encoding(provider, body)
    if broken is not None:
        return [broken]
    if provider == "anthropic":
        found = validate_anthropic(body, model, headers)
    elif provider in _OWN_DIALECTS:
        found = _OWN_DIALECTS[provider](body, model)
    else:
        found = validate_chat(provider, body, model)
    # What is refused comes before what is only mishandled; otherwise the order stands.
    return sorted(found, key=lambda violation: violation.status == 200)


def error_body(provider: str, violation: Violation) -> dict[str, Any]:
    """The provider's own JSON envelope for an error.

    Args:
        provider: One of :data:`PROVIDERS`.
        violation: What :func:`validate` found.

    Returns:
        The body to answer with, under the status of the violation.
    """
    return wrap(provider, violation)
