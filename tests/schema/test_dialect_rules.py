"""Requests never contain schema features that their dialect refuses. The validators here share no code with the projection."""

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from mistral_common.protocol.instruct.messages import UserMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.tool_calls import Function, Tool
from mistral_common.protocol.instruct.validator import MistralRequestValidatorV3
from tests.strategies.schemas import nasty_schemas

from multi_llm_chat.schema.dialect_rules import (
    ANTHROPIC,
    FIREWORKS,
    GEMINI_JSON_SCHEMA,
    GEMINI_PARAMETERS,
    LLAMACPP,
    MISTRAL,
    OLLAMA,
    OPENAI,
    OPENAI_STRICT,
    SchemaRules,
)
from multi_llm_chat.schema.tool_schema import project_schema

with warnings.catch_warnings():
    # The library's source has an invalid escape sequence, which is an error in our configuration.
    warnings.simplefilter("ignore")
    from google.genai import types as google_types

ONE = {"items", "contains", "additionalProperties", "not", "propertyNames", "if", "then", "else"}
MANY = {"allOf", "anyOf", "oneOf", "prefixItems"}
MAPS = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
FEWER = settings(max_examples=max(settings().max_examples // 2, 15))


def every(schema: Any) -> Iterator[Any]:
    """Yield the schema and all schemas inside it."""
    yield schema
    if isinstance(schema, bool):
        return
    for keyword, value in schema.items():
        inner: list[Any] = []
        if keyword in ONE:
            inner = [value]
        elif keyword in MANY:
            inner = value
        elif keyword in MAPS:
            inner = [*value.values()]
        for item in inner:
            if not (isinstance(item, bool) and keyword == "additionalProperties"):
                yield from every(item)


def types(schema: Any) -> list[str]:
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else named


def judge_root(schema: Any) -> None:
    assert schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & schema.keys()


def judge_references(root: Any) -> None:
    for schema in every(root):
        if not isinstance(schema, bool) and "$ref" in schema:
            node = root
            reference: str = schema["$ref"]
            for token in reference.lstrip("#/").split("/") if reference != "#" else []:
                node = node[token.replace("~1", "/").replace("~0", "~")]


def judge_openai(root: Any) -> None:
    judge_root(root)
    assert not {"enum", "not"} & root.keys()
    assert "properties" in root
    for schema in every(root):
        assert isinstance(schema, bool) or "array" not in types(schema) or "items" in schema


def judge_strict(root: Any) -> None:
    judge_root(root)
    judge_references(root)
    allowed = {
        "type", "description", "title", "enum", "const", "properties", "required", "items", "anyOf",
        "additionalProperties", "$ref", "$defs", "format", "pattern", "minItems", "maxItems",
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    }  # fmt: skip
    for schema in every(root):
        assert not isinstance(schema, bool)
        assert schema.keys() <= allowed
        assert {"type", "anyOf", "$ref"} & schema.keys()
        assert "$ref" not in schema or len(schema) == 1
        if "object" in types(schema):
            assert schema["additionalProperties"] is False
            assert list(schema["required"]) == list(schema["properties"])
        assert "array" not in types(schema) or schema["items"]


def judge_anthropic(root: Any) -> None:
    judge_root(root)
    for name in root["properties"]:
        assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)


def judge_gemini_parameters(root: Any) -> None:
    judge_root(root)
    google_types.FunctionDeclaration.model_validate({"name": "f", "parameters": root})
    allowed = {
        "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems",
        "properties", "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern",
        "minimum", "maximum", "anyOf", "propertyOrdering",
    }  # fmt: skip
    for schema in every(root):
        assert not isinstance(schema, bool)
        assert schema.keys() <= allowed
        assert ("anyOf" in schema) != isinstance(schema.get("type"), str)
        assert "anyOf" not in schema or len(schema) == 1
        assert schema.get("format", "enum") in {"enum", "date-time"}
        assert schema.get("properties") != {}
        assert set(schema.get("required", ())) <= set(schema.get("properties", ()))
        assert all(value and isinstance(value, str) for value in schema.get("enum", ()))
        assert schema.get("type") != "array" or schema["items"]
        assert schema.get("type") == "string" or "enum" not in schema


def judge_gemini_json_schema(root: Any) -> None:
    assert root["type"] == "object"
    judge_references(root)
    google_types.FunctionDeclaration.model_validate({"name": "f", "parameters_json_schema": root})
    refused = {
        "const",
        "format",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "not",
        "if",
        "oneOf",
        "allOf",
    }
    for schema in every(root):
        assert not isinstance(schema, bool)
        assert not refused & schema.keys()
        assert "$ref" not in schema or len(schema) == 1


def judge_mistral(root: Any) -> None:
    tool = Tool(function=Function(name="f", description="", parameters=root))
    request: Any = ChatCompletionRequest(messages=[UserMessage(content="Hello")], tools=[tool])
    validator: Any = MistralRequestValidatorV3()
    validator.validate_request(request)
    for schema in every(root):
        assert isinstance(schema, bool) or not {"$id", "$schema"} & schema.keys()


class ToolProperty(msgspec.Struct, forbid_unknown_fields=True):
    """Ollama's own structure, which must keep everything that we send."""

    anyOf: "list[ToolProperty]" = []
    type: str | list[str] = ""
    items: Any = None
    description: str = ""
    enum: list[Any] = []
    properties: "dict[str, ToolProperty]" = {}
    required: list[str] = []


class ToolParameters(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    properties: dict[str, ToolProperty]
    required: list[str] = []
    description: str = ""
    items: Any = None


def judge_ollama(root: Any) -> None:
    msgspec.convert(root, ToolParameters)


def judge_fireworks(root: Any) -> None:
    judge_openai(root)
    for schema in every(root):
        assert isinstance(schema, bool) or not {"$ref", "$defs", "definitions"} & schema.keys()


def judge_llamacpp(root: Any) -> None:
    judge_root(root)
    judge_references(root)
    for schema in every(root):
        assert not isinstance(schema, bool)
        assert {"type", "anyOf", "$ref", "enum", "const"} & schema.keys()
        assert schema.get("$ref", "#/$defs/x").startswith("#/$defs/")
        assert "anyOf" not in schema or len(schema) == 1
        pattern = schema.get("pattern", "^x$")
        assert pattern[0] == "^"
        assert pattern[-1] == "$"
        assert len(pattern) > 2
        assert not re.search(r"\\[a-zA-Z0-9]|\(\?[^:]", pattern)
        assert schema.get("minLength", 0) <= schema.get("maxLength", 10**9)
        assert schema.get("minItems", 0) <= schema.get("maxItems", 10**9)
        assert max(schema.get(key, 0) for key in ("maxLength", "maxItems")) <= 2000
        assert not {"$ref", "$defs"} & schema.get("properties", {}).keys()
        assert not {"default", "examples", "allOf", "oneOf", "not"} & schema.keys()


JUDGES: list[tuple[str, SchemaRules, Callable[[Any], None]]] = [
    ("OAI-14", OPENAI, judge_openai),
    ("OAI-22", OPENAI_STRICT, judge_strict),
    ("ANT-18", ANTHROPIC, judge_anthropic),
    ("GEM-13..17", GEMINI_PARAMETERS, judge_gemini_parameters),
    ("GEM-22", GEMINI_JSON_SCHEMA, judge_gemini_json_schema),
    ("MIS-10/13", MISTRAL, judge_mistral),
    ("OLL-06", OLLAMA, judge_ollama),
    ("FWK-02", FIREWORKS, judge_fireworks),
    ("LCP-07", LLAMACPP, judge_llamacpp),
]


@FEWER
@given(schema=nasty_schemas())
def test_no_schema_breaks_a_rule_of_its_dialect(schema: Any) -> None:
    for _rule, rules, judge in JUDGES:
        judge(project_schema(schema, rules).schema)


# --- one rule at a time ---


def property_of(schema: Any, rules: SchemaRules) -> Any:
    """Return the projection of a property with this schema."""
    root = {"type": "object", "properties": {"p": schema}, "required": ["p"]}
    return project_schema(root, rules).schema["properties"]["p"]


@pytest.mark.parametrize(
    ("rules", "given_schema", "expected"),
    [
        pytest.param(
            OPENAI,
            {"type": "array"},
            {"type": "array", "items": {}},
            id="OAI-14 an array has items",
        ),
        pytest.param(
            OPENAI_STRICT,
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {
                "type": "object",
                "properties": {"a": {"type": ["string", "null"]}},
                "required": ["a"],
                "additionalProperties": False,
            },
            id="OAI-22 what was optional may be null",
        ),
        pytest.param(
            OPENAI_STRICT,
            {"type": "string", "minLength": 2, "format": "uri", "default": "x"},
            {"type": "string", "description": "(minLength: 2; format: uri; default: x)"},
            id="OAI-22 unsupported keywords are said",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {"type": "string", "description": "Where.", "format": "uri", "default": "x"},
            {"type": "string", "description": "Where. (format: uri; default: x)"},
            id="GEM-13 unknown keywords are moved to the description",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {"const": "a", "additionalProperties": False},
            {"type": "string", "enum": ["a"]},
            id="GEM-13 const is a choice of one",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {"type": ["string", "null"]},
            {"type": "string", "nullable": True},
            id="GEM-14 null among the types is nullable",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {"type": ["string", "integer"], "minLength": 1, "minimum": 0, "description": "It."},
            {
                "anyOf": [
                    {"type": "string", "minLength": 1, "description": "It."},
                    {"type": "integer", "minimum": 0},
                ]
            },
            id="GEM-14 several types are alternatives",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {"enum": [1, 2]},
            {"type": "integer", "description": "(one of: 1, 2)"},
            id="GEM-15 choices of numbers are said",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {"type": "string", "enum": ["", "a"]},
            {"type": "string", "description": "(one of: , a)"},
            id="GEM-16 an empty string is no choice",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {"type": "object", "properties": {}, "required": ["x"]},
            {"type": "object"},
            id="GEM-16 no empty properties, nothing required that is not there",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "T"},
            {"title": "T", "nullable": True, "type": "string"},
            id="GEM-17 an optional value is no alternative",
        ),
        pytest.param(
            GEMINI_PARAMETERS,
            {
                "anyOf": [{"type": "string"}, {"type": "number"}],
                "description": "It.",
                "pattern": "a",
            },
            {
                "anyOf": [
                    {"type": "string", "pattern": "a", "description": "It."},
                    {"type": "number", "pattern": "a"},
                ]
            },
            id="GEM-17 anyOf stands alone",
        ),
        pytest.param(
            GEMINI_JSON_SCHEMA,
            {"const": 3, "exclusiveMinimum": 1, "format": "int32"},
            {"enum": [3], "description": "(exclusiveMinimum: 1; format: int32)"},
            id="GEM-22 what real JSON Schema still loses",
        ),
        pytest.param(GEMINI_JSON_SCHEMA, True, {}, id="GEM-22 no boolean schemas"),
        pytest.param(OLLAMA, True, {}, id="OLL-06 no boolean schemas"),
        pytest.param(
            OLLAMA, False, {"description": "(not allowed)"}, id="OLL-06 what is forbidden is said"
        ),
        pytest.param(
            MISTRAL,
            {"$id": "x", "$schema": "http://json-schema.org/draft-07/schema#", "type": "string"},
            {"type": "string"},
            id="MIS-13 no $id and $schema",
        ),
        pytest.param(MISTRAL, {"type": "foo"}, {}, id="MIS-10 valid Draft 7"),
        pytest.param(
            LLAMACPP,
            {"type": "string", "pattern": "^\\d+$"},
            {"type": "string", "description": "(pattern: ^\\d+$)"},
            id="LCP-07 a pattern that does not compile is said",
        ),
        pytest.param(
            LLAMACPP,
            {"type": "string", "pattern": "^(a|b)[0-9]{2,4}$", "maxLength": 100_000},
            {
                "type": "string",
                "pattern": "^(a|b)[0-9]{2,4}$",
                "description": "(maxLength: 100000)",
            },
            id="LCP-07 a pattern that compiles stays",
        ),
    ],
)
def test_a_keyword_is_said_as_the_dialect_says_it(
    rules: SchemaRules, given_schema: Any, expected: Any
) -> None:
    assert property_of(given_schema, rules) == expected


@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC, OLLAMA, FIREWORKS, GEMINI_PARAMETERS])
def test_ant_18_alternatives_at_the_root_are_folded_into_the_properties(rules: SchemaRules) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"type": "string"}},
        "required": ["kind"],
        "oneOf": [
            {"properties": {"kind": {"const": "file"}, "path": {"type": "string"}}, "required": ["kind", "path"]},
            {"properties": {"kind": {"const": "web"}, "url": {"type": "string"}}, "required": ["url"]},
        ],
    }  # fmt: skip
    projected = project_schema(schema, rules)
    assert projected.schema == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["file", "web"]},
            "path": {"type": "string"},
            "url": {"type": "string"},
        },
        "required": ["kind"],
        "description": "(exactly one of: kind, path | url)",
    }
    assert "/oneOf" in projected.dropped


