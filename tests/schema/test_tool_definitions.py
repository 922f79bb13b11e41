"""Tool definitions in anybody's form are read as ours."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from tests.strategies.schemas import tool_definitions

from multi_llm_chat.errors import UsageError
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.schema.tool_definitions import read_tools

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}},
    "required": ["city"],
}
PROTO: dict[str, Any] = {
    "type": "OBJECT",
    "properties": {"city": {"type": "STRING"}, "days": {"type": "INTEGER", "nullable": True}},
    "required": ["city"],
}
COMMON = {"name": "weather", "description": "Tells the weather."}
EXPECTED = ToolDefinition("weather", "Tells the weather.", SCHEMA)


class Model:
    """A tool as the providers' libraries have them: dumped by its own method."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    def model_dump(self, **_options: Any) -> dict[str, Any]:
        return self.fields


FORMS: dict[str, Any] = {
    "MCP": {**COMMON, "inputSchema": SCHEMA},
    "MCP object": SimpleNamespace(**COMMON, inputSchema=SCHEMA, annotations=None),
    "MCP model": Model({**COMMON, "inputSchema": SCHEMA}),
    "Anthropic": {**COMMON, "input_schema": SCHEMA},
    "Anthropic custom": {"type": "custom", **COMMON, "input_schema": SCHEMA},
    "OpenAI Chat": {"type": "function", "function": {**COMMON, "parameters": SCHEMA}},
    "OpenAI Responses": {"type": "function", **COMMON, "parameters": SCHEMA, "strict": True},
    "Gemini parameters": {"functionDeclarations": [{**COMMON, "parameters": PROTO}]},
    "Gemini snake case": {"function_declarations": [{**COMMON, "parameters": PROTO}]},
    "Gemini JSON Schema": {"functionDeclarations": [{**COMMON, "parametersJsonSchema": SCHEMA}]},
    "ours": EXPECTED,
}


@pytest.mark.parametrize("tool", FORMS.values(), ids=FORMS)
def test_every_form_is_the_same_tool(tool: Any) -> None:
    before = copy.deepcopy(FORMS)
    read = read_tools([tool])
    assert read.definitions == (EXPECTED,)
    assert read.skipped == ()
    assert FORMS["MCP"] == before["MCP"]
    assert FORMS["Gemini parameters"] == before["Gemini parameters"]


def test_forms_may_be_mixed_and_keep_their_order() -> None:
    assert read_tools(list(FORMS.values())).definitions == (EXPECTED,) * len(FORMS)


def test_one_tool_and_no_tools_are_read_too() -> None:
    assert read_tools(FORMS["MCP"]).definitions == (EXPECTED,)
    assert read_tools(None).definitions == ()
    assert read_tools([]).definitions == ()


def test_a_missing_schema_is_that_of_a_tool_without_arguments() -> None:
    (definition,) = read_tools([{"name": "now"}]).definitions
    assert definition == ToolDefinition("now", "", {"type": "object", "properties": {}})


def test_what_gemini_alone_says_is_said_as_json_schema() -> None:
    proto = {
        "type": "OBJECT",
        "properties": {
            "a": {"type": "ARRAY", "items": {"type": "STRING", "nullable": True}, "min_items": "2"},
            "b": {
                "any_of": [{"type": "NUMBER"}, {"type": "STRING", "enum": ["x"], "nullable": True}]
            },
        },
    }
    (definition,) = read_tools(
        [{"functionDeclarations": [{"name": "f", "parameters": proto}]}]
    ).definitions
    assert definition.schema["properties"] == {
        "a": {"type": "array", "items": {"type": ["string", "null"]}, "minItems": 2},
        "b": {"anyOf": [{"type": "number"}, {"type": ["string", "null"], "enum": ["x", None]}]},
    }


@pytest.mark.parametrize(
    "tool",
    [
        {"description": "?"},
        {"name": ""},
        {"name": "  "},
        {"name": 5},
        {"type": "function", "function": {}},
    ],
)
def test_a_tool_without_a_name_is_skipped_and_said(tool: Any) -> None:
    read = read_tools([FORMS["MCP"], tool])
    assert read.definitions == (EXPECTED,)
    assert read.skipped == ("tool 1: it has no name",)


def test_a_tool_that_a_provider_runs_is_skipped_and_said() -> None:
    read = read_tools([{"type": "web_search_20250305", "name": "web_search"}])
    assert read.definitions == ()
    assert "'web_search_20250305' is run by its own provider" in read.skipped[0]


@pytest.mark.parametrize("thing", ["weather", 5, None, ["x"], object(), ToolDefinition, len])
def test_what_is_no_tool_is_the_callers_mistake(thing: Any) -> None:
    with pytest.raises(
        UsageError, match=r"tools\[1\] is no tool definition \(actual type: .*expected"
    ):
        read_tools([FORMS["MCP"], thing])


def test_a_schema_that_contains_itself_is_cut_in_every_form() -> None:
    loop: dict[str, Any] = {"type": "OBJECT"}
    loop["properties"] = {"self": loop, "list": {"type": "ARRAY", "items": loop}}
    tool = {"functionDeclarations": [{"name": "f", "parameters": loop}]}
    assert read_tools([tool, {"name": "f", "inputSchema": loop}]).skipped == ()


@pytest.mark.parametrize("tools", ["weather", b"x", 5, True])
def test_what_is_no_list_is_the_callers_mistake(tools: Any) -> None:
    with pytest.raises(UsageError, match="tools must be a list of tool definitions"):
        read_tools(tools)


@settings(max_examples=max(settings().max_examples // 2, 15))
@given(tool_definitions())
def test_any_mixture_is_read_and_reading_again_changes_nothing(tools: list[Any]) -> None:
    read = read_tools(tools)
    assert len(read.definitions) + len(read.skipped) == len(tools)
    assert read_tools(read.definitions).definitions == read.definitions
    for definition in read.definitions:
        assert definition.name.strip()
        assert definition.schema["type"] == "object"
