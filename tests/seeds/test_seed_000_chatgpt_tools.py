"""Seed 000's eleven tests, under their original names, with real components.

Where the product deviates from the seed, the test says so. The seed's provider class uses
Chat Completions; here that is the row ``openai-chat``, with real requests and the bytes of a
real stream.
"""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from multi_llm_chat import (
    ChatGPTProvider,
    ClaudeProvider,
    Exchange,
    GeminiProvider,
    ToolCall,
    render,
)
from multi_llm_chat.compat.tool_formats import ToolSkippedWarning
from multi_llm_chat.errors import StreamBroken
from multi_llm_chat.events import Event, TextDelta, ToolCallEnd
from multi_llm_chat.history.values import Text
from multi_llm_chat.llm_provider import (
    OpenAIToolCallAssembler,
    mcp_tools_to_openai_format,
    parse_openai_tool_call,
)
from multi_llm_chat.testing import validate
from multi_llm_chat.testing.simulator import Call, Say, Simulator

USER = {"role": "user", "content": "What is the weather in Tokyo?"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"location": {"type": "string", "description": "The city and state"}},
    "required": ["location"],
}
WEATHER = {
    "name": "get_weather",
    "description": "Get the current weather in a given location",
    "inputSchema": SCHEMA,
}


def delta(
    index: int | None = 0,
    identifier: str | None = None,
    name: str | None = None,
    arguments: str | None = None,
) -> dict[str, Any]:
    function = {
        key: value
        for key, value in {"name": name, "arguments": arguments}.items()
        if value is not None
    }
    made: dict[str, Any] = {"function": function}
    if index is not None:
        made["index"] = index
    return made | ({"id": identifier, "type": "function"} if identifier is not None else {})


def stream(*deltas: dict[str, Any], finish: str = "tool_calls") -> bytes:
    """Return the bytes that OpenAI sends for these deltas."""
    bodies: list[Any] = [
        {"choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in deltas
    ]
    bodies.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    frames = [
        f"data: {json.dumps({'id': 'chatcmpl-1', 'object': 'chat.completion.chunk', **body})}\n\n"
        for body in bodies
    ]
    return "".join([*frames, "data: [DONE]\n\n"]).encode()


def received(*deltas: dict[str, Any], finish: str = "tool_calls") -> tuple[list[Event], Exchange]:
    exchange = Exchange([USER], "openai-chat", tools=[WEATHER])
    events = exchange.receive(stream(*deltas, finish=finish))
    return events + exchange.end(), exchange


def calls_in(events: list[Event]) -> list[ToolCall]:
    return [event.call for event in events if isinstance(event, ToolCallEnd)]


def test_mcp_to_openai_tool_conversion():
    assert mcp_tools_to_openai_format([WEATHER]) == [
        {"type": "function", "function": {"name": "get_weather", "description": WEATHER["description"], "parameters": SCHEMA}}
    ]  # fmt: skip
    # The seed sends ``{}`` for a missing schema; OpenAI requires an object with properties (OAI-14).
    assert mcp_tools_to_openai_format([{"name": "now"}]) == [
        {"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}
    ]  # fmt: skip


def test_mcp_to_openai_with_empty_tools(caplog: pytest.LogCaptureFixture):
    assert mcp_tools_to_openai_format(mcp_tools=[]) is None
    assert mcp_tools_to_openai_format(None) is None
    with pytest.warns(ToolSkippedWarning, match="no name"):
        assert (
            mcp_tools_to_openai_format([{"description": "nameless", "inputSchema": SCHEMA}]) is None
        )
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "Skipping MCP tool 0: it has no name")
    ]


def test_parse_openai_tool_call():
    tool_call = {
        "id": "call_abc123",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"location": "Tokyo"}'},
    }
    parsed = parse_openai_tool_call(tool_call)
    # The seed calls it ``tool_name`` here and ``name`` everywhere else: it is ``name``.
    assert parsed["name"] == "get_weather"
    assert parsed["arguments"] == {"location": "Tokyo"}
    assert parsed["tool_call_id"] == "call_abc123"
    assert "error" not in parsed


def test_parse_openai_tool_call_with_invalid_json(caplog: pytest.LogCaptureFixture):
    tool_call = {
        "id": "call_abc123",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"location": '},
    }
    parsed = parse_openai_tool_call(tool_call)
    assert parsed["arguments"] == {}
    # The seed drops the error and would run the call with ``{}``; ours is never executed.
    assert parsed["raw_arguments"] == '{"location": '
    assert "not valid JSON" in parsed["error"]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("Failed to parse tool arguments JSON: ")