def test_ant_18_all_of_at_the_root_unites_what_is_required() -> None:
    schema = {
        "allOf": [
            {"$ref": "#/$defs/A"},
            {"properties": {"b": {"type": "integer", "minimum": 2}}, "required": ["b"]},
        ],
        "$defs": {"A": {"type": "object", "properties": {"a": {}, "b": {"minimum": 1}}, "required": ["a"]}},
    }  # fmt: skip
    projected = project_schema(schema, ANTHROPIC).schema
    assert projected["properties"] == {"a": {}, "b": {"type": "integer", "minimum": 2}}
    assert projected["required"] == ["a", "b"]


def test_ant_18_argument_names_are_changed_and_lead_back() -> None:
    schema = {"properties": {"a b": {"type": "string"}, "a_b": {}, "日本": {}}, "required": ["a b"]}
    projected = project_schema(schema, ANTHROPIC)
    assert projected.schema == {
        "type": "object",
        "properties": {
            "a_b_2": {"type": "string", "description": "(argument a b)"},
            "a_b": {},
            "__": {"description": "(argument 日本)"},
        },
        "required": ["a_b_2"],
    }
    assert projected.renamed == {"a_b_2": "a b", "__": "日本"}


TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node", "description": "The top."}},
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"$ref": "#/definitions/na~1me"},
                "next": {"$ref": "#/$defs/Node"},
                "lost": {"$ref": "#/$defs/Lost"},
            },
        }
    },
    "definitions": {"na/me": {"type": "string"}},
}


