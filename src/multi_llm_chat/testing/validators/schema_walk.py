"""Walking the subschemas of a JSON Schema, without recursion, each with its path."""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.typed_views import as_array, as_object

Context = tuple[str, ...]

_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalItems",
    "unevaluatedProperties",
    "unevaluatedItems",
)


def walk(schema: object) -> Iterator[tuple[Context, dict[str, Any]]]:
    """Every subschema that is an object, the root first, with the path that leads to it."""
    pending: list[tuple[Context, object]] = [((), schema)]
    while pending:
        context, value = pending.pop()
        found = as_object(value)
        if found is None:
            continue
        yield context, found
        pending.extend(reversed(list(_children(context, found))))


def _children(context: Context, schema: dict[str, Any]) -> Iterator[tuple[Context, object]]:
    for word in _SCHEMA_MAPS:
        for name, child in (as_object(schema.get(word)) or {}).items():
            yield (*context, word, name), child
    for word in _SCHEMA_LISTS:
        for index, child in enumerate(as_array(schema.get(word)) or []):
            yield (*context, word, str(index)), child
    for word in _SCHEMAS:
        listed = as_array(schema.get(word))
        if listed is not None:
            for index, child in enumerate(listed):
                yield (*context, word, str(index)), child
        elif word in schema:
            yield (*context, word), schema[word]


def has_type(schema: dict[str, Any], name: str) -> bool:
    """Whether the schema's ``type`` is, or includes, the named one."""
    kind = schema.get("type")
    return kind == name or (isinstance(kind, list) and name in kind)
