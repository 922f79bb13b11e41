"""The seeds' conversions of tools."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from tests.strategies.schemas import tool_definitions

from multi_llm_chat.compat.tool_formats import (
    ToolSkippedWarning,
    mcp_tools_to_anthropic_format,
    mcp_tools_to_gemini_format,
    mcp_tools_to_openai_format,
)

with warnings.catch_warnings():
    # The library's source has an invalid escape sequence, which is an error in our configuration.
    warnings.simplefilter("ignore")
    from google.genai import types as google_types

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"location": {"type": "string", "description": "The city and state"}},
    "required": ["location"],
}
TOOL: dict[str, Any] = {"name": "get_weather", "description": "Get it", "inputSchema": SCHEMA}
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}

Convert = Callable[[object], list[dict[str, Any]] | None]
CONVERSIONS: list[Convert] = [
    mcp_tools_to_openai_format,
    mcp_tools_to_anthropic_format,
    mcp_tools_to_gemini_format,
]


def test_an_mcp_tool_in_openai_format() -> None:
    function = {"name": "get_weather", "description": "Get it", "parameters": SCHEMA}
    assert mcp_tools_to_openai_format([TOOL]) == [{"type": "function", "function": function}]


def test_an_mcp_tool_in_anthropic_format() -> None:
    expected = {"name": "get_weather", "description": "Get it", "input_schema": SCHEMA}
    assert mcp_tools_to_anthropic_format([TOOL]) == [expected]


def test_mcp_tools_in_gemini_format_share_one_entry() -> None:
    declaration = {"name": "get_weather", "description": "Get it", "parameters": SCHEMA}
    tools: Any = mcp_tools_to_gemini_format([TOOL, {**TOOL, "name": "again"}])
    assert tools == [{"function_declarations": [declaration, {**declaration, "name": "again"}]}]
    google_types.Tool.model_validate(tools[0])


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_no_tools_are_none(convert: Convert) -> None:
    assert convert(None) is None
    assert convert([]) is None


@pytest.mark.parametrize("convert", CONVERSIONS)
def test_a_tool_without_a_name_is_skipped_with_a_warning(convert: Convert) -> None:
    with pytest.warns(ToolSkippedWarning, match="Skipping tool 0: it has no name") as caught:
        assert convert([{"description": "nameless"}]) is None
    assert caught[0].filename == __file__


@pytest.mark.parametrize("schema", [None, {}, [], "x"])
def test_a_missing_schema_has_no_properties(schema: Any) -> None:
    tool = {"name": "now", "inputSchema": schema}
    assert (mcp_tools_to_openai_format([tool]) or [])[0]["function"]["parameters"] == EMPTY
    assert (mcp_tools_to_anthropic_format([tool]) or [])[0]["input_schema"] == EMPTY
    declarations = (mcp_tools_to_gemini_format([tool]) or [])[0]["function_declarations"]
    assert declarations == [{"name": "now", "description": "", "parameters": EMPTY}]


def test_an_anthropic_definition_is_accepted_as_seed_003_wants() -> None:
    tool = {"name": "get_weather", "description": "Get it", "input_schema": SCHEMA}
    assert mcp_tools_to_openai_format([tool]) == mcp_tools_to_openai_format([TOOL])


@settings(max_examples=max(settings().max_examples // 2, 15))
@given(tool_definitions())
def test_cer_02_fwk_02_xai_02_strict_is_never_said_and_every_tool_is_readable(
    tools: list[Any],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToolSkippedWarning)
        for tool in mcp_tools_to_openai_format(tools) or ():
            assert tool.keys() == {"type", "function"}
            assert tool["function"].keys() == {"name", "description", "parameters"}
        for tool in mcp_tools_to_anthropic_format(tools) or ():
            assert tool.keys() == {"name", "description", "input_schema"}
        for tool in mcp_tools_to_gemini_format(tools) or ():
            google_types.Tool.model_validate(tool)
