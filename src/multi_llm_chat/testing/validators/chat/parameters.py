"""The top level of a Chat Completions request: required members, known keys, types and ranges.

OpenAI's models refuse some requests that are well formed (OAI-16, OAI-19): reasoning models refuse sampling
parameters; from gpt-5.4 on they also refuse function tools on Chat Completions unless reasoning is switched off.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.chat.row import ChatCall
from multi_llm_chat.testing.validators.openai_models import openai_model
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_number,
    as_object,
    as_string,
    is_of_kind,
    members,
    objects,
    type_name,
)
from multi_llm_chat.testing.validators.violation import Violation, listed


class Parameter(msgspec.Struct, frozen=True):
    """The type and range of one top-level member."""

    kind: str
    nullable: bool = True
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()


_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_TIERS = ("auto", "default", "fast", "flex", "priority", "scale")

#: In the order in which api.openai.com was seen to report them.
OPENAI_PARAMETERS: dict[str, Parameter] = {
    "functions": Parameter("array", nullable=False),
    "parallel_tool_calls": Parameter("boolean", nullable=False),
    "max_completion_tokens": Parameter("integer", low=1),
    "max_tokens": Parameter("integer", low=1),
    "n": Parameter("integer", low=1, high=128),
    "temperature": Parameter("decimal", low=0, high=2),
    "top_p": Parameter("decimal", low=0, high=1),
    "presence_penalty": Parameter("decimal", low=-2, high=2),
    "frequency_penalty": Parameter("decimal", low=-2, high=2),
    "logprobs": Parameter("boolean"),
    "top_logprobs": Parameter("integer", low=0, high=20),
    "logit_bias": Parameter("object"),
    "user": Parameter("string", nullable=False),
    "seed": Parameter("integer"),
    "safety_identifier": Parameter("string"),
    "prompt_cache_options": Parameter("object", nullable=False),
    "prompt_cache_key": Parameter("string"),
    "prompt_cache_retention": Parameter("string", values=("in_memory", "24h")),
    "service_tier": Parameter("string", values=_TIERS),
    "stream": Parameter("boolean"),
    "stream_options": Parameter("object"),
    "store": Parameter("boolean"),
    "metadata": Parameter("object"),
    "reasoning_effort": Parameter("string", values=_EFFORTS),
    "response_format": Parameter("object"),
    "verbosity": Parameter("string", values=("low", "medium", "high")),
    "web_search_options": Parameter("object", nullable=False),
    "moderation": Parameter("object"),
    "modalities": Parameter("array"),
    "audio": Parameter("object"),
    "prediction": Parameter("object"),
}

_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "decimal": "a decimal",
    "boolean": "a boolean",
    "object": "an object",
    "array": "an array of objects",
}


def check_required(call: ChatCall) -> Iterator[Violation]:
    """The model and the messages must be there."""
    if not as_string(call.body.get("model")):
        yield from call.say("model_missing", path="model")
    if "messages" not in call.body:
        yield from call.say("messages_missing", path="messages")


def check_request_keys(call: ChatCall) -> Iterator[Violation]:
    """A strict row knows all of its keys."""
    known = call.row.request_keys
    if known is None:
        return
    for key in call.body:
        if key not in known:
            yield from call.say("request_key", key=key, path=key, value=repr(call.body[key]))


def check_parameters(call: ChatCall) -> Iterator[Violation]:
    """Types, ranges and enumerations of OpenAI's own parameters."""
    for name, parameter in OPENAI_PARAMETERS.items():
        if name in call.body:
            yield from _check_parameter(call, name, parameter, call.body[name])
    yield from _check_stop(call)
    yield from _check_response_format(call)


def _check_parameter(
    call: ChatCall, name: str, parameter: Parameter, value: Any
) -> Iterator[Violation]:
    if value is None and parameter.nullable:
        return
    if not is_of_kind(value, parameter.kind):
        expected = listed(parameter.values, "or") if parameter.values else _NAMES[parameter.kind]
        if parameter.values:
            expected = f"one of {expected}"
        yield from call.say("parameter_type", path=name, expected=expected, actual=type_name(value))
    elif parameter.values and value not in parameter.values:
        yield from call.say(
            "parameter_value", path=name, value=value, supported=listed(parameter.values)
        )
    else:
        yield from _check_range(call, name, parameter, as_number(value))


