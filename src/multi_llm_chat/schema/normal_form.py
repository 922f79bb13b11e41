"""The same schema in the form a dialect uses, before its keywords are looked at one by one.

Rules:
1. Each step is for one trait of the rules and is chosen by ``settling_steps``; the others cost nothing.
2. A step looks at its own schema only, never into the schemas inside it.
3. A step loosens or leaves the meaning as it was.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema.descriptions import Place
from multi_llm_chat.schema.dialect_rules import SchemaRules
from multi_llm_chat.schema.grammar import tamed
from multi_llm_chat.schema.merge import either

Step: TypeAlias = Callable[[JsonObject, Place], JsonObject]

#: The type that a keyword speaks about.
SUBJECT: Final = {
    **dict.fromkeys(("properties", "required", "minProperties", "maxProperties"), "object"),
    **dict.fromkeys(("additionalProperties", "propertyOrdering"), "object"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems"), "array"),
    **dict.fromkeys(("pattern", "minLength", "maxLength", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), "number"),
    "multipleOf": "number",
}
_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (type(None), "null"),
)


def kind_of(value: Any) -> str:
    """Return the JSON type of a value."""
    for python_type, name in _KINDS:
        if isinstance(value, python_type):
            return name
    return "object"


def types_of(schema: JsonObject) -> list[str]:
    """Return the types a schema names, always as a list."""
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else types


def without(schema: JsonObject, *keywords: str) -> JsonObject:
    """Return ``schema`` without some of its keywords."""
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


def _any_of(schema: JsonObject, place: Place) -> JsonObject:
    """Say ``oneOf`` as ``anyOf``."""
    if "oneOf" not in schema:
        return schema
    if "anyOf" not in schema:
        return {("anyOf" if key == "oneOf" else key): item for key, item in schema.items()}
    place.drop("oneOf", schema["oneOf"])
    return without(schema, "oneOf")


def _enum(schema: JsonObject, _place: Place) -> JsonObject:
    """Say ``const`` as ``enum``."""
    if "const" not in schema:
        return schema
    return {**without(schema, "const"), "enum": [schema["const"]]}


def _items(schema: JsonObject, place: Place) -> JsonObject:
    """Say ``prefixItems`` as ``items``: each is one of them."""
    if "prefixItems" not in schema:
        return schema
    place.drop("prefixItems")
    items = either([*schema["prefixItems"], schema.get("items", True)])
    return {**without(schema, "prefixItems"), "items": items}


def _scalar_choices(schema: JsonObject, place: Place) -> JsonObject:
    for keyword in ("enum", "const"):
        if keyword not in schema:
            continue
        value = schema[keyword]
        members = value if keyword == "enum" else [value]
        if any(isinstance(member, list | dict) for member in members):
            place.drop(keyword, value)
            schema = without(schema, keyword)
    return schema


def _string_choices(schema: JsonObject, place: Place) -> JsonObject:
    if "enum" not in schema:
        return schema
    values = [value for value in schema["enum"] if value is not None]
    if len(values) < len(schema["enum"]):
        schema = {**schema, "nullable": True}
    kinds = {kind_of(value) for value in values}
    types = types_of(schema)
    if kinds == {"string"} and "" not in values and (not types or "string" in types):
        return {**schema, "type": "string", "enum": list(dict.fromkeys(values))}
    rest = without(schema, "enum")
    if values:
        place.drop("enum", values)
    if not types and kinds == {"integer", "number"}:
        rest["type"] = "number"
    elif not types and len(kinds) == 1:
        rest["type"] = kinds.pop()
    return rest


def _one_type(schema: JsonObject, place: Place) -> JsonObject:
    """Say a list of types as ``nullable``, or as alternatives that share the keywords out."""
    types = types_of(schema)
    if "null" in types:
        types = [name for name in types if name != "null"] or ["string"]
        schema = {**schema, "type": types, "nullable": True}
    if not isinstance(schema.get("type"), list):
        return schema
    if "integer" in types and "number" in types:
        types = [name for name in types if name != "integer"]
    if len(types) == 1:
        return {**schema, "type": types[0]}
    if "anyOf" in schema:
        place.drop("type")
        return without(schema, "type")
    branches: dict[str, JsonObject] = {name: {"type": name} for name in types}
    for keyword, value in schema.items():
        subject = SUBJECT.get(keyword)
        for name in (subject, "integer" if subject == "number" else None):
            if name in branches:
                branches[name][keyword] = value
    return {**without(schema, "type", *SUBJECT), "anyOf": list(branches.values())}


def _compilable(schema: JsonObject, place: Place) -> JsonObject:
    kept, changed = tamed(schema)
    for keyword in changed:
        place.drop(keyword, None if keyword == "properties" else schema[keyword])
    return kept


def _closed(schema: JsonObject, place: Place) -> JsonObject:
    others = schema.get("additionalProperties", False)
    if others is False:
        return schema
    place.drop("additionalProperties", others)
    return without(schema, "additionalProperties")


def settling_steps(rules: SchemaRules) -> tuple[Step, ...]:
    """Return the steps a dialect needs, in their order."""
    steps: list[tuple[bool, Step]] = [
        (not rules.takes("oneOf"), _any_of),
        (not rules.takes("const"), _enum),
        (not rules.takes("prefixItems"), _items),
        (rules.enum_values == "scalar", _scalar_choices),
        (rules.enum_values == "string", _string_choices),
        (not rules.type_lists, _one_type),
        (rules.grammar, _compilable),
        (rules.strict, _closed),
    ]
    return tuple(step for wanted, step in steps if wanted)
