"""A ``ModelRequest`` is equivalent to the keyword arguments, for ``render`` and ``Exchange``."""

from typing import Any

import msgspec
import pytest
from rich.pretty import pretty_repr

from multi_llm_chat import Exchange, ModelRequest, Options, ToolDefinition, UsageError, render
from multi_llm_chat.history.values import Text, ToolCall, Turn
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.protocol.request_settings import read_request
from multi_llm_chat.repair.policy import RepairPolicy

HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Where is Roma?"},
    {"role": "gemini", "content": "In Italy."},
    {
        "role": "claude",
        "content": [
            {"type": "tool_call", "content": {"name": "find", "arguments": {}, "tool_call_id": "a"}}
        ],
    },
    {"role": "user", "content": "And Paris?"},
]
TOOLS: list[dict[str, Any]] = [
    {"name": "find", "inputSchema": {"type": "object", "properties": {"city": {"type": "str"}}}},
    {"name": ""},
]
SETTINGS: dict[str, Any] = {
    "model": "m-1",
    "system_prompt": "Be brief.",
    "tools": TOOLS,
    "policy": RepairPolicy(unanswered="drop", foreign="adopt"),
    "options": {"max_tokens": 9},
    "stream": True,
    "speaker": "claude",
    "base_url": "http://example.org/v1",
}


@pytest.mark.parametrize("provider", sorted(ROWS))
def test_a_request_renders_as_its_arguments_do(provider: str) -> None:
    request = read_request(HISTORY, provider, **SETTINGS)
    assert render(request) == render(HISTORY, provider, **SETTINGS)
    exchange = Exchange(request, api_key="k")
    other = Exchange(HISTORY, provider, api_key="k", **SETTINGS)
    assert exchange.rendered == other.rendered
    assert exchange.request() == other.request()


def test_a_request_made_by_hand_is_read_as_liberally() -> None:
    request = ModelRequest(
        (Turn("user", (Text("hi"),)), Turn("chatgpt", (ToolCall("find", {}, ""),))),
        "openai-chat",
        tools=(ToolDefinition("find", schema={"type": "str", "properties": 3}), ToolDefinition("")),
    )
    rendered = render(request)
    [tool] = rendered.body["tools"]
    assert tool["function"]["parameters"] == {"type": "object", "properties": {}}
    assert rendered.body["messages"][1]["tool_calls"][0]["id"]
    assert "stream" in rendered.body
    assert any("no name" in note.message for note in rendered.notes)


def test_tools_that_cannot_be_offered_are_noted_when_the_request_is_rendered() -> None:
    request = read_request(HISTORY, "openai", tools=[*TOOLS, {"type": "web_search_preview"}])
    assert [tool.name for tool in request.tools] == ["find"]
    noted = [note.message for note in render(request).notes]
    assert set(request.skipped_tools) <= set(noted)
    assert len(request.skipped_tools) == 2


def test_the_given_tools_are_not_changed() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "str"}}}
    before = msgspec.json.encode(schema)
    render(read_request(HISTORY, "openai", tools=[{"name": "find", "inputSchema": schema}]))
    assert msgspec.json.encode(schema) == before


def test_a_request_is_passed_alone() -> None:
    request = ModelRequest((), "openai")
    wrong: dict[str, Any] = {"model": "x"}
    with pytest.raises(UsageError, match="pass it alone"):
        render(request, **wrong)
    with pytest.raises(UsageError, match="pass it alone"):
        Exchange(request, **wrong)


def test_an_unknown_keyword_is_named() -> None:
    wrong: dict[str, Any] = {"colour": "red"}
    with pytest.raises(TypeError, match="colour"):
        render(HISTORY, "openai", **wrong)
    with pytest.raises(TypeError, match="colour"):
        Exchange(HISTORY, "openai", **wrong)
    nameless: Any = render
    with pytest.raises(UsageError, match="Name the provider"):
        nameless(HISTORY)


def test_no_repr_shows_the_value_of_a_header() -> None:
    request = ModelRequest((), "openai", options=Options(), headers={"X-Secret": "hush-1234"})
    exchange = Exchange(request, api_key="hush-5678")
    for value in (request, exchange, exchange.request()):
        for shown in (repr(value), pretty_repr(value)):
            assert "hush" not in shown
    assert "X-Secret" in repr(request)
