"""What the compiler of strict schemas refuses, over all strict tools of a request and its output format (ANT-42, ANT-43).

1. At most 20 strict tools, 24 optional parameters and 16 parameters with unions; fewer of each in one schema.
2. No definition refers to itself, directly or through others.
3. No property is a boolean schema.
"""

from collections.abc import Iterator
from typing import Any

from multi_llm_chat.testing.validators.anthropic import wordings as say
from multi_llm_chat.testing.validators.function_schema import walk
from multi_llm_chat.testing.validators.typed_views import (
    as_array,
    as_object,
    as_string,
    members,
    objects,
)
from multi_llm_chat.testing.validators.violation import Violation

_TOOLS = 20
_OPTIONAL = 24
_UNIONS = 16


def check_strict_schemas(body: dict[str, Any]) -> Iterator[Violation]:
    """Count over all strict schemas, and look into each."""
    tools = [
        (f"tools.{index}.custom", as_object(tool.get("input_schema")) or {})
        for index, tool in enumerate(objects(body.get("tools")))
        if tool.get("strict") is True
    ]
    if len(tools) > _TOOLS:
        yield say.STRICT_TOOLS.fill(count=len(tools))
    form = as_object(members(members(body.get("output_config")).get("format")).get("schema"))
    schemas = [*tools, *([("output_config.format.schema", form)] if form is not None else [])]
    optional = sum(_optional(schema) for _, schema in schemas)
    if optional > _OPTIONAL:
        yield say.STRICT_OPTIONAL.fill(count=optional)
    unions = sum(_unions(schema) for _, schema in schemas)
    if unions > _UNIONS:
        yield say.STRICT_UNIONS.fill(count=unions)
    for path, schema in tools:
        yield from _check_schema(path, schema)
    if any(_optional(schema) >= _OPTIONAL or _unions(schema) >= _UNIONS for _, schema in schemas):
        yield say.STRICT_COMPLEX.fill()


def _optional(root: dict[str, Any]) -> int:
    return sum(
        len(set(members(schema.get("properties"))) - set(as_array(schema.get("required")) or []))
        for _, schema in walk(root)
    )


def _unions(root: dict[str, Any]) -> int:
    return sum(
        1 for _, schema in walk(root) if isinstance(schema.get("type"), list) or "anyOf" in schema
    )


def _check_schema(path: str, root: dict[str, Any]) -> Iterator[Violation]:
    definitions = members(root.get("$defs")) | members(root.get("definitions"))
    for name, definition in definitions.items():
        if name in _reachable(definition, definitions):
            yield say.STRICT_CIRCLE.fill(path=path, name=name)
            break
    for _, schema in walk(root):
        if any(isinstance(child, bool) for child in members(schema.get("properties")).values()):
            yield say.STRICT_BOOLEAN.fill(path=path)
            break


def _reachable(start: object, definitions: dict[str, Any]) -> set[str]:
    """The names of all definitions that a schema refers to, also through others."""
    found: set[str] = set()
    pending = [start]
    while pending:
        for _, schema in walk(pending.pop()):
            name = (as_string(schema.get("$ref")) or "").rpartition("/")[2]
            if name in definitions and name not in found:
                found.add(name)
                pending.append(definitions[name])
    return found