@pytest.mark.parametrize("rules", [GEMINI_PARAMETERS, FIREWORKS, OLLAMA])
def test_fwk_02_gem_17_references_are_written_out_and_recursion_is_cut(rules: SchemaRules) -> None:
    projected = project_schema(TREE, rules)
    node = projected.schema["properties"]["root"]
    assert node["description"] == "The top."
    assert node["properties"]["name"] == {"type": "string"}
    assert node["properties"]["next"] == {"type": "object"}
    assert "(see: #/$defs/Lost)" in str(node["properties"]["lost"])
    assert "/properties/root/properties/lost/$ref" in projected.dropped


def test_gem_22_lcp_07_definitions_are_collected_and_references_stand_alone() -> None:
    projected = project_schema(TREE, GEMINI_JSON_SCHEMA).schema
    assert projected["properties"]["root"] == {
        "anyOf": [{"$ref": "#/$defs/Node"}],
        "description": "The top.",
    }
    assert projected["$defs"]["Node"]["properties"]["name"] == {"$ref": "#/$defs/na_1me"}
    assert projected["$defs"]["na_1me"] == {"type": "string"}
    assert "definitions" not in projected


def test_oai_14_references_stay_where_the_dialect_reads_them() -> None:
    projected = project_schema(TREE, OPENAI).schema
    assert projected["$defs"]["Node"]["properties"]["next"] == {"$ref": "#/$defs/Node"}
    assert projected["$defs"]["Node"]["properties"]["lost"] == {
        "description": "(see: #/$defs/Lost)"
    }
    assert projected["definitions"] == TREE["definitions"]


