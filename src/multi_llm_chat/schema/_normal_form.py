r"""Rewrites a schema into the form a dialect uses: the steps before and after its keywords are filtered.

Rules:
1. Each step is for one property of the dialect's rules. ``settling_steps`` (before the filter) and
   ``completing_steps`` (after it) choose the steps; unneeded steps cost nothing.
2. A step changes only its own schema, never the nested schemas. A settling step either keeps the meaning or makes the
   schema accept more.
3. Completing steps come last: the nested schemas are already finished. ``anything`` is a schema for any value,
   with a type if the dialect requires one.
4. In a strict object every property is required and no other allowed: an optional property becomes nullable.

What a server that compiles schemas to a grammar can compile (llama.cpp; LCP-07):
5. A pattern is anchored at both ends and made only of plain characters, sets, groups, alternatives and
   short repetitions: class escapes (``\d``), look-around and lazy repetition do not compile.
6. Repetitions stay below the server's limit, lower bounds below upper ones, integers within 53 bits.
7. The server reads properties called ``$ref`` or ``$defs`` as keywords, so they are not declared. Additional properties are
   allowed only if all declared names are plain, because the grammar writes "any other name" with character sets.
"""

import math
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.schema._descriptions import SchemaPlace
from multi_llm_chat.schema.cleanup import either
from multi_llm_chat.schema.dialect_rules import SchemaRules

Step: TypeAlias = Callable[[JsonObject, SchemaPlace], JsonObject]

#: The type to which a keyword applies.
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


def _any_of(schema: JsonObject, place: SchemaPlace) -> JsonObject:
    """Rewrite ``oneOf`` as ``anyOf``."""
    if "oneOf" not in schema:
        return schema
    if "anyOf" not in schema:
        return {("anyOf" if key == "oneOf" else key): item for key, item in schema.items()}
    place.drop("oneOf", schema["oneOf"])
    return without(schema, "oneOf")


def _enum(schema: JsonObject, _place: SchemaPlace) -> JsonObject:
    """Rewrite ``const`` as ``enum``."""
    if "const" not in schema:
        return schema
    return {**without(schema, "const"), "enum": [schema["const"]]}


def _items(schema: JsonObject, place: SchemaPlace) -> JsonObject:
    """Rewrite ``prefixItems`` as ``items``: each item matches one of the schemas."""
    if "prefixItems" not in schema:
        return schema
    place.drop("prefixItems")
    items = either([*schema["prefixItems"], schema.get("items", True)])
    return {**without(schema, "prefixItems"), "items": items}


def _scalar_choices(schema: JsonObject, place: SchemaPlace) -> JsonObject:
    for keyword in ("enum", "const"):
        if keyword not in schema:
            continue
        value = schema[keyword]
        members = value if keyword == "enum" else [value]
        if any(isinstance(member, list | dict) for member in members):
            place.drop(keyword, value)
            schema = without(schema, keyword)
    return schema


def _string_choices(schema: JsonObject, place: SchemaPlace) -> JsonObject:
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


def _one_type(schema: JsonObject, place: SchemaPlace) -> JsonObject:
    """Rewrite a list of types as ``nullable``, or as one alternative per type, each with the keywords of its type."""
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


def _compilable(schema: JsonObject, place: SchemaPlace) -> JsonObject:
    kept, changed = tamed(schema)
    for keyword in changed:
        place.drop(keyword, None if keyword == "properties" else schema[keyword])
    return kept


def _closed(schema: JsonObject, place: SchemaPlace) -> JsonObject:
    others = schema.get("additionalProperties", False)
    if others is False:
        return schema
    place.drop("additionalProperties", others)
    return without(schema, "additionalProperties")


def settling_steps(rules: SchemaRules) -> tuple[Step, ...]:
    """Return the steps that a dialect needs before its keywords are filtered, in order."""
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


# Schemas that compile to a grammar.

MAX_REPETITIONS: Final = 1_000
_MAX_INTEGER: Final = 2**53

