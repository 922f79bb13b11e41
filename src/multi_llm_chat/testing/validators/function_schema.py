"""What OpenAI asks of a function's parameter schema when it is not strict (OAI-14, catalogue §5).

1. The root is an object schema and names its properties (an empty schema means no parameters).
2. The root has no ``oneOf``, ``anyOf``, ``allOf``, ``enum`` or ``not``.
3. Every array schema says what its items are.
"""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.schema_walk import has_type, walk

_ROOT_COMBINATORS = ("oneOf", "anyOf", "allOf", "enum", "not")


def function_faults(schema: dict[str, Any]) -> Iterator[str]:
    """The reasons why OpenAI refuses the schema, in its words after the function's name."""
    if not schema:
        return
    kind = schema.get("type")
    if kind != "object":
        shown = "None" if kind is None else kind
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{shown}\"'."
    if any(word in schema for word in _ROOT_COMBINATORS):
        yield (
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at "
            "the top level."
        )
    if kind == "object" and "properties" not in schema:
        yield "In context=(), object schema missing properties."
    for context, found in walk(schema):
        if has_type(found, "array") and "items" not in found and "prefixItems" not in found:
            yield f"In context={context!r}, array schema missing items."
