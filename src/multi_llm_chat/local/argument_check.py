"""Check arguments against a tool's schema.

Rules:
1. ``jsonschema-rs`` decides where it is installed; otherwise types, required keys, choices and
   forbidden keys are checked here, at every depth.
2. What is wrong is told in a sentence; a schema that is itself broken forbids nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.values import JsonObject

_TYPES: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool)
        and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}


def fault_in(arguments: JsonObject, schema: JsonObject) -> str | None:
    """What is wrong with the arguments; None for nothing."""
    try:
        checker: Any = import_module("jsonschema_rs")
    except ImportError:
        return minimal_fault(arguments, schema)
    try:
        checker.validate(schema, arguments)
    except checker.ValidationError as error:
        return f"The arguments do not fit the tool: {error.message}."
    except (ValueError, checker.ReferencingError):
        return None  # the schema's fault, not the arguments'
    return None


def minimal_fault(arguments: JsonObject, schema: JsonObject) -> str | None:
    """What is wrong by the commonest rules alone."""
    found = next(_faults(arguments, schema, "arguments"), None)
    return None if found is None else f"The arguments do not fit the tool: {found}."


def _faults(value: Any, schema: JsonObject, where: str) -> Iterator[str]:
    kinds = schema.get("type")
    names: list[Any] = as_list(kinds) or ([kinds] if isinstance(kinds, str) else [])
    if names and not any(_TYPES.get(str(name), _anything)(value) for name in names):
        yield f"{where} must be {' or '.join(map(str, names))}"
        return
    choices = as_list(schema.get("enum"))
    if choices is not None and value not in choices:
        yield f"{where} must be one of {choices}"
    fields, items = as_object(value), as_list(value)
    if fields is not None:
        yield from _field_faults(fields, schema, where)
    element = as_object(schema.get("items"))
    if items is not None and element is not None:
        for at, item in enumerate(items):
            yield from _faults(item, element, f"{where}[{at}]")


def _field_faults(fields: JsonObject, schema: JsonObject, where: str) -> Iterator[str]:
    properties = as_object(schema.get("properties")) or {}
    for name in as_list(schema.get("required")) or ():
        if name not in fields:
            yield f"{where} lack {name!r}"
    for name, value in fields.items():
        inner = as_object(properties.get(name))
        if inner is not None:
            yield from _faults(value, inner, f"{where}.{name}")
        elif name not in properties and schema.get("additionalProperties") is False:
            yield f"{where} may not have {name!r}"


def _anything(_: object) -> bool:
    return True