def test_chatgpt_provider_call_api_with_tools():
    exchange = Exchange(
        [USER],
        "openai-chat",
        system_prompt="Be kind.",
        tools=[WEATHER],
        options={"tool_choice": "auto"},
        api_key="sk-test",
    )
    request = exchange.request()
    assert request.url == "https://api.openai.com/v1/chat/completions"
    body = json.loads(request.body)
    assert body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": USER["content"]},
    ]
    assert body["tools"] == mcp_tools_to_openai_format([WEATHER])
    assert body["tool_choice"] == "auto"
    assert body["stream"] is True
    assert validate("openai-chat", body) == []
    assert "tools" not in json.loads(Exchange([USER], "openai-chat", tools=[]).request().body)


def test_chatgpt_response_with_tool_call():
    events, exchange = received(
        {"role": "assistant", "content": "Let me look."},
        {"tool_calls": [delta(0, "call_abc123", "get_weather", '{"location": "Tokyo"}')]},
    )
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Let me look."
    (call,) = calls_in(events)
    assert (call.name, call.arguments, call.tool_call_id) == (
        "get_weather",
        {"location": "Tokyo"},
        "call_abc123",
    )
    assert exchange.turn.role == "chatgpt"
    assert len(exchange.turn.parts) == 2


def test_chatgpt_streaming_tool_arguments():
    fragments = ['{"loc', 'ation": "T', "", 'okyo"}']
    events, _ = received(
        {"tool_calls": [delta(0, "call_abc123", "get_weather", "")]},
        *[{"tool_calls": [delta(0, arguments=fragment)]} for fragment in fragments],
    )
    assert [call.arguments for call in calls_in(events)] == [{"location": "Tokyo"}]


def test_chatgpt_parallel_tool_calls():
    events, _ = received(
        {"tool_calls": [delta(0, "call_1", "get_weather", '{"location":')]},
        {"tool_calls": [delta(1, "call_2", "get_weather", '{"location":')]},
        {"tool_calls": [delta(1, arguments='"Osaka"}')]},
        {"tool_calls": [delta(0, arguments='"Tokyo"}')]},
    )
    assert {call.tool_call_id: call.arguments["location"] for call in calls_in(events)} == {
        "call_1": "Tokyo",
        "call_2": "Osaka",
    }


def test_invalid_tool_arguments_json():
    events, exchange = received(
        {"tool_calls": [delta(0, "call_1", "get_weather", '{"location": oops}')]}
    )
    (call,) = calls_in(events)
    assert call.arguments == {}
    assert call.raw_arguments == '{"location": oops}'
    assert call.error is not None
    # Nothing is lost: the next request tells the model what it wrote, legally.
    again = Exchange([USER, exchange.turn], "openai-chat", tools=[WEATHER]).rendered
    assert (
        again.body["messages"][1]["tool_calls"][0]["function"]["arguments"]
        == '{"_raw":"{\\"location\\": oops}"}'
    )
    assert validate("openai-chat", again.body) == []


def test_missing_tool_call_id():
    events, _ = received({"tool_calls": [delta(0, None, "get_weather", "{}")]})
    (call,) = calls_in(events)
    assert call.name == "get_weather"
    assert call.tool_call_id  # generated from its position: every call can be answered
    # Outside of a stream there is no position to generate an id from: reading the history does that.
    assert (
        parse_openai_tool_call({"function": {"name": "f", "arguments": "{}"}})["tool_call_id"] == ""
    )


def test_tool_call_without_name():
    assembler = OpenAIToolCallAssembler()
    # A fragment without a name waits for one, as a mapping or as the SDK's object.
    assert assembler.process_tool_call(delta(0, "call_1", None, "{}")) is None
    assert assembler.finalize() == []
    late = OpenAIToolCallAssembler()
    assert late.process_tool_call(delta(0, "call_1", None, '{"location":')) is None
    function = SimpleNamespace(name="get_weather", arguments='"Tokyo"}')
    assert late.process_tool_call(SimpleNamespace(index=0, id=None, function=function)) is None
    (call,) = late.finalize()
    assert (call["name"], call["arguments"], call["tool_call_id"]) == (
        "get_weather",
        {"location": "Tokyo"},
        "call_1",
    )


