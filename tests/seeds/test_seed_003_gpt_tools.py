"""Seed 003's three test plans, over real HTTP against the simulator, on all four dialects.

The seed plans them for GPT alone. Where the product deviates from it, the test says so:

- the seed's continuation of a second round would lose the first one (it builds each from the original payload);
- the seed would run arguments that are not JSON as ``{}``: here they are an error that the model reads;
- the seed would treat a failing continuation as an answer: here it is reported.
"""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.compat.applications import DIALECTS, HANDLERS, Application

from multi_llm_chat.history.values import ToolResult
from multi_llm_chat.testing.simulator import Call, Say, Simulator, Status
from multi_llm_chat.tools import ToolRegistry

QUESTION = "What's the weather in Paris?"


@pytest.fixture
def registry() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool
    def get_weather(location: str) -> str:
        """Get weather"""
        return f"Sunny in {location}"

    @tools.tool
    async def get_time(zone: str) -> str:
        """Get the time"""
        return f"Noon in {zone}"

    return tools


@pytest.fixture(params=DIALECTS)
def provider(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


def weather(location: str) -> Call:
    return Call("get_weather", {"location": location})


def test_single_tool_call(provider: str, simulator: Simulator, registry: ToolRegistry):
    simulator.script.add(Say(calls=[weather("Paris")]), Say("It is sunny in Paris."))
    application = Application(simulator, provider, HANDLERS[provider](tools=registry))
    result = application.ask(QUESTION)
    assert (result.success, result.text) == (True, "It is sunny in Paris.")
    assert [chunk["type"] for chunk in application.output if chunk["type"] != "text"] == [
        "tool_start",
        "tool_result",
    ]
    first, second = simulator.requests
    assert [tool.name for tool in first.conversation.tools] == ["get_weather", "get_time"]
    assert len(second.conversation.results) == 1
    assert "Sunny in Paris" in second.conversation.results[0]
    assert result.error is None


def test_multiple_tool_calls(provider: str, simulator: Simulator, registry: ToolRegistry):
    calls = [weather("Paris"), Call("get_time", {"zone": "Rome"}), weather("Oslo")]
    simulator.script.add(Say(calls=calls), Say("Sunny, sunny, noon."))
    application = Application(simulator, provider, HANDLERS[provider](tools=registry))
    result = application.ask(QUESTION)
    assert result.text == "Sunny, sunny, noon."
    contents = [part.content for part in result.turns[1].parts if isinstance(part, ToolResult)]
    assert contents == ["Sunny in Paris", "Noon in Rome", "Sunny in Oslo"]
    sent = simulator.requests[1].content.decode()
    assert sent.index("Sunny in Paris") < sent.index("Noon in Rome") < sent.index("Sunny in Oslo")


def test_multi_iteration(provider: str, simulator: Simulator, registry: ToolRegistry):
    simulator.script.add(
        Say("First Paris.", calls=[weather("Paris")]),
        Say("Now Rome.", calls=[weather("Rome")]),
        Say("Both are sunny."),
    )
    application = Application(simulator, provider, HANDLERS[provider](tools=registry))
    result = application.ask(QUESTION)
    assert (result.text, result.iterations, len(simulator.requests)) == ("Both are sunny.", 3, 3)
    third = simulator.requests[2].content.decode()
    expected = ["First Paris.", "Sunny in Paris", "Now Rome.", "Sunny in Rome"]
    places = [third.index(text) for text in expected]
    assert places == sorted(places)
    assert [request.violations for request in simulator.requests] == [()] * 3
    assert [part for turn in result.turns for part in turn.parts if _is_result(part)]


def _is_result(part: Any) -> bool:
    return isinstance(part, ToolResult) and not part.is_error


def test_five_rounds_at_most_and_then_an_answer(
    provider: str, simulator: Simulator, registry: ToolRegistry
):
    """The seed stops with the last reply; here the model gets one more request, without tools."""
    rounds = [Say(calls=[weather(f"City {number}")]) for number in range(5)]
    simulator.script.add(*rounds, Say("That is all."))
    application = Application(simulator, provider, HANDLERS[provider](tools=registry))
    result = application.ask(QUESTION)
    assert (result.text, result.stop_reason) == ("That is all.", "iterations")
    assert len(simulator.requests) == 6
    assert all(f"Sunny in City {n}" in simulator.requests[5].content.decode() for n in range(5))
    assert "Get weather" not in simulator.requests[5].content.decode()


def test_arguments_that_are_not_json_are_not_run_as_none(
    simulator: Simulator, registry: ToolRegistry
):
    simulator.script.add(Say(calls=[Call("get_weather", '{"location": "Par')]), Say("Sorry."))
    application = Application(simulator, "openai-chat", HANDLERS["openai-chat"](tools=registry))
    result = application.ask(QUESTION)
    (result_part,) = [part for part in result.turns[1].parts if isinstance(part, ToolResult)]
    assert result_part.is_error
    assert "not" in str(result_part.content)
    assert result.text == "Sorry."


def test_the_rounds_of_a_run_are_logged(
    simulator: Simulator, registry: ToolRegistry, caplog: pytest.LogCaptureFixture
):
    """Steps 2 and 3: how many calls a reply has, each iteration, wrong arguments, failing tools; no tool's words."""

    @registry.tool
    def fail() -> str:
        """Fails."""
        raise RuntimeError("https://example.com/?key=secret")

    simulator.script.add(
        Say(calls=[weather("Paris"), weather("Rome")]),
        Say(calls=[Call("get_weather", '{"location": "Par'), Call("fail", {})]),
        Say("Done."),
    )
    handler = HANDLERS["openai-chat"](None, logging.getLogger("mine"), tools=registry)
    with caplog.at_level("INFO", logger="mine"):
        assert Application(simulator, "openai-chat", handler).ask(QUESTION).text == "Done."
    lines = [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "mine"]
    assert [level for level, _ in lines] == ["INFO", "INFO", "INFO", "ERROR", "ERROR"]
    assert "response has 2 tool calls" in lines[0][1]
    assert [text for _, text in lines[1:3]] == ["Tool iteration 1/5", "Tool iteration 2/5"]
    assert lines[3][1].startswith("Invalid tool arguments JSON: ")
    assert lines[4][1] == "Tool execution failed: fail"


def test_a_failing_continuation_is_told(simulator: Simulator, registry: ToolRegistry):
    simulator.script.add(Say(calls=[weather("Paris")]), Status(500))
    application = Application(simulator, "openai-chat", HANDLERS["openai-chat"](tools=registry))
    result = application.ask(QUESTION)
    assert not result.success
    assert result.stop_reason == "error"
    assert result.error is not None
    assert [turn.role for turn in result.turns] == ["chatgpt", "tool"]


def test_the_seeds_own_payload_with_its_own_tools(simulator: Simulator, registry: ToolRegistry):
    """The seed's payload brings the definition itself; it stays as it is, and the registry runs the call."""
    payload: dict[str, Any] = {
        "model": "gpt-4",
        "stream": True,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Get weather",
                "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
            },
        }],
    }  # fmt: skip
    registry.disable("get_time")
    before = json.dumps(payload)
    handler = HANDLERS["openai-chat"](tools=registry)
    assert json.dumps(handler.prepare_payload(payload)) == before
    simulator.script.add(Say(calls=[weather("Paris")]), Say("It is sunny."))
    result = Application(simulator, "openai-chat", handler).follow(payload)
    assert result.text == "It is sunny."
    assert simulator.requests[1].body["messages"][2]["content"] == "Sunny in Paris"
