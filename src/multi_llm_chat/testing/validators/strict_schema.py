"""OpenAI's strict mode: what a schema with ``strict: true`` must look like (OAI-22).

1. Every object forbids additional properties and requires all the properties it names.
2. Every array has typed items.
3. A ``$ref`` stands alone.
4. Only the keywords of structured outputs are used, patterns have no lookaround, and formats are
   the known nine.
"""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.schema_walk import Context, has_type, walk
from multi_llm_chat.testing.validators.typed_views import as_array, as_string, members

_REFUSED = (
    "default",
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


def strict_faults(schema: dict[str, Any]) -> Iterator[str]:
    """The reasons why OpenAI refuses the schema in strict mode."""
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
            yield from _object_faults(where, found)
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
