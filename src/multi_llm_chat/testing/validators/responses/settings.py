"""Tools and parameters of a Responses request."""

from collections.abc import Iterator
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.function_schema import function_faults, strict_faults
from multi_llm_chat.testing.validators.openai_models import openai_model
from multi_llm_chat.testing.validators.responses import wordings as say
from multi_llm_chat.testing.validators.responses.items import check_name
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_number,
    as_object,
    as_string,
    is_of_kind,
    members,
    objects,
)
from multi_llm_chat.testing.validators.violation import Violation, listed

_FUNCTION = frozenset(
    {
        "type",
        "name",
        "parameters",
        "strict",
        "description",
        "defer_loading",
        "allowed_callers",
        "output_schema",
        "async",
    }
)
_INCLUDE = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
_TOOL_LIMIT = 128


class _Parameter(msgspec.Struct, frozen=True):
    """The type and range of one top-level member."""

    kind: str
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    known: frozenset[str] | None = None


_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "decimal": "a decimal",
    "boolean": "a boolean",
    "object": "an object",
    "array": "an array of objects",
}
#: In the order of report.
_PARAMETERS: dict[str, _Parameter] = {
    "previous_response_id": _Parameter("string"),
    "prompt": _Parameter("object"),
    "include": _Parameter("array"),
    "metadata": _Parameter("object"),
    "text": _Parameter("object", known=frozenset({"format", "verbosity"})),
    "temperature": _Parameter("decimal", low=0, high=2),
    "top_p": _Parameter("decimal", low=0, high=1),
    "presence_penalty": _Parameter("decimal", low=-2, high=2),
    "frequency_penalty": _Parameter("decimal", low=-2, high=2),
    "top_logprobs": _Parameter("integer", low=0, high=20),
    "max_output_tokens": _Parameter("integer", low=16),
    "max_tool_calls": _Parameter("integer", low=1),
    "parallel_tool_calls": _Parameter("boolean"),
    "reasoning": _Parameter(
        "object", known=frozenset({"effort", "summary", "context", "mode", "generate_summary"})
    ),
    "truncation": _Parameter("string", values=("auto", "disabled")),
    "service_tier": _Parameter("string", values=("auto", "default", "fast", "flex", "priority")),
    "prompt_cache_key": _Parameter("string"),
    "prompt_cache_retention": _Parameter("string", values=("in_memory", "24h")),
    "prompt_cache_options": _Parameter(
        "object", known=frozenset({"mode", "ttl", "prewarm", "comparison_response_id"})
    ),
    "safety_identifier": _Parameter("string"),
    "user": _Parameter("string"),
    "instructions": _Parameter("string"),
    "store": _Parameter("boolean"),
    "stream": _Parameter("boolean"),
    "stream_options": _Parameter("object", known=frozenset({"include_obfuscation"})),
    "background": _Parameter("boolean"),
    "context_management": _Parameter("array"),
    "moderation": _Parameter("object"),
}
KNOWN_KEYS = frozenset(_PARAMETERS) | {
    "model",
    "input",
    "tools",
    "tool_choice",
    "conversation",
    "access_programs",
    "image",
    "client_metadata",  # Codex says it with every request
}
_MOVED = {
    "messages": "input",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}


def check_keys(body: dict[str, Any]) -> Iterator[Violation]:
    """Unknown keys, among them those of Chat Completions (RSP-12)."""
    for key in body:
        if key in _MOVED:
            yield say.MOVED_KEY.fill(name=key, place=_MOVED[key])
        elif key not in KNOWN_KEYS:
            yield say.UNKNOWN_KEY.fill(path=key)


def check_tools(body: dict[str, Any]) -> Iterator[Violation]:
    """Judge the ``tools`` member."""
    if body.get("tools") is None:
        return
    items = as_array(body["tools"])
    if items is None:
        yield say.wrong_type("tools", "an array of tools", body["tools"])
        return
    if len(items) > _TOOL_LIMIT:
        text = (
            f"Invalid 'tools': array too long. Expected an array with maximum length {_TOOL_LIMIT},"
            f" but got an array with length {len(items)} instead."
        )
        yield Violation("OAI-13", text, param="tools", code="array_above_max_length")
    for index, item in enumerate(items):
        path = f"tools[{index}]"
        tool = as_object(item)
        if tool is None:
            yield say.wrong_type(path, "an object", item)
        elif "type" not in tool:
            yield say.missing(f"{path}.type")
        elif tool["type"] == "function":
            yield from _check_function(path, tool)


def _check_function(path: str, tool: dict[str, Any]) -> Iterator[Violation]:
    yield from check_name(f"{path}.name", tool.get("name"))
    for key in tool:
        if key not in _FUNCTION:
            yield say.UNKNOWN_ITEM_KEY.fill(path=f"{path}.{key}")
    parameters = tool.get("parameters")
    if parameters is None:
        return
    schema = as_object(parameters)
    where = f"{path}.parameters"
    if schema is None:
        yield say.wrong_type(where, "an object", parameters)
        return
    name = as_string(tool.get("name")) or ""
    faults = [("OAI-14", reason) for reason in function_faults(schema)]
    if tool.get("strict") is True:
        faults += [("OAI-22", reason) for reason in strict_faults(schema, closes=True)]
    for rule, reason in faults:
        text = f"Invalid schema for function '{name}': {reason}"
        yield Violation(rule, text, param=where, code="invalid_function_parameters")


