"""Seed 004's three tests under their original names, over real HTTP against the simulator, on all four dialects.

The seed tests private methods of a GPT handler. Here they are public and belong to every handler. Where the
product deviates from it, the test says so:

- answers carry the id of their request, so that two runs never take each other's;
- there is a multi-call loop, and thinking where the provider has it.
"""

import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.compat.applications import DIALECTS, HANDLERS, Application, model_of, payload_for

from multi_llm_chat.compat.handlers import EventSystem, GptHandler, StreamHandler, serve_tools
from multi_llm_chat.testing import validate
from multi_llm_chat.testing.simulator import Say, Simulator
from multi_llm_chat.tools import ToolRegistry

ANTHROPIC_TOOL: dict[str, Any] = {
    "name": "web_search",
    "description": "Search the web",
    "input_schema": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
}


@pytest.fixture(params=DIALECTS)
def provider(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def events() -> EventSystem:
    """An event system with two tools behind it."""
    registry = ToolRegistry()

    @registry.tool
    def web_search(query: str) -> str:
        """Search the web"""
        return f"found: {query}"

    @registry.tool
    async def read_page(address: str) -> str:
        """Read a page"""
        return f"read: {address}"

    system = EventSystem()
    serve_tools(registry, system)
    return system


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


def handler_for(provider: str, events: EventSystem) -> StreamHandler:
    return HANDLERS[provider](events, provider=provider)


def declared(provider: str, tool: dict[str, Any]) -> dict[str, Any]:
    """Return name, description and schema, wherever the dialect puts them."""
    if provider == "openai-chat":
        assert tool["type"] == "function"
        return tool["function"]
    return tool["functionDeclarations"][0] if provider == "gemini" else tool


def test_tool_definition_conversion(provider: str, events: EventSystem):
    converted = handler_for(provider, events).convert_tool_definition(ANTHROPIC_TOOL)
    tool = declared(provider, converted)
    keys = {"anthropic": "input_schema", "gemini": "parametersJsonSchema"}
    assert tool["name"] == "web_search"
    assert tool["description"] == "Search the web"
    assert tool[keys.get(provider, "parameters")] == ANTHROPIC_TOOL["input_schema"]
    # The seed's ``.get("description", "")``; a missing schema is an object's (OAI-14).
    bare = handler_for(provider, events).convert_tool_definition({"name": "now"})
    if provider == "openai-chat":
        empty: dict[str, Any] = {"type": "object", "properties": {}}
        assert bare["function"] == {"name": "now", "description": "", "parameters": empty}


def test_prepare_payload(provider: str, events: EventSystem):
    handler = handler_for(provider, events)
    payload = payload_for(provider, "Search")
    own = json.loads(json.dumps(payload))
    handler.prepare_payload(payload)
    offered = payload.pop("tools")
    assert payload == own
    if provider == "gemini":
        assert len(offered[0]["functionDeclarations"]) == 2
    else:
        assert len(offered) == 2
    if provider.startswith("openai"):
        assert all(tool["type"] == "function" for tool in offered)
    assert handler.supports_tools()


def native_call(provider: str) -> dict[str, Any]:
    return {
        "openai-chat": {
            "id": "call_123",
            "function": {"name": "web_search", "arguments": '{"query": "test"}'},
        },
        "openai": {
            "type": "function_call",
            "call_id": "call_123",
            "name": "web_search",
            "arguments": '{"query": "test"}',
        },
        "anthropic": {
            "type": "tool_use",
            "id": "call_123",
            "name": "web_search",
            "input": {"query": "test"},
        },
        "gemini": {
            "functionCall": {"id": "call_123", "name": "web_search", "args": {"query": "test"}}
        },
    }[provider]


def test_tool_execution(provider: str, events: EventSystem, simulator: Simulator):
    simulator.script.add(Say("Found it."))
    application = Application(simulator, provider, handler_for(provider, events))
    results: list[dict[str, Any]] = []
    events.subscribe("tool_result", results.append)
    payload = payload_for(provider, "Search")
    application.handler.prepare_payload(payload, model=model_of(provider))
    response: dict[str, Any] = {}
    result = application.handler.handle_tool_calls(
        [native_call(provider)], response, application.context(original_payload=payload)
    )
    assert result.success
    assert result.response is response
    assert "Found it." in json.dumps(response)
    assert result.text == "Found it."
    assert "found: test" in simulator.requests[0].content.decode()
    assert simulator.requests[0].violations == ()
    assert results == [
        {"tool_name": "web_search", "tool_id": "call_123", "tool_result": "found: test"}
    ]


def test_the_seeds_own_snippet_answers_the_requests():
    """``tool_registry_events_addition.py`` answers without an id; its thread tells which request it means."""
    events = EventSystem()

    def on_execute_tool_request(data: dict[str, Any]) -> None:
        tool_name = data.get("tool_name")
        tool_input = data.get("tool_input", {})
        result = f"{tool_name}({tool_input['query']})"
        events.emit_event("tool_execution_response", {"result": result})

    events.subscribe("execute_tool_request", on_execute_tool_request)
    asked = {"tool_name": "web_search", "tool_input": {"query": "test"}, "tool_call_id": "call_1"}
    assert events.request("execute_tool_request", asked)["result"] == "web_search(test)"


def test_without_tools_nothing_changes(provider: str, simulator: Simulator):
    """The seed's "no breaking changes": no tool enabled, no key added, the same bytes."""
    simulator.script.add(Say("Hello."))
    application = Application(
        simulator, provider, HANDLERS[provider](tools=ToolRegistry(), provider=provider)
    )
    payload = payload_for(provider, "Hi")
    before = json.dumps(payload)
    assert json.dumps(application.handler.prepare_payload(payload)) == before
    assert application.follow(payload).text == "Hello."
    assert simulator.requests[0].content.decode() == before


def test_a_request_waits_thirty_seconds_unless_another_time_is_given():
    """Features, 2: tools may be slow."""
    for method in (EventSystem.request, EventSystem.arequest):
        assert inspect.signature(method).parameters["timeout"].default == 30


def test_a_handler_subscribes_to_the_answers_of_its_bus(provider: str):
    """Changes, 1: both answers are received, by the names of the seed, as soon as there is a handler."""
    subscribed: list[str] = []

    class Bus:
        def subscribe(self, name: str, handler: Any) -> None:
            subscribed.append(name)

        def emit_event(self, name: str, payload: Any) -> None:
            raise AssertionError("nothing is asked yet")

    HANDLERS[provider](Bus(), provider=provider)
    assert {"tool_execution_response", "enabled_tools_response"} <= set(subscribed)


def test_a_continuation_has_the_call_and_its_result():
    """Format: the messages of the continuation; the original payload is a copy's source, not changed.

    The seed writes ``"content": null``; a message without words has no content.
    """
    tool_call = {"id": "call_abc123", "type": "function", "function": {"name": "web_search", "arguments": '{"query": "weather Paris"}'}}  # fmt: skip
    reply = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [tool_call]}}]}  # fmt: skip
    payload: dict[str, Any] = {"model": "gpt-4", "messages": [{"role": "user", "content": "Weather?"}]}  # fmt: skip
    before = json.dumps(payload)
    result = {"tool_call_id": "call_abc123", "role": "tool", "name": "web_search", "content": "Sunny, 20°C"}  # fmt: skip
    continued = GptHandler().build_continuation_payload(payload, reply, [result])
    assert json.dumps(payload) == before
    user, assistant, tool = continued["messages"]
    assert user == payload["messages"][0]
    assert assistant.get("content") is None
    assert assistant["tool_calls"] == [tool_call]
    assert (tool["role"], tool["tool_call_id"], tool["content"]) == ("tool", "call_abc123", "Sunny, 20°C")  # fmt: skip
    assert validate("openai-chat", continued) == []
