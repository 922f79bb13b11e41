"""Hypothesis strategies for schemas and tool definitions as they occur in practice, and worse."""

import math
from typing import Any, cast

from hypothesis import strategies as st

from multi_llm_chat.request import ToolDefinition

TYPES = ["string", "number", "integer", "boolean", "array", "object", "null"]

#: Names that a careless reader mistakes for keywords, or that a provider does not accept.
NAMES = [
    "a", "b", "c", "type", "$ref", "properties", "required", "$defs", "items", "anyOf", "enum",
    "description", "日本語", "with space", "a/b", "~", "x" * 80, "",
]  # fmt: skip

PATTERNS = ["^a+$", "^[a-z]{1,3}$", "\\d+", "^(foo|bar)$", "a.c", "^x?$", "\\p{L}+", "^(?=a)b$"]
FORMATS = ["date-time", "uri", "email", "uuid", "enum", "int32", "unknown-format"]
REFERENCES = [
    "#", "#/$defs/A", "#/$defs/B", "#/definitions/A", "#/$defs/a~1b", "#/$defs/missing",
    "#/properties/a", "#/properties/a/items", "http://example.com/schema.json", "#anchor", "",
]  # fmt: skip

#: Strings that must never reach a provider.
JUNK: list[Any] = [
    None, True, False, 0, -1, 1.5, math.nan, math.inf, 10**40, "", "x", "\ud800", "a\0b", [], [1],
    [None], {}, {"x": 1}, {"type": {}}, object(), {1, 2}, b"bytes", (1, 2),
]  # fmt: skip

names = st.sampled_from(NAMES) | st.text(
    st.characters(exclude_characters="\0", codec="utf-8"), max_size=6
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5, allow_nan=False).map(lambda value: round(value, 1))
    | st.sampled_from(["", "a", "b", "aaa", "foo", "é", "2026-11-15T10:00:00Z"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "type"]), inner, max_size=3)
    ),
    max_leaves=6,
)
counts = st.integers(0, 4)


def _subset(entries: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=entries)


def _annotations() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "title": st.sampled_from(["Title", ""]),
        "description": st.sampled_from(["What it is.", "日本語", ""]),
        "default": values,
        "examples": st.lists(values, max_size=2),
        "$comment": st.just("for maintainers"),
        "deprecated": st.booleans(),
        "x-vendor": values,
    }


def _assertions() -> dict[str, st.SearchStrategy[Any]]:
    return {
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
        "enum": st.lists(values, min_size=1, max_size=4),
        "const": values,
        "minimum": st.integers(-3, 3),
        "maximum": st.integers(-3, 3) | st.floats(-3, 3),
        "exclusiveMinimum": st.integers(-3, 3),
        "exclusiveMaximum": st.integers(-3, 3),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": counts,
        "maxLength": counts | st.just(100_000),
        "pattern": st.sampled_from(PATTERNS),
        "format": st.sampled_from(FORMATS),
        "minItems": counts,
        "maxItems": counts,
        "uniqueItems": st.booleans(),
        "minProperties": st.integers(0, 2),
        "maxProperties": counts,
        "required": st.lists(st.sampled_from(["a", "b", "c", "type"]), max_size=3, unique=True),
        "dependentRequired": st.just({"a": ["b"]}),
    }


def _applicators(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return {
        "properties": st.dictionaries(names, inner, max_size=4),
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=1),
        "additionalProperties": inner,
        "propertyNames": inner,
        "items": inner,
        "prefixItems": branches,
        "contains": inner,
        "anyOf": branches,
        "oneOf": branches,
        "allOf": branches,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "$defs": st.dictionaries(st.sampled_from(["A", "B", "a/b"]), inner, max_size=2),
        "definitions": st.dictionaries(st.sampled_from(["A", "x y"]), inner, max_size=1),
    }


