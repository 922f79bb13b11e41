"""Ollama's ``/v1/chat/completions``: Go structs decode the request, little else is asked.

Ollama pairs nothing and knows no role or name it would refuse. What it cannot decode it refuses;
three shapes it accepts and silently mangles (OLL-03, OLL-04, OLL-08) are reported with status 200.
"""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.chat.row import ChatCall, calls_of
from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string, members
from multi_llm_chat.testing.validators.violation import Violation

_GO_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "float64"),
    (float, "float64"),
    (str, "string"),
    (list, "[]interface {}"),
    (dict, "map[string]interface {}"),
)
_JSON_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "number"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


def _named(value: object, table: tuple[tuple[type, str], ...]) -> str:
    return next((name for kind, name in table if isinstance(value, kind)), "<nil>")


def check_ollama_messages(call: ChatCall) -> Iterator[Violation]:
    """OLL-01, OLL-03, OLL-04: contents that are refused or torn apart."""
    for index, message in call.messages():
        content = message.get("content")
        if isinstance(content, str):
            continue
        parts = as_array(content)
        if parts is None and message.get("tool_calls") is None:
            yield from call.say("content_kind", go_type=_named(content, _GO_TYPES))
        elif parts is not None:
            if message.get("role") == "tool":
                yield from call.say("tool_list", index=index)
            if not parts and message.get("tool_calls"):
                yield from call.say("calls_moved", index=index)


def check_ollama_identifiers(call: ChatCall) -> Iterator[Violation]:
    """OLL-08: results are named after the last call with their id."""
    names: dict[str, object] = {}
    for index, message in call.messages():
        for made in calls_of(message):
            identifier = as_string(made.get("id"))
            name = members(made.get("function")).get("name")
            if identifier is not None and names.setdefault(identifier, name) != name:
                yield from call.say("identifier_reused", index=index, identifier=identifier)


def check_ollama_tools(call: ChatCall) -> Iterator[Violation]:
    """OLL-06: a tool's schema must fit the Go struct it is decoded into."""
    for _, tool in call.tools():
        function = members(tool.get("function"))
        if "parameters" not in function:
            continue
        parameters = as_object(function["parameters"])
        if parameters is None:
            yield from _mismatch(call, function["parameters"], "parameters", "ToolFunction")
        else:
            yield from _check_parameters(call, parameters)


def _check_parameters(call: ChatCall, parameters: dict[str, Any]) -> Iterator[Violation]:
    kind = parameters.get("type")
    if kind is not None and not isinstance(kind, str):
        yield from _mismatch(call, kind, "parameters.type", "string")
    yield from _check_required(call, parameters.get("required"))
    pending: list[Any] = [parameters.get("properties")]
    while pending:
        properties = pending.pop()
        if properties is None:
            continue
        named = as_object(properties)
        if named is None:
            yield from _mismatch(call, properties, "parameters.properties", "ToolProperty")
            continue
        for child in named.values():
            yield from _check_property(call, child)
            pending.extend(_nested(child))


def _nested(value: object) -> Iterator[Any]:
    found = members(value)
    yield found.get("properties")
    for choice in as_array(found.get("anyOf")) or []:
        yield members(choice).get("properties")


def _check_required(call: ChatCall, required: object) -> Iterator[Violation]:
    if required is None:
        return
    names = as_array(required)
    if names is None or not all(isinstance(name, str) for name in names):
        yield from _mismatch(call, required, "parameters.required", "[]string")


def _check_property(call: ChatCall, value: object) -> Iterator[Violation]:
    where = "parameters.properties"
    found = as_object(value)
    if found is None:
        # A null decodes to the zero value; everything else that is no object does not decode.
        if value is not None:
            yield from _mismatch(call, value, where, "api.ToolProperty")
        return
    kind = found.get("type")
    names = [kind] if as_array(kind) is None and kind is not None else as_array(kind) or []
    if not all(isinstance(name, str) for name in names):
        yield from _mismatch(call, kind, f"{where}.type", "api.PropertyType")
    description = found.get("description")
    if description is not None and not isinstance(description, str):
        yield from _mismatch(call, description, f"{where}.description", "string")
    for word in ("enum", "anyOf"):
        if found.get(word) is not None and as_array(found[word]) is None:
            yield from _mismatch(call, found[word], f"{where}.{word}", "[]interface {}")
    for choice in as_array(found.get("anyOf")) or []:
        if as_object(choice) is None and choice is not None:
            yield from _mismatch(call, choice, f"{where}.anyOf", "api.ToolProperty")


def _mismatch(call: ChatCall, value: object, field: str, wanted: str) -> Iterator[Violation]:
    yield from call.say(
        "schema_decode", json_type=_named(value, _JSON_TYPES), field=field, wanted=wanted
    )