def check_tool_choice(body: dict[str, Any]) -> Iterator[Violation]:
    """Judge ``tool_choice``: only what is offered can be chosen."""
    choice = body.get("tool_choice")
    if choice is None:
        return
    tools = objects(body.get("tools"))
    if isinstance(choice, str):
        if choice not in ("none", "auto", "required"):
            yield say.wrong_value("tool_choice", choice, ("none", "auto", "required"), "OAI-15")
        elif choice == "required" and not tools:
            yield say.CHOICE_WITHOUT_TOOLS.fill(value=choice)
        return
    named = as_object(choice)
    if named is None:
        expected = "one of an object or 'none', 'auto', or 'required'"
        yield say.wrong_type("tool_choice", expected, choice, "OAI-15")
    elif named.get("type") == "function":
        name = as_string(named.get("name"))
        if name is None:
            yield say.missing("tool_choice.name", "OAI-15")
        elif not any(tool.get("name") == name for tool in tools):
            yield say.CHOICE_UNKNOWN.fill()


def check_parameters(body: dict[str, Any]) -> Iterator[Violation]:
    """Types, ranges and members of the parameters."""
    for name, parameter in _PARAMETERS.items():
        if body.get(name) is not None:
            yield from _check_parameter(name, parameter, body[name])
    for index, item in enumerate(as_array(body.get("include")) or []):
        if item not in _INCLUDE:
            yield say.wrong_value(f"include[{index}]", item, _INCLUDE)
    effort = members(body.get("reasoning")).get("effort")
    if effort is not None and effort not in _EFFORTS:
        yield say.wrong_value("reasoning.effort", effort, _EFFORTS)
    yield from _check_text(members(body.get("text")))


def _check_parameter(name: str, parameter: _Parameter, value: Any) -> Iterator[Violation]:
    if not is_of_kind(value, parameter.kind):
        yield say.wrong_type(name, _NAMES[parameter.kind], value)
        return
    if parameter.values and value not in parameter.values:
        yield say.wrong_value(name, value, parameter.values)
    for key in members(value):
        if parameter.known is not None and key not in parameter.known:
            yield say.UNKNOWN_KEY.fill(path=f"{name}.{key}")
    number = as_number(value)
    if number is not None:
        yield from _check_range(name, parameter, number)


def _check_range(name: str, parameter: _Parameter, value: float) -> Iterator[Violation]:
    low, high, kind = parameter.low, parameter.high, parameter.kind
    if low is not None and value < low:
        text = (
            f"Invalid '{name}': {kind} below minimum value. Expected a value >= {low}, but got "
            f"{value} instead."
        )
        yield Violation("RSP-DOC", text, param=name, code=f"{kind}_below_min_value")
    elif high is not None and value > high:
        text = (
            f"Invalid '{name}': {kind} above maximum value. Expected a value <= {high}, but got "
            f"{value} instead."
        )
        yield Violation("RSP-DOC", text, param=name, code=f"{kind}_above_max_value")


def _check_text(text: dict[str, Any]) -> Iterator[Violation]:
    verbosity = text.get("verbosity")
    if verbosity is not None and verbosity not in ("low", "medium", "high"):
        yield say.wrong_value("text.verbosity", verbosity, ("low", "medium", "high"))
    form = as_object(text.get("format"))
    if form is None:
        return
    kinds = ("json_object", "text", "json_schema")
    if form.get("type") not in kinds:
        yield say.wrong_value("text.format.type", form.get("type"), kinds)
    elif form["type"] == "json_schema":
        for member in ("name", "schema"):
            if member not in form:
                yield say.missing(f"text.format.{member}")


def check_capabilities(body: dict[str, Any], name: str) -> Iterator[Violation]:
    """What the named model refuses (OAI-19)."""
    model = openai_model(name)
    reasoning = members(body.get("reasoning"))
    include = as_array(body.get("include")) or []
    effort = reasoning.get("effort")
    if (
        model.efforts
        and isinstance(effort, str)
        and effort in _EFFORTS
        and effort not in model.efforts
    ):
        yield say.EFFORT.fill(value=effort, model=name, supported=listed(model.efforts))
    if model.is_reasoning(reasoning.get("effort")):
        for parameter in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
            if body.get(parameter) is not None:
                yield say.UNSUPPORTED.fill(path=parameter)
        if body.get("top_logprobs"):
            yield say.LOGPROBS.fill(path="top_logprobs")
        if "message.output_text.logprobs" in include:
            yield say.LOGPROBS.fill(path="include")
    elif name.lower().startswith("gpt-4"):
        if reasoning.get("effort") is not None:
            yield say.UNSUPPORTED.fill(path="reasoning.effort")
        if "reasoning.encrypted_content" in include:
            yield say.ENCRYPTED_UNSUPPORTED.fill()
