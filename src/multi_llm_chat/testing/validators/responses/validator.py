"""The judge of OpenAI Responses requests."""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.responses import wordings as say
from multi_llm_chat.testing.validators.responses.items import check_items
from multi_llm_chat.testing.validators.responses.pairing import check_pairing
from multi_llm_chat.testing.validators.responses.settings import (
    check_capabilities,
    check_keys,
    check_parameters,
    check_tool_choice,
    check_tools,
)
from multi_llm_chat.testing.validators.typed_views import as_object, as_string
from multi_llm_chat.testing.validators.violation import Violation

_STORED = ("previous_response_id", "prompt", "conversation")


def validate_responses(body: object, model: str | None) -> Iterator[Violation]:
    """Judge a request to ``/v1/responses``."""
    request = as_object(body)
    if request is None:
        yield say.wrong_type("body", "an object", body)
        return
    yield from _check_required(request)
    yield from check_keys(request)
    yield from check_items(request)
    yield from check_tools(request)
    yield from check_tool_choice(request)
    yield from check_parameters(request)
    if request.get("input") in ("", []) and not any(request.get(key) for key in _STORED):
        yield say.INPUT_EMPTY.fill()
    name = model if model is not None else as_string(request.get("model")) or ""
    yield from check_capabilities(request, name)
    yield from check_pairing(request)


def _check_required(request: dict[str, Any]) -> Iterator[Violation]:
    stored = any(request.get(key) is not None for key in _STORED)
    if "model" not in request and request.get("prompt") is None:
        yield say.missing("model")
    elif "model" in request and not isinstance(request["model"], str):
        yield say.wrong_type("model", "a string", request["model"])
    if "input" not in request and not stored:
        yield say.missing("input", "RSP-11")
