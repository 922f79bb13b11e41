"""Any value becomes a valid object schema."""

import copy
import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.schemas import nasty_schemas, valid_object_schemas

from multi_llm_chat.schema._merge import References
from multi_llm_chat.schema.cleanup import MAX_DEPTH, clean_schema, is_regular_expression

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
META_SCHEMAS = (
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2020-12/schema",
)


def assert_valid(schema: dict[str, Any]) -> None:
    for meta_schema in META_SCHEMAS:
        jsonschema_rs.meta.validate({**schema, "$schema": meta_schema})


@given(nasty_schemas())
def test_anything_becomes_a_valid_object_schema_and_stays_it(schema: Any) -> None:
    cleaned = clean_schema(schema)
    assert_valid(cleaned)
    assert cleaned["type"] == "object"
    assert isinstance(cleaned["properties"], dict)
    json.dumps(cleaned, allow_nan=False, ensure_ascii=False).encode()
    assert clean_schema(cleaned) == cleaned
    assert clean_schema(schema) == cleaned


@given(st.text() | st.text(st.sampled_from("#/%a{}[]<> \\^|\ud800")))
def test_a_reference_becomes_one_that_a_uri_allows_and_finds_the_same(name: str):
    pointer = "#/$defs/" + name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
    schema = {"$defs": {name: {"type": "integer"}}, "properties": {"a": {"$ref": pointer}}}
    cleaned = clean_schema(schema)
    assert_valid(cleaned)
    found = References(cleaned).target(cleaned["properties"]["a"]["$ref"])
    assert found == {"type": "integer"}


@given(valid_object_schemas())
def test_a_valid_schema_comes_back_equal_and_untouched(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    cleaned = clean_schema(schema)
    assert cleaned == before
    assert schema == before
    assert cleaned is not schema


@pytest.mark.parametrize(
    "value", [None, "string", 5, [], True, False, object(), {"type": "string"}]
)
def test_what_is_no_object_schema_is_that_of_a_tool_without_arguments(value: Any) -> None:
    assert clean_schema(value) == EMPTY


@pytest.mark.parametrize(
    ("keyword", "wrong"),
    [
        ("required", "x"), ("required", {"a": True}), ("properties", None), ("properties", []),
        ("type", "foo"), ("type", []), ("type", 3), ("enum", []), ("enum", "ab"), ("enum", [object()]),
        ("minLength", -1), ("minLength", 1.5), ("minLength", "1"), ("maxItems", True),
        ("maxItems", 2**60), ("pattern", "("), ("pattern", 5), ("pattern", "a{2,1}"),
        ("minimum", float("nan")), ("maximum", float("inf")), ("minimum", "0"), ("minimum", True),
        ("multipleOf", 0), ("multipleOf", -1), ("items", 5), ("items", "x"), ("allOf", []),
        ("anyOf", {}), ("oneOf", [5]), ("not", "x"), ("description", None), ("title", 5),
        ("format", ["uri"]), ("default", float("nan")), ("default", {"a": object()}), ("$ref", 5),
        ("$schema", "http://json-schema.org/draft-04/schema#"), ("$id", "a#b"), ("$anchor", "1"),
        ("dependentRequired", []), ("uniqueItems", "yes"), ("examples", "a"), ("$defs", []),
        ("$vocabulary", {"x": True}), ("patternProperties", 4), ("const", {1, 2}),
    ],
)  # fmt: skip
def test_a_keyword_with_a_wrong_value_is_removed(keyword: str, wrong: Any) -> None:
    cleaned = clean_schema({"properties": {"a": {"$comment": "kept", keyword: wrong}}})
    assert cleaned["properties"]["a"] == {"$comment": "kept"}


@pytest.mark.parametrize(
    ("given_schema", "expected"),
    [
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": ["str", "null", "foo", "NULL"]}, {"type": ["string", "null"]}),
        ({"required": ["a", 5, "a", "b"]}, {"required": ["a", "b"]}),
        ({"minimum": 3, "exclusiveMinimum": True}, {"exclusiveMinimum": 3}),
        ({"minimum": 3, "exclusiveMinimum": False}, {"minimum": 3}),
        ({"items": [{"type": "string"}, 5]}, {"prefixItems": [{"type": "string"}, {}]}),
        (
            {"items": [True], "additionalItems": {"type": "null"}},
            {"prefixItems": [True], "items": {"type": "null"}},
        ),
        ({"items": []}, {}),
        ({"properties": {"a": None, "b": 5}}, {"properties": {"a": {}, "b": {}}}),
        ({"patternProperties": {"(": {}, "a": {}}}, {"patternProperties": {"a": {}}}),
        ({"description": "a\0b\ud800"}, {"description": "ab\ufffd"}),
        ({"enum": ["a", float("nan"), "\0"]}, {"enum": ["a", ""]}),
        ({"default": 10**40}, {"default": 1e40}),
        ({"maxLength": 4.0}, {"maxLength": 4}),
        ({"anyOf": [{"type": "string"}, 5, None]}, {"anyOf": [{"type": "string"}]}),
        ({"dependencies": {"a": ["b", 1], "c": {}}}, {"dependencies": {"a": ["b"], "c": {}}}),
        ({1: "x", "x-own": (1, 2)}, {"x-own": [1, 2]}),
    ],
)
def test_what_can_be_understood_is_kept(given_schema: Any, expected: Any) -> None:
    assert clean_schema({"properties": {"a": given_schema}})["properties"]["a"] == expected


def test_names_of_properties_are_never_taken_for_keywords() -> None:
    names = {
        name: {"type": "string"} for name in ("type", "$ref", "properties", "required", "enum")
    }
    schema: Any = {"type": "object", "properties": names, "required": ["type", "$ref"]}
    assert clean_schema(schema) == schema


def test_a_root_of_several_types_is_an_object() -> None:
    several: dict[str, list[Any]] = {"type": ["object", "null"], "enum": [{}]}
    assert clean_schema(several) == {**EMPTY, "enum": [{}]}
    assert clean_schema({"type": ["array", "null"], "const": 1}) == EMPTY


def test_a_schema_inside_itself_is_cut() -> None:
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"again": loop}
    loop["default"] = loop
    assert clean_schema(loop) == {"type": "object", "properties": {"again": {}}}


def test_what_is_too_deep_or_too_much_is_cut() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        deep = {"not": deep}
    levels, node = 0, clean_schema(deep)
    while "not" in node:
        levels, node = levels + 1, node["not"]
    assert levels == MAX_DEPTH + 1
    wide: dict[str, Any] = {"type": "string"}
    for _ in range(30):
        wide = {"type": "object", "properties": {"left": wide, "right": wide}}
    assert len(json.dumps(clean_schema(wide))) < 3_000_000


@pytest.mark.parametrize(
    "pattern", ["^a$", "\\p{L}+", "(?<year>\\d{4})\\k<year>", "[[a]", "[a--z]", "\\u{1F600}", "\\/"]
)
def test_patterns_of_ecmascript_are_regular_expressions(pattern: str) -> None:
    assert is_regular_expression(pattern)


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "a{3,1}", "(?P<a", "\\"])
def test_patterns_that_do_not_compile_are_none(pattern: str) -> None:
    assert not is_regular_expression(pattern)