@pytest.mark.parametrize("cut", ["in a call", "between frames"])
def test_an_interrupted_stream_leaves_the_words_and_no_half_call(cut: str):
    """Phase 4: a call that was received in part is no call, and nothing of it stays open."""
    whole = stream(
        {"role": "assistant", "content": "Let me look."},
        {"tool_calls": [delta(0, "call_1", "get_weather", '{"location": "To')]},
        {"tool_calls": [delta(0, arguments='kyo"}')]},
    )
    end = whole.index(b"kyo") if cut == "in a call" else whole.rindex(b"data: {")
    exchange = Exchange([USER], "openai-chat", tools=[WEATHER])
    events = exchange.receive(whole[:end])
    with pytest.raises(StreamBroken):
        exchange.end()
    assert calls_in(events) == []
    assert exchange.turn.parts == (Text("Let me look."),)
    again = Exchange([USER, exchange.turn, USER], "openai-chat", tools=[WEATHER]).rendered
    assert validate("openai-chat", again.body) == []


SPEAKERS = {"chatgpt": ChatGPTProvider, "gemini": GeminiProvider, "claude": ClaudeProvider}


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_call_api_yields_text_and_calls_in_one_form(speaker: str, simulator: Simulator):
    """Design, 1: the chunks are the same for every model; the class is the seeds' class."""
    simulator.script.add(
        Say("Let me look.", calls=[Call("get_weather", {"location": "Tokyo"}, "call_abc123")])
    )
    provider = SPEAKERS[speaker](api_key="k", base_url=simulator.url)
    chunks = list(provider.call_api([USER], "Be kind.", [WEATHER]))
    assert {chunk["type"] for chunk in chunks} == {"text", "tool_call"}
    text = [chunk["content"] for chunk in chunks if chunk["type"] == "text"]
    (call,) = [chunk["content"] for chunk in chunks if chunk["type"] == "tool_call"]
    assert "".join(text) == "Let me look."
    assert (call["name"], call["arguments"]) == ("get_weather", {"location": "Tokyo"})
    assert set(call) >= {"name", "arguments", "tool_call_id"}
    (request,) = simulator.requests
    assert "get_weather" in json.dumps(request.body["tools"])
    assert "Be kind." in request.content.decode()
    assert request.violations == ()


@pytest.mark.parametrize("speaker", SPEAKERS)
@pytest.mark.parametrize("tools", [None, [], ()], ids=["none", "a list", "a tuple"])
def test_without_tools_call_api_is_as_it_was(speaker: str, tools: Any, simulator: Simulator):
    """Migration: ``tools`` is optional, and a blank system prompt is none."""
    simulator.script.add(Say("Hello."), Say("Hello."))
    provider = SPEAKERS[speaker](api_key="k", base_url=simulator.url)
    plain = list(provider.call_api([USER]))
    assert list(provider.call_api([USER], "  \n", tools=tools)) == plain
    assert "".join(chunk["content"] for chunk in plain) == "Hello."
    first, second = simulator.requests
    assert first.content == second.content
    assert not {"tools", "tool_choice", "toolConfig"} & set(first.body)


def test_the_seeds_dict_forms_are_read():
    """Phase 2, C: content that is one call or one result, as the seed's ``format_history`` takes it.

    Seed 002, which is later, makes an error of it in ``format_history``; ``render`` takes it.
    """
    call = {"type": "tool_call", "tool_call_id": "c1", "tool_name": "get_weather", "arguments": {"location": "Tokyo"}}  # fmt: skip
    result = {"type": "tool_result", "tool_call_id": "c1", "result": {"temperature": 25}}
    history = [
        USER,
        {"role": "chatgpt", "content": call},
        {"role": "chatgpt", "content": result},
        {"role": "chatgpt", "content": "25 degrees."},
    ]
    user, assistant, tool, answer = render(history, "openai-chat").body["messages"]
    assert user["content"] == USER["content"]
    (made,) = assistant["tool_calls"]
    assert (made["id"], made["type"], made["function"]["name"]) == ("c1", "function", "get_weather")
    assert json.loads(made["function"]["arguments"]) == {"location": "Tokyo"}
    assert (tool["role"], tool["tool_call_id"]) == ("tool", "c1")
    assert json.loads(tool["content"]) == {"temperature": 25}
    assert answer == {"role": "assistant", "content": "25 degrees."}
    with pytest.raises(ValueError, match="actual type: dict"):
        ChatGPTProvider.format_history(history)
