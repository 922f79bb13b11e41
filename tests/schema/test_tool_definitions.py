"""Tool definitions in any library's form are read as ours."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from tests.strategies.schemas import tool_definitions

from multi_llm_chat import render
from multi_llm_chat.errors import UsageError
from multi_llm_chat.request import ToolDefinition
from multi_llm_chat.schema.tool_definitions import read_tools
from multi_llm_chat.testing.validators import validate

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
    """A tool as in the providers' libraries: its own method dumps it."""

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


TEXT_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "custom", **COMMON},
        {"type": "custom", **COMMON, "format": {"type": "text"}},
        {"type": "custom", "custom": COMMON},
    ],
)
def test_a_custom_tool_is_a_function_of_one_text(tool: Any) -> None:
    """RSP-19, OAI-32: its calls are read as ``{"input": text}``."""
    assert read_tools([tool]).definitions == (
        ToolDefinition(COMMON["name"], COMMON["description"], TEXT_INPUT),
    )


@pytest.mark.parametrize("chat", [True, False])
def test_the_grammar_of_a_custom_tool_is_described(chat: bool) -> None:
    rules = {"syntax": "lark", "definition": "start: WORD"}
    form = {"type": "grammar", "grammar": rules} if chat else {"type": "grammar", **rules}
    inner = {**COMMON, "format": form}
    tool = {"type": "custom", "custom": inner} if chat else {"type": "custom", **inner}
    (read,) = read_tools([tool]).definitions
    assert "start: WORD" in read.schema["properties"]["input"]["description"]


def test_a_namespace_is_flattened_for_every_server() -> None:
    """RSP-19, XAI-07: ``namespace`` is refused by every server but OpenAI's own endpoint."""
    function = {"type": "function", **COMMON, "parameters": SCHEMA}
    crm = {"type": "namespace", "name": "crm", "description": "Customers.", "tools": [function]}
    erp = {"type": "namespace", "name": "erp", "tools": [function, {"type": "custom", "name": "sql"}, 7, crm]}  # fmt: skip
    read = read_tools([crm, erp])
    assert [tool.name for tool in read.definitions] == ["weather", "erp__weather", "sql"]
    assert read.definitions[0] == EXPECTED
    assert len(read.skipped) == 2
    for provider in ("openai", "xai", "anthropic", "gemini"):
        body = render([{"role": "user", "content": "hi"}], provider, tools=[crm, erp]).body
        assert "namespace" not in str(body["tools"])
        assert validate(provider, body) == []


def test_a_tool_search_that_the_client_runs_is_a_function() -> None:
    """RSP-19."""
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    search = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": parameters}  # fmt: skip
    (read,) = read_tools([search]).definitions
    assert (read.name, read.schema) == ("tool_search", parameters)
    assert read_tools([{"type": "tool_search", "execution": "server"}]).skipped


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
