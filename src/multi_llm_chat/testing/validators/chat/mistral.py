"""Mistral's request rules: role order, pairing by count or by id, names and schemas.

Models of tokenizer version 3 pair by count and refuse text together with calls; later ones pair by id and
allow it. The hosted API asks for nine-character ids whatever the tokenizer.

1. Roles follow each other only as in ``_MAY_FOLLOW`` (MIS-04, MIS-05).
2. The last message is not an assistant's, unless it is a prefix (MIS-07).
3. Calls and results agree (MIS-02, MIS-03). Where they are counted, the first message is skipped; where ids are compared, the
   hosted API was recorded to take a call in it (MIS-18).
4. Ids, names and schemas have their form (MIS-01, MIS-09, MIS-10, MIS-13).
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from multi_llm_chat.testing.validators.chat.row import ChatCall, calls_of
from multi_llm_chat.testing.validators.function_schema import walk
from multi_llm_chat.testing.validators.meta_schema import draft7_fault
from multi_llm_chat.testing.validators.typed_views import as_object, as_string, members, objects
from multi_llm_chat.testing.validators.violation import Violation

_IDENTIFIER = re.compile(r"[a-zA-Z0-9]{9}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_THIRD_VERSION = re.compile(r"open-mistral-7b|open-mixtral|mistral-7b|mixtral-8x|codestral-mamba")

_MAY_FOLLOW: dict[str, tuple[str, ...]] = {
    "system": ("user", "assistant", "system"),
    "user": ("assistant", "system", "user"),
    "assistant": ("assistant", "user", "tool"),
    "tool": ("assistant", "tool", "user"),
}


def pairs_by_count(model: str) -> bool:
    """Whether the model has the old tokenizer that counts results instead of reading their ids."""
    return bool(_THIRD_VERSION.search(model.lower()))


def check_mistral_order(call: ChatCall) -> Iterator[Violation]:
    """Rules 1 and 2."""
    history = [message for _, message in call.messages()]
    roles = [as_string(message.get("role")) or "" for message in history]
    if len(roles) == 1 and roles[0] not in {"user", "system"}:
        yield from call.say("first_role")
    last = history[-1] if len(history) > 1 else {}
    if last.get("role") == "assistant" and last.get("prefix") is not True:
        yield from call.say("last_role", role="assistant")
    for previous, current in pairwise(roles):
        if previous in _MAY_FOLLOW and current not in _MAY_FOLLOW[previous]:
            fault = "role_order_system" if current == "system" else "role_order_tool"
            yield from call.say(fault, current=current, previous=previous)


def check_mistral_pairing(call: ChatCall) -> Iterator[Violation]:
    """Rule 3."""
    history = [message for _, message in call.messages()]
    if pairs_by_count(call.model):
        yield from _check_counts(call, history[1:])
    else:
        yield from _check_identifiers(call, history)


def _check_counts(call: ChatCall, history: list[dict[str, Any]]) -> Iterator[Violation]:
    awaited = 0
    for message in history:
        if message.get("role") == "tool":
            awaited -= 1
        elif message.get("role") == "assistant":
            if awaited:
                yield from call.say("counts_differ")
            awaited = len(calls_of(message))
    if awaited:
        yield from call.say("counts_differ")


def _check_identifiers(call: ChatCall, history: list[dict[str, Any]]) -> Iterator[Violation]:
    expected: set[object] = set()
    observed: set[object] = set()
    for message in history:
        if message.get("role") == "tool":
            yield from _check_result(
                call, as_string(message.get("tool_call_id")), expected, observed
            )
        elif message.get("role") == "assistant":
            if len(expected) != len(observed):
                yield from call.say("counts_differ")
            expected, observed = set(), set()
            for made in calls_of(message):
                identifier = as_string(made.get("id"))
                if identifier in expected:
                    yield from call.say("call_id_duplicate", identifier=identifier)
                expected.add(identifier)
    if len(expected) != len(observed):
        yield from call.say("counts_differ")


def _check_result(
    call: ChatCall, identifier: str | None, expected: set[object], observed: set[object]
) -> Iterator[Violation]:
    if identifier in observed:
        yield from call.say("result_duplicate", identifier=identifier)
    elif identifier not in expected:
        yield from call.say("result_unexpected", identifier=identifier)
    else:
        observed.add(identifier)


def check_mistral_content(call: ChatCall) -> Iterator[Violation]:
    """MIS-01, MIS-08, MIS-09 and the place of a prefix."""
    history = list(call.messages())
    for index, message in history:
        role = message.get("role")
        if role == "assistant":
            yield from _check_assistant(call, message, is_last=index == history[-1][0])
        elif role == "tool":
            yield from _check_identifier(call, message.get("tool_call_id"))
            yield from _check_name(call, message.get("name"))
        elif message.get("content") is None:
            yield from call.say("content_null", index=index, role=role)


def _check_assistant(
    call: ChatCall, message: dict[str, Any], *, is_last: bool
) -> Iterator[Violation]:
    has_content, has_calls = bool(message.get("content")), bool(message.get("tool_calls"))
    if not has_content and not has_calls:
        yield from call.say("assistant_empty")
    elif has_content and has_calls and pairs_by_count(call.model):
        yield from call.say("assistant_both")
    if message.get("prefix") is True and not is_last:
        yield from call.say("prefix_place")
    for made in calls_of(message):
        yield from _check_identifier(call, made.get("id"))
        yield from _check_name(call, members(made.get("function")).get("name"))


def _check_identifier(call: ChatCall, identifier: object) -> Iterator[Violation]:
    if identifier is None or identifier == "null":
        yield from call.say("identifier_missing")
    elif not isinstance(identifier, str) or not _IDENTIFIER.fullmatch(identifier):
        yield from call.say("identifier_form", identifier=identifier)


def _check_name(call: ChatCall, name: object) -> Iterator[Violation]:
    if isinstance(name, str) and not _NAME.fullmatch(name):
        yield from call.say("name_form", name=name)


def check_mistral_tools(call: ChatCall) -> Iterator[Violation]:
    """MIS-09 for definitions, MIS-10 and MIS-13."""
    for index, tool in call.tools():
        function = members(tool.get("function"))
        yield from _check_name(call, function.get("name"))
        parameters = as_object(function.get("parameters"))
        if parameters is None:
            yield from call.say("parameters_missing", index=index)
            continue
        fault = draft7_fault(parameters)
        if fault is not None:
            yield from call.say("schema_invalid", reason=fault)
        # "$schema" is accepted (recorded: maruel/genai providers/mistral, 88 requests).
        if any("$id" in schema for _, schema in walk(parameters)):
            yield from call.say("schema_keyword", word="$id")


def check_mistral_media(call: ChatCall) -> Iterator[Violation]:
    """MIS-15: only Voxtral models take sound, and they and the model of Vibe take no pictures (recorded: maruel/genai providers/mistral)."""
    hears = "voxtral" in call.model.lower()
    for _, message in call.messages():
        kinds = {part.get("type") for part in objects(message.get("content"))}
        if "input_audio" in kinds and not hears:
            yield from call.say("audio_disabled")
        if "image_url" in kinds and (hears or "vibe-cli" in call.model):
            yield from call.say("images_disabled")