def test_a_definition_left_in_a_nested_schema_is_found() -> None:
    nested = {"$ref": "#/$defs/Inner", "$defs": {"Inner": {"type": "string", "maxLength": 3}}}
    assert property_of(nested, GEMINI_PARAMETERS) == {"type": "string", "maxLength": 3}


def test_pointers_into_a_folded_root_still_lead_somewhere() -> None:
    schema = {
        "anyOf": [{"properties": {"a": {"type": "string"}}}],
        "properties": {"b": {"$ref": "#/anyOf/0/properties/a"}, "self": {"$ref": "#"}},
    }
    projected = project_schema(schema, OPENAI).schema
    assert projected["properties"]["b"] == {"$ref": "#/$defs/a"}
    assert projected["properties"]["self"] == {"type": "object"}
    assert projected["$defs"] == {"a": {"type": "string"}}


def test_lcp_07_a_property_called_like_a_keyword_is_not_declared() -> None:
    schema = {"properties": {"$ref": {"type": "string"}, "a": {"type": "string"}}, "required": ["$ref", "a"]}  # fmt: skip
    projected = project_schema(schema, LLAMACPP)
    assert projected.schema["properties"] == {"a": {"type": "string"}}
    assert projected.schema["required"] == ["a"]
    assert "/properties" in projected.dropped