def _drawn(
    parts: dict[str, st.SearchStrategy[Any]], largest: int
) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a few of many keywords: a schema with all of them is useless."""
    return st.sets(st.sampled_from(sorted(parts)), max_size=largest).flatmap(
        lambda chosen: st.fixed_dictionaries({key: parts[key] for key in sorted(chosen)})
    )


def _schema_level(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return _drawn({**_annotations(), **_assertions(), **_applicators(inner)}, 5)


_leaves = st.booleans() | _drawn({**_annotations(), **_assertions()}, 4)


def valid_schemas() -> st.SearchStrategy[Any]:
    """Draw valid schemas of any shape, without references."""
    return st.recursive(_leaves, _schema_level, max_leaves=12)


def valid_object_schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Draw valid object schemas, as a tool should have."""
    root = _drawn({**_annotations(), **_applicators(valid_schemas())}, 5)
    properties = st.dictionaries(names, valid_schemas(), max_size=4)
    required = _subset({"required": _assertions()["required"]})
    return st.tuples(root, properties, required).map(
        lambda drawn: {"type": "object", **drawn[0], "properties": drawn[1], **drawn[2]}
    )


def referring_schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Draw object schemas whose parts refer to each other, to themselves and to missing definitions."""
    reference = st.fixed_dictionaries(
        {"$ref": st.sampled_from(REFERENCES)},
        optional={"description": st.just("by reference"), "minLength": counts},
    )
    inner = st.recursive(_leaves | reference, _schema_level, max_leaves=8) | reference
    definitions = st.dictionaries(st.sampled_from(["A", "B", "a/b"]), inner, max_size=3)
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(names, inner, max_size=3)},
        optional={
            "$defs": definitions,
            "definitions": definitions,
            "$ref": st.sampled_from(REFERENCES),
            "allOf": st.lists(reference, min_size=1, max_size=2),
            "anyOf": st.lists(reference, min_size=1, max_size=2),
        },
    )


def _broken_level(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    known = {**_annotations(), **_assertions(), **_applicators(inner)}
    anything = inner | st.sampled_from(JUNK) | values
    return st.dictionaries(
        st.sampled_from([*known, "$ref", "$id", "$schema", "$anchor", "nullable", "bad\ud800", 7]),
        anything | st.lists(anything, max_size=2) | st.dictionaries(names, anything, max_size=2),
        max_size=5,
    )


def _circular() -> Any:
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"self": loop, "list": {"type": "array", "items": loop}}
    loop["default"] = loop
    return loop


def _deep() -> Any:
    schema: Any = {"type": "string", "format": "uri"}
    for _ in range(100):
        schema = {"type": ["object", "array"], "properties": {"a": schema}}
    return schema


def _doubling() -> Any:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 30):
        before = {"$ref": f"#/$defs/d{number - 1}"}
        definitions[f"d{number}"] = {"properties": {"l": before, "r": before}, "allOf": [before]}
    return {"properties": {"x": {"$ref": "#/$defs/d29"}}, "$defs": definitions}


def nasty_schemas() -> st.SearchStrategy[Any]:
    """Draw anything that may be passed as a schema: valid, with references, broken, or no schema."""
    broken = st.recursive(st.sampled_from(JUNK) | _leaves, _broken_level, max_leaves=12)
    extreme = st.builds(_circular) | st.builds(_deep) | st.builds(_doubling)
    return st.one_of(valid_object_schemas(), referring_schemas(), broken, valid_schemas(), extreme)


_tool_names = st.sampled_from(
    ["get_weather", "get_weather", "fs.read", "n" * 200, "", "ツール", "with space", "7up", "a\0b"]
) | st.text(max_size=8)
_descriptions = st.sampled_from(["Does it.", "", "説明", "bad \ud800 text"]) | st.none()


def _forms(name: Any, description: Any, schema: Any) -> list[Any]:
    """Return the same tool in every known form."""
    common = {"name": name, "description": description}
    return [
        {**common, "inputSchema": schema},
        {**common, "input_schema": schema},
        {"type": "function", "function": {**common, "parameters": schema}},
        {"type": "function", **common, "parameters": schema},
        {"functionDeclarations": [{**common, "parameters": schema}]},
        {"function_declarations": [{**common, "parametersJsonSchema": schema}]},
        ToolDefinition(str(name or ""), str(description or ""), cast("dict[str, Any]", schema))
        if isinstance(schema, dict)
        else common,
    ]


def tool_definitions(max_size: int = 4) -> st.SearchStrategy[list[Any]]:
    """Draw lists of tools in mixed forms, with duplicate, long, empty and non-ASCII names."""
    parts = st.tuples(_tool_names, _descriptions, nasty_schemas())
    one = st.tuples(parts, st.integers(0, 6)).map(lambda drawn: _forms(*drawn[0])[drawn[1]])
    return st.lists(one, max_size=max_size)
