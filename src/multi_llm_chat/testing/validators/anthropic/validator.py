"""The judge of Anthropic Messages requests.

Members are judged in the order in which api.anthropic.com was seen to report them, then unknown
keys, then the conversation, then what the model itself refuses.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.anthropic import wordings as say
from multi_llm_chat.testing.validators.anthropic.messages import (
    check_conversation,
    check_messages,
    check_system,
)
from multi_llm_chat.testing.validators.anthropic.models import claude_model
from multi_llm_chat.testing.validators.anthropic.pairing import check_pairing
from multi_llm_chat.testing.validators.anthropic.thinking import (
    check_thinking,
    check_thinking_blocks,
    check_thinking_with_request,
)
from multi_llm_chat.testing.validators.anthropic.tools import (
    check_choice_among_tools,
    check_tool_choice,
    check_tool_names,
    check_tools,
)
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_number,
    as_object,
    as_string,
    is_of_kind,
    members,
    objects,
)
from multi_llm_chat.testing.validators.violation import Violation


class _Member(msgspec.Struct, frozen=True):
    """The type and range of one top-level member."""

    kind: str
    nullable: bool = False
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()


#: In the order of report; the members with checks of their own come before these.
_MEMBERS: dict[str, _Member] = {
    "output_config": _Member("shape"),
    "cache_control": _Member("object", nullable=True),
    "max_tokens": _Member("integer", low=0),
    "metadata": _Member("shape"),
    "stop_sequences": _Member("array"),
    "temperature": _Member("decimal", low=0, high=1),
    "service_tier": _Member("value", values=("auto", "standard_only")),
    "top_k": _Member("integer", low=0),
    "top_p": _Member("decimal", low=0, high=1),
    "stream": _Member("boolean"),
    "speed": _Member("value", nullable=True, values=("standard", "fast")),
    "inference_geo": _Member("string", nullable=True),
    "diagnostics": _Member("object", nullable=True),
    "user_profile_id": _Member("string"),
}
_KNOWN = frozenset(_MEMBERS) | {
    "model",
    "messages",
    "tools",
    "tool_choice",
    "system",
    "thinking",
    "container",
}
_BREAKPOINTS = 4


def validate_anthropic(body: object, model: str | None) -> Iterator[Violation]:
    """Judge a request to ``/v1/messages``."""
    request = as_object(body)
    if request is None:
        yield say.TYPE.fill(path="body", reason="Input should be an object")
        return
    claude = claude_model(model if model is not None else as_string(request.get("model")) or "")
    yield from _check_model(request)
    yield from check_tool_choice(request)
    yield from check_tools(request)
    yield from check_messages(request)
    yield from check_system(request)
    yield from check_thinking(request)
    yield from _check_members(request)
    for key in request:
        if key not in _KNOWN:
            yield say.EXTRA.fill(path=key)
    yield from check_conversation(request, claude)
    yield from check_pairing(request)
    yield from check_tool_names(request)
    yield from check_choice_among_tools(request)
    yield from check_thinking_with_request(request, claude)
    yield from check_thinking_blocks(request, claude)
    yield from _check_breakpoints(request)


def _check_model(request: dict[str, Any]) -> Iterator[Violation]:
    if "model" not in request:
        yield say.REQUIRED.fill(path="model")
    elif not isinstance(request["model"], str):
        yield say.wrong_type("model", "string")
    elif not request["model"]:
        yield say.TYPE.fill(path="model", reason="String should have at least 1 character")


def _check_members(request: dict[str, Any]) -> Iterator[Violation]:
    if "max_tokens" not in request:
        yield say.REQUIRED.fill(path="max_tokens")
    for name, member in _MEMBERS.items():
        if name in request and not (request[name] is None and member.nullable):
            yield from _check_member(name, member, request[name])
    for index, sequence in enumerate(as_array(request.get("stop_sequences")) or []):
        if not isinstance(sequence, str):
            yield say.wrong_type(f"stop_sequences.{index}", "string")
    for key in members(request.get("metadata")):
        if key != "user_id":
            yield say.EXTRA.fill(path=f"metadata.{key}")


def _check_member(name: str, member: _Member, value: object) -> Iterator[Violation]:
    if member.kind == "value":
        if value not in member.values:
            names = " or ".join(f"'{item}'" for item in member.values)
            yield say.TYPE.fill(path=name, reason=f"Input should be {names}")
        return
    if not is_of_kind(value, member.kind):
        yield say.wrong_type(name, member.kind)
        return
    number = as_number(value)
    if number is None:
        return
    if member.high is not None and not (member.low or 0) <= number <= member.high:
        yield say.VALUE.fill(path=name, reason="range: 0..1")
    elif member.low is not None and number < member.low:
        yield say.VALUE.fill(path=name, reason="must be greater than or equal to 0")


def _check_breakpoints(request: dict[str, Any]) -> Iterator[Violation]:
    blocks = [request, *objects(request.get("tools")), *objects(request.get("system"))]
    for message in objects(request.get("messages")):
        for block in objects(message.get("content")):
            blocks.append(block)
            blocks.extend(objects(block.get("content")))
    count = sum(1 for block in blocks if block.get("cache_control") is not None)
    if count > _BREAKPOINTS:
        yield say.CACHE_BREAKPOINTS.fill(count=count)
