"""What OpenAI asks of a function's parameter schema (OAI-14, OAI-22, catalogue §5).

When it is not strict:
1. The root is an object schema and names its properties (an empty schema means no parameters).
2. The root has no ``oneOf``, ``anyOf``, ``allOf``, ``enum`` or ``not``.
3. Every array schema says what its items are.

With ``strict: true``:
4. Every object forbids additional properties and requires all the properties it names.
5. Every array has typed items.
6. A ``$ref`` stands alone.
7. Only the keywords of structured outputs are used, patterns have no lookaround, and formats are
   the known nine.
"""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.typed_views import as_array, as_object, as_string, members

# Walking the subschemas of a JSON Schema, without recursion, each with its path.

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


# Schemas that are not strict.

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


# Strict schemas.

_REFUSED = (
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
)
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND = ("(?=", "(?!", "(?<=", "(?<!")


def strict_faults(schema: dict[str, Any], *, closes: bool = False) -> Iterator[str]:
    """The reasons why OpenAI refuses the schema in strict mode; ``closes``: it closes objects that say nothing of it.

    Responses does (recorded: open-telemetry/opentelemetry-js-contrib, openai-responses-records-function-calls.json).
    """
    for context, found in walk(schema):
        where = f"In context={context!r}, "
        if "$ref" in found:
            siblings = sorted(set(found) - {"$ref"} - ({"$defs", "definitions"}))
            if siblings:
                keywords = ", ".join(repr(word) for word in siblings)
                yield f"context={context!r}, $ref cannot have keywords {{{keywords}}}."
            continue
        yield from _keyword_faults(where, found)
        if has_type(found, "object") or "properties" in found:
            yield from _object_faults(
                where, ({"additionalProperties": False} if closes else {}) | found
            )
        if has_type(found, "array"):
            yield from _array_faults(context, found)


def _keyword_faults(where: str, schema: dict[str, Any]) -> Iterator[str]:
    for word in _REFUSED:
        if word in schema:
            yield f"{where}'{word}' is not permitted."
    form = as_string(schema.get("format"))
    if form is not None and form not in _FORMATS:
        yield f"{where}'{form}' is not a valid format."
    pattern = as_string(schema.get("pattern")) or ""
    if any(mark in pattern for mark in _LOOKAROUND):
        yield f"{where}lookaround is not supported in 'pattern'."


def _object_faults(where: str, schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("additionalProperties") is not False:
        yield f"{where}'additionalProperties' is required to be supplied and to be false."
    required = {item for item in as_array(schema.get("required")) or [] if isinstance(item, str)}
    missing = [name for name in members(schema.get("properties")) if name not in required]
    if missing:
        yield (
            f"{where}'required' is required to be supplied and to be an array including every key "
            f"in properties. Missing '{missing[0]}'."
        )


def _array_faults(context: Context, schema: dict[str, Any]) -> Iterator[str]:
    items = members(schema.get("items"))
    if items and not {"type", "$ref", "anyOf", "enum", "const"} & set(items):
        yield f"In context={(*context, 'items')!r}, schema must have a 'type' key."
