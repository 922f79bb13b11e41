"""The judge of OpenAI Responses requests.

What belongs together in an input:
1. Every function call has an output, and every output a call before it (RSP-01, RSP-02). With
   ``previous_response_id`` or ``conversation`` the other half may be stored.
2. A reasoning item with an id is followed by what it led to; a message by its own id (RSP-03).
3. Without storage, items can only be given whole (RSP-06).
"""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.responses import wordings as say
from multi_llm_chat.testing.validators.responses.items import check_items
from multi_llm_chat.testing.validators.responses.settings import (
    check_capabilities,
    check_keys,
    check_parameters,
    check_tool_choice,
    check_tools,
)
from multi_llm_chat.testing.validators.typed_views import as_object, as_string, objects
from multi_llm_chat.testing.validators.violation import Violation, Wording

# What belongs together.


#: Calls that the client answers, and their answers; the results of hosted tools are in the items themselves (RSP-20).
_CALLS = (
    "function_call",
    "custom_tool_call",
    "tool_search_call",
    "shell_call",
    "local_shell_call",
    "apply_patch_call",
    "computer_call",
)
_OUTPUTS = tuple(
    f"{call}_output" if call != "tool_search_call" else "tool_search_output" for call in _CALLS
)


_UNANSWERED: dict[object, Wording] = {
    "custom_tool_call": say.CUSTOM_UNANSWERED,
    "tool_search_call": say.SEARCH_UNANSWERED,
}


def check_pairing(body: dict[str, Any]) -> Iterator[Violation]:
    """Hold the items against the rules above."""
    items = objects(body.get("input"))
    stored = body.get("previous_response_id") is not None or body.get("conversation") is not None
    # A reference stands for any stored item, so also for a call (recorded: mastra-ai/mastra, 100 accepted requests).
    stored = stored or any(item.get("type") == "item_reference" for item in items)
    yield from _check_calls(items, has_stored_history=stored)
    yield from _check_reasoning(items)
    if body.get("store") is False:
        yield from _check_stored(items)


def _check_calls(items: list[dict[str, Any]], *, has_stored_history: bool) -> Iterator[Violation]:
    pending: dict[str, object] = {}
    answered: set[str] = set()
    searched: set[str] = (
        set()
    )  # the server runs these; an output of the client's is accepted (RSP-02)
    for item in items:
        identifier, kind = as_string(item.get("call_id")), item.get("type")
        if identifier is None:
            continue
        if kind == "tool_search_call" and item.get("execution") != "client":
            searched.add(identifier)
        elif kind in _CALLS:
            if identifier in pending:
                yield say.DUPLICATE.fill(identifier=identifier)
            pending[identifier] = kind
        elif kind in _OUTPUTS:
            if identifier not in searched:
                yield from _check_output(identifier, pending, answered, has_stored_history)
            pending.pop(identifier, None)
            answered.add(identifier)
    for identifier, kind in pending.items():
        yield _UNANSWERED.get(kind, say.UNANSWERED).fill(identifier=identifier)


def _check_output(
    identifier: str, pending: dict[str, object], answered: set[str], has_stored_history: bool
) -> Iterator[Violation]:
    if identifier in pending:
        return
    if identifier in answered:
        yield say.DUPLICATE.fill(identifier=identifier)
    elif not has_stored_history:
        yield say.ORPHAN.fill(identifier=identifier)


def _check_reasoning(items: list[dict[str, Any]]) -> Iterator[Violation]:
    waiting: dict[str, Any] | None = None
    for item in items:
        kind = item.get("type", "message")
        if kind == "reasoning":
            waiting = item if item.get("id") else None
        elif waiting is not None:
            if not _is_output(kind, item):
                yield say.REASONING_ALONE.fill(identifier=waiting.get("id"))
            waiting = None
    if waiting is not None:
        yield say.REASONING_ALONE.fill(identifier=waiting.get("id"))


def _is_output(kind: object, item: dict[str, Any]) -> bool:
    """Whether the model itself produced the item."""
    if kind == "message":
        return item.get("role") == "assistant" and item.get("id") is not None
    return isinstance(kind, str) and not kind.endswith("_output")


def _check_stored(items: list[dict[str, Any]]) -> Iterator[Violation]:
    for item in items:
        kind, identifier = item.get("type"), item.get("id")
        is_reference = kind == "item_reference"
        is_bare_reasoning = kind == "reasoning" and not item.get("encrypted_content")
        if identifier is not None and (is_reference or is_bare_reasoning):
            yield say.NOT_STORED.fill(identifier=identifier)


# The judge.

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