_PATTERN: Final = re.compile(
    r"""\^(?:
        (?: [A-Za-z0-9\ _,:;@/=<>!\#%&'~-] | \\[.()\[\]{}|*+?^$] | \.
          | \[\^?[A-Za-z0-9\ _.,:;@/=+*?!\#%&()<>$-]+\] | \((?:\?:)? | \) | \| )
        (?: [*+?] | \{[0-9]{1,3}(?:,[0-9]{0,3})?\} )?
    )+\$\Z""",
    re.VERBOSE,
)
#: Empty groups and alternatives, and repetition operators without an operand.
_HOLLOW: Final = re.compile(
    r"(?<!\\)(?:\((?:\?:)?[)|*+{]|\|[)|*+?{]|\(\?(?!:)|[*+?}][*+?{])|^\^[|*+?{]|(?<!\\)\|\$$"
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_]+\Z")
_KEYWORD_NAMES: Final = frozenset({"$ref", "$defs"})
_COUNTS: Final = (("minLength", "maxLength"), ("minItems", "maxItems"))
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def compiles(pattern: str) -> bool:
    """Return whether the server can compile ``pattern``."""
    return _PATTERN.match(pattern) is not None and _HOLLOW.search(pattern) is None


def _small(value: Any) -> bool:
    return isinstance(value, int) and -_MAX_INTEGER <= value <= _MAX_INTEGER


def _bad_bounds(schema: JsonObject) -> set[str]:
    bad: set[str] = set()
    for low, high in _COUNTS:
        if schema.get(low, 0) > schema.get(high, MAX_REPETITIONS):
            bad |= {low, high}
        bad |= {key for key in (low, high) if schema.get(key, 0) > MAX_REPETITIONS}
    present = [key for key in _BOUNDS if key in schema]
    lowest = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf) + 1)
    highest = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf) - 1)
    if lowest > highest or not all(_small(schema[key]) for key in present):
        bad |= set(present)
    return bad


def tamed(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return the part of ``schema`` that compiles, and the keywords that were removed or changed."""
    bad = {key for key in _bad_bounds(schema) if key in schema}
    if "pattern" in schema and not compiles(schema["pattern"]):
        bad.add("pattern")
    properties = schema.get("properties", {})
    plain = {name: item for name, item in properties.items() if name not in _KEYWORD_NAMES}
    complement = all(_PLAIN_NAME.match(name) for name in plain)
    opened = schema.get("additionalProperties", False) is not False
    if len(plain) < len(properties) or (opened and not complement):
        bad |= {"additionalProperties"} & schema.keys()
    kept = {keyword: value for keyword, value in schema.items() if keyword not in bad}
    if len(plain) < len(properties):
        kept["properties"] = plain
        kept["required"] = [name for name in schema.get("required", ()) if name in plain]
        bad.add("properties")
    return kept, sorted(bad)


# Completion: what a dialect requires in every schema.


def anything(rules: SchemaRules, annotations: JsonObject) -> JsonObject:
    """Return a new schema for any value, which the caller may put into other schemas."""
    any_value = rules.any_value
    if any_value is None:
        return annotations
    if "anyOf" not in any_value:
        return {"type": list(any_value["type"]), **annotations}
    first, *others = any_value["anyOf"]
    return {"anyOf": [{**first, **annotations}, *map(dict[str, Any], others)]}


def _with_items(rules: SchemaRules) -> Step:
    def complete(schema: JsonObject, _place: SchemaPlace) -> JsonObject:
        if "array" in types_of(schema) and "items" not in schema:
            return {**schema, "items": anything(rules, {})}
        return schema

    return complete


def _declared_required(schema: JsonObject, _place: SchemaPlace) -> JsonObject:
    if "required" not in schema:
        return schema
    declared = schema.get("properties", ())
    names = [name for name in schema["required"] if name in declared]
    return {**schema, "required": names} if names else without(schema, "required")


def _some_properties(schema: JsonObject, _place: SchemaPlace) -> JsonObject:
    if schema.get("properties", True):
        return schema
    return without(schema, "properties", "propertyOrdering")


def is_null(schema: Any) -> bool:
    """Return whether a schema accepts only null, in one of the usual spellings."""
    if isinstance(schema, bool):
        return False
    return schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None]


def _optional(schema: Any) -> JsonObject:
    """Return the schema of an optional property, made nullable because a strict object requires every property."""
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


def _strict_object(schema: JsonObject, _place: SchemaPlace) -> JsonObject:
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

    def complete(schema: JsonObject, place: SchemaPlace) -> JsonObject:
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
    """Return the steps that a dialect needs after its keywords are filtered, in order."""
    steps: list[tuple[bool, Step]] = [
        (rules.array_items, _with_items(rules)),
        (rules.strict, _strict_object),
        (rules.declared_required, _declared_required),
        (not rules.empty_properties, _some_properties),
    ]
    return tuple(step for wanted, step in steps if wanted)


def typing_step(rules: SchemaRules) -> Step | None:
    """Return the step that adds a type; it runs after the description is complete. None if the dialect needs no type."""
    return None if rules.any_value is None else _typed(rules)