def _check_range(
    call: ChatCall, name: str, parameter: Parameter, value: float | None
) -> Iterator[Violation]:
    if value is None:
        return
    kind = parameter.kind
    if parameter.low is not None and value < parameter.low:
        yield from call.say("parameter_low", path=name, kind=kind, value=value, limit=parameter.low)
    elif parameter.high is not None and value > parameter.high:
        limit = parameter.high
        yield from call.say("parameter_high", path=name, kind=kind, value=value, limit=limit)


def _check_stop(call: ChatCall) -> Iterator[Violation]:
    stop = call.body.get("stop")
    if stop is None or isinstance(stop, str):
        return
    sequences = as_array(stop)
    expected = "one of a string or array of strings"
    if sequences is None or not all(isinstance(item, str) for item in sequences):
        yield from call.say(
            "parameter_type", path="stop", expected=expected, actual=type_name(stop)
        )
    elif len(sequences) > 4:
        yield from call.say(
            "parameter_type", path="stop", expected="at most 4 sequences", actual="an array"
        )


def _check_response_format(call: ChatCall) -> Iterator[Violation]:
    chosen = as_object(call.body.get("response_format"))
    if chosen is None:
        return
    kinds = ("json_object", "json_schema", "text")
    if "type" not in chosen:
        yield from call.say("parameter_missing", path="response_format.type")
    elif chosen["type"] not in kinds:
        yield from call.say(
            "parameter_value",
            path="response_format.type",
            value=chosen["type"],
            supported=listed(kinds),
        )
    elif chosen["type"] == "json_schema":
        named = as_object(chosen.get("json_schema"))
        if named is None:
            yield from call.say("parameter_missing", path="response_format.json_schema")
        elif not as_string(named.get("name")):
            yield from call.say("parameter_missing", path="response_format.json_schema.name")


# What OpenAI's models refuse.

#: Refused by reasoning models whatever the value.
_NEVER = ("logit_bias", "prediction")
#: Refused while the model reasons.
_WHILE_REASONING = ("frequency_penalty", "presence_penalty", "logprobs")


def check_capabilities(call: ChatCall) -> Iterator[Violation]:
    """Parameters and tools that the named model does not take."""
    model = openai_model(call.model)
    if not model.can_reason:
        return
    body = call.body
    if body.get("max_tokens") is not None:
        yield from call.say("max_tokens_unsupported")
    effort = body.get("reasoning_effort")
    if model.efforts and isinstance(effort, str) and effort not in model.efforts:
        yield from call.say(
            "effort_unsupported", value=effort, model=call.model, supported=listed(model.efforts)
        )
    reasoning = model.is_reasoning(body.get("reasoning_effort"))
    stop = () if model.takes_stop else ("stop",)
    refused = (*stop, *_NEVER, *(_WHILE_REASONING if reasoning else ()))
    for name in refused:
        if body.get(name) not in (None, False, 0):
            yield from call.say("parameter_unsupported", path=name)
    if reasoning:
        yield from _check_sampling(call)
        if model.refuses_tools_while_reasoning and _offers_functions(call):
            yield from call.say("tools_while_reasoning", model=call.model)


def check_model_messages(call: ChatCall) -> Iterator[Violation]:
    """Roles, sound and search that the named model does not take (OAI-25, OAI-28, OAI-29)."""
    model = openai_model(call.model)
    for index, message in call.messages():
        role = message.get("role")
        if not model.takes_system and role in ("system", "developer"):
            yield from call.say("role_unsupported", index=index, role=role)
        kinds = [part.get("type") for part in objects(message.get("content"))]
        if model.is_known_deaf and "input_audio" in kinds:
            yield from call.say("audio_unsupported", index=index)
        if model.is_for_sound and "image_url" in kinds:
            yield from call.say("pictures_unsupported")
    if model.is_for_sound:
        form = members(call.body.get("response_format")).get("type")
        if form in ("json_object", "json_schema"):
            yield from call.say("format_unsupported", kind=form)
        if call.body.get("logprobs"):
            yield from call.say("logprobs_unsupported")
    if call.body.get("web_search_options") is not None and "search" not in call.model:
        yield from call.say("search_unsupported")


def _check_sampling(call: ChatCall) -> Iterator[Violation]:
    for name in ("temperature", "top_p"):
        value = as_number(call.body.get(name))
        if value is not None and value != 1:
            yield from call.say("temperature_unsupported", path=name, value=value)


def _offers_functions(call: ChatCall) -> bool:
    return any(tool.get("type") == "function" for tool in objects(call.body.get("tools")))
