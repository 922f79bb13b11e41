"""What a dialect wants to see said in every schema.

Rules:
1. Completion comes last: the schemas inside are finished already.
2. ``anything`` is a schema for any value, with a type where the dialect must have one.
3. In a strict object every property is required and no other allowed: one that was optional may be null.
"""

from typing import Any

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema.descriptions import Place
from multi_llm_chat.schema.dialect_rules import SchemaRules
from multi_llm_chat.schema.normal_form import SUBJECT, Step, kind_of, types_of, without


def anything(rules: SchemaRules, annotations: JsonObject) -> JsonObject:
    """Return a schema for any value; it is new, and may be built into others."""
    any_value = rules.any_value
    if any_value is None:
        return annotations
    if "anyOf" not in any_value:
        return {"type": list(any_value["type"]), **annotations}
    first, *others = any_value["anyOf"]
    return {"anyOf": [{**first, **annotations}, *map(dict[str, Any], others)]}


def _with_items(rules: SchemaRules) -> Step:
    def complete(schema: JsonObject, _place: Place) -> JsonObject:
        if "array" in types_of(schema) and "items" not in schema:
            return {**schema, "items": anything(rules, {})}
        return schema

    return complete


def _declared_required(schema: JsonObject, _place: Place) -> JsonObject:
    if "required" not in schema:
        return schema
    declared = schema.get("properties", ())
    names = [name for name in schema["required"] if name in declared]
    return {**schema, "required": names} if names else without(schema, "required")


def _some_properties(schema: JsonObject, _place: Place) -> JsonObject:
    if schema.get("properties", True):
        return schema
    return without(schema, "properties", "propertyOrdering")


def is_null(schema: Any) -> bool:
    """Tell whether a schema accepts null and says so in the usual ways."""
    if isinstance(schema, bool):
        return False
    return schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None]


def _optional(schema: Any) -> JsonObject:
    """Return the schema of a property that may be null, since it may not be absent."""
    if "anyOf" in schema:
        branches = schema["anyOf"]
        if any(is_null(branch) for branch in branches):
            return schema
        return {**schema, "anyOf": [*branches, {"type": "null"}]}
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    schema = dict(schema)
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    types = types_of(schema)
    if types and "null" not in types:
        schema["type"] = [*types, "null"]
    return schema


def _strict_object(schema: JsonObject, _place: Place) -> JsonObject:
    if "object" not in types_of(schema) and "properties" not in schema:
        return without(schema, "additionalProperties", "required")
    required = set(schema.get("required", ()))
    properties = {
        name: item if name in required else _optional(item)
        for name, item in schema.get("properties", {}).items()
    }
    strict = {"properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "object", **schema, **strict}


def _typed(rules: SchemaRules) -> Step:
    complete_items = _with_items(rules)

    def complete(schema: JsonObject, place: Place) -> JsonObject:
        if not schema.keys().isdisjoint({"type", "anyOf", "$ref"}):
            return schema
        values = schema.get("enum", [schema["const"]] if "const" in schema else ())
        kinds = sorted({kind_of(value) for value in values})
        if kinds:
            named = {"type": kinds if len(kinds) > 1 else kinds[0], **schema}
            return named if rules.strict else schema
        for keyword in schema:
            if keyword in SUBJECT:
                typed = {"type": SUBJECT[keyword], **schema}
                return complete_items(typed, place) if rules.array_items else typed
        return anything(rules, schema)

    return complete


def completing_steps(rules: SchemaRules) -> tuple[Step, ...]:
    """Return the steps a dialect needs, in their order."""
    steps: list[tuple[bool, Step]] = [
        (rules.array_items, _with_items(rules)),
        (rules.strict, _strict_object),
        (rules.declared_required, _declared_required),
        (not rules.empty_properties, _some_properties),
    ]
    return tuple(step for wanted, step in steps if wanted)


def typing_step(rules: SchemaRules) -> Step | None:
    """Return the step that names a type, which comes after the description is complete."""
    return None if rules.any_value is None else _typed(rules)
