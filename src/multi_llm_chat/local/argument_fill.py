"""Have a small model fill in the arguments of a tool, and check what it wrote.

Rules:
1. The model can write nothing that the tool's schema does not allow: the schema is its grammar.
2. The prompt names the arguments and nothing else about the tool: a very small model copies
   whatever else it sees, a description's own sample first of all.
3. What comes back is checked against the full schema; arguments that fail come with an error, a sentence.
4. A tool without arguments is not asked about.
5. ``jsonschema-rs`` decides where it is installed; otherwise types, required keys, choices and
   forbidden keys are checked here, at every depth. A schema that is itself broken forbids nothing.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from multi_llm_chat.errors import BadRequest
from multi_llm_chat.history.arguments import parse_arguments
from multi_llm_chat.history.json_values import as_list, as_object, compact_json
from multi_llm_chat.history.values import JsonObject, ToolCall
from multi_llm_chat.local.generation import Asking
from multi_llm_chat.local.tool_choice import Example, Offer
from multi_llm_chat.schema.dialect_rules import LLAMACPP
from multi_llm_chat.schema.tool_schema import project_schema

_LONGEST = 200

#: Examples of copying, from tools nobody has.
_COPYING = (
    Example("Translate 'good morning' into French", {"text": "good morning", "language": "French"}),
    Example("Order 3 pizzas for tonight", {"dish": "pizza", "count": 3}),
    Example("Show me pages about blue whales", {"topic": "blue whales"}),
    Example("What is six plus 5?", {"formula": "6 + 5"}),
)


def fill(asking: Asking, offer: Offer, question: str, tool_call_id: str) -> ToolCall:
    """The call of the tool that answers the question; ``error`` tells that it cannot be used."""
    tool = offer.tool
    properties = as_object(tool.schema.get("properties")) or {}
    if not properties:
        return ToolCall(tool.name, {}, tool_call_id)
    projected = project_schema(tool.schema, LLAMACPP)
    messages = _messages([*_COPYING, *offer.filled], question, properties)
    text = _ask(asking, messages, projected.schema)
    arguments, raw, error = parse_arguments(text)
    arguments = {projected.renamed.get(key, key): value for key, value in arguments.items()}
    error = error or fault_in(arguments, tool.schema)
    if error is not None:
        return ToolCall(tool.name, {}, tool_call_id, raw or text, error)
    return ToolCall(tool.name, arguments, tool_call_id, compact_json(arguments))


def _ask(asking: Asking, messages: list[JsonObject], schema: JsonObject) -> str:
    settings: JsonObject = {"max_tokens": _LONGEST, "temperature": 0}
    try:
        return asking.ask(messages, settings | {"json_schema": schema}).text
    except BadRequest:
        # A schema that the runtime cannot make a grammar of: any object, and the check decides.
        return asking.ask(messages, settings | {"json_schema": {"type": "object"}}).text


def _messages(
    examples: Sequence[Example], question: str, properties: JsonObject
) -> list[JsonObject]:
    messages: list[JsonObject] = [
        {"role": "system", "content": "Copy the arguments from the message, as JSON."}
    ]
    for example in examples:
        asked = _asked(example.message, example.arguments)
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": json.dumps(example.arguments)})
    return [*messages, {"role": "user", "content": _asked(question, properties)}]


def _asked(message: str, properties: JsonObject) -> str:
    return f"{message}\n({', '.join(properties)})"


# The check of arguments.

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
