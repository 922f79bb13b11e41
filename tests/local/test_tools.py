"""A very small model calls tools: routing, arguments and the final sentence, with the real model."""

import json
from typing import Any

import jsonschema_rs
import pytest
from msgspec.structs import replace

from multi_llm_chat.events import Event, Finish, ToolCallDelta, ToolCallEnd, ToolCallStart, Usage
from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.local import DEFAULT_MODEL, Example, LocalModel
from multi_llm_chat.local._engine import GenerationSink, LlamaEngine, Runtime
from multi_llm_chat.local._generation import EngineClient
from multi_llm_chat.local._tool_choice import SchemaRouter, make_offers
from multi_llm_chat.request import ToolDefinition

pytestmark = pytest.mark.judge  # the model learns its tools first, which takes some seconds

WEATHER = ToolDefinition(
    "get_weather",
    "Get the current weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CALCULATE = ToolDefinition(
    "calculate",
    "Calculate the value of an arithmetic expression.",
    {
        "type": "object",
        "properties": {"expression": {"type": "string"}},
        "required": ["expression"],
        "additionalProperties": False,
    },
)
TOOLS = (WEATHER, CALCULATE)
EXACT: dict[str, Any] = {"temperature": 0, "max_tokens": 16}


def user(text: str) -> Turn:
    return Turn("user", (Text(text),))


def only_call(events: list[Event]) -> ToolCall:
    start, delta, end, usage, finish = events
    assert isinstance(start, ToolCallStart)
    assert isinstance(delta, ToolCallDelta)
    assert isinstance(end, ToolCallEnd)
    assert isinstance(usage, Usage)
    assert finish == Finish("tool_calls", "tool_calls")
    assert (start.tool_call_id, start.name) == (end.call.tool_call_id, end.call.name)
    assert json.loads(delta.arguments) == end.call.arguments
    return end.call


@pytest.mark.parametrize(
    ("message", "name", "arguments"),
    [
        ("What is 17 times 23?", "calculate", {"expression": "17 * 23"}),
        ("Compute 144 / 12", "calculate", {"expression": "144 / 12"}),
        ("Weather in Berlin please", "get_weather", {"city": "Berlin"}),
    ],
)
def test_it_calls_the_right_tool_with_valid_arguments(
    model: LocalModel, message: str, name: str, arguments: dict[str, str]
) -> None:
    call = only_call(list(model.stream([user(message)], tools=TOOLS, options=EXACT)))
    assert (call.name, call.arguments, call.error) == (name, arguments, None)
    schema = next(tool.schema for tool in TOOLS if tool.name == name)
    jsonschema_rs.validate(schema, call.arguments)


def test_warm_tools_are_learnt_only_once(model: LocalModel) -> None:
    model.warm("Be brief.", TOOLS)
    completed = model.complete([user("What is 17 times 23?")], tools=TOOLS, options=EXACT)
    # One routing score and one argument completion; learning would have read the examples a dozen times more.
    assert completed.usage.input_tokens < 1000


def test_small_talk_needs_no_tool(model: LocalModel) -> None:
    completed = model.complete([user("Hello, how are you?")], tools=TOOLS, options=EXACT)
    assert [type(part) for part in completed.turn.parts] == [Text]


def test_the_final_sentence_shows_the_result(model: LocalModel) -> None:
    question = user("What is 17 times 23?")
    turn = model.complete([question], tools=TOOLS, options=EXACT).turn
    (call,) = turn.parts
    assert isinstance(call, ToolCall)
    result = Turn("tool", (ToolResult(call.name, "391", call.tool_call_id),))
    completed = model.complete([question, turn, result], tools=TOOLS, options=EXACT)
    (said,) = completed.turn.parts
    assert isinstance(said, Text)
    assert "391" in said.content
    assert completed.finish.reason == "stop"


def test_a_failed_tool_is_reported_as_it_is(model: LocalModel) -> None:
    call = Turn("local", (ToolCall("get_weather", {"city": "Oz"}, "c1"),))
    result = Turn("tool", (ToolResult("get_weather", "no such city", "c1", is_error=True),))
    completed = model.complete([user("Weather in Oz?"), call, result], tools=TOOLS)
    assert completed.turn.parts == (Text("get_weather failed: no such city"),)


def test_the_callers_choice_of_tool_is_obeyed(model: LocalModel) -> None:
    history = [user("Is it raining in Oslo right now?")]
    named = model.complete(history, tools=TOOLS, options={**EXACT, "tool_choice": "get_weather"})
    assert [part.name for part in named.turn.parts if isinstance(part, ToolCall)] == ["get_weather"]
    none = model.complete(history, tools=TOOLS, options={**EXACT, "tool_choice": "none"})
    assert [type(part) for part in none.turn.parts] == [Text]
    hello = [user("Hello!")]
    must = model.complete(hello, tools=TOOLS, options={**EXACT, "tool_choice": "required"})
    assert [type(part) for part in must.turn.parts] == [ToolCall]


def test_a_tool_without_arguments_is_called_without(model: LocalModel) -> None:
    tool = ToolDefinition("ring_bell", "Ring the bell.", {"type": "object", "properties": {}})
    options = {"tool_choice": "ring_bell"}
    call = only_call(list(model.stream([user("Ring it.")], tools=[tool], options=options)))
    assert call.arguments == {}


def test_numbers_and_choices_obey_the_schema(model: LocalModel) -> None:
    schema = {
        "type": "object",
        "properties": {
            "minutes": {"type": "integer", "minimum": 1},
            "sound": {"enum": ["bell", "horn"]},
        },
        "required": ["minutes", "sound"],
        "additionalProperties": False,
    }
    tool = {"name": "set_timer", "description": "Start a timer.", "inputSchema": schema}
    options = {"tool_choice": "set_timer"}
    history = [user("Set a timer for 25 minutes with a horn")]
    call = only_call(list(model.stream(history, tools=[tool], options=options)))
    jsonschema_rs.validate(schema, call.arguments)
    assert call.arguments["minutes"] == 25


def test_an_id_follows_from_the_place_and_is_free(model: LocalModel) -> None:
    taken = Turn("claude", (ToolCall("get_weather", {"city": "Rome"}, "call_2_0"),))
    options = {"tool_choice": "get_weather"}
    stream = model.stream([taken, user("Weather in Berlin please")], tools=TOOLS, options=options)
    assert only_call(list(stream)).tool_call_id == "call_2_0x"


def test_examples_of_the_caller_teach_an_odd_tool(model: LocalModel) -> None:
    tool = ToolDefinition(
        "zq_lookup",
        "Internal part service.",
        {"type": "object", "properties": {"part": {"type": "string"}}, "required": ["part"]},
    )
    examples = {
        tool.name: [
            Example("Do we have part A-17?", {"part": "A-17"}),
            Example("Is part B-20 in stock?", {"part": "B-20"}),
            Example("Look for part C-3 in the store", {"part": "C-3"}),
        ]
    }
    taught = LocalModel(DEFAULT_MODEL, folder=model.path.parent, examples=examples)
    options = {**EXACT, "tool_choice": tool.name}
    call = only_call(
        list(taught.stream([user("Is part D-44 in stock?")], tools=[tool], options=options))
    )
    assert call.arguments == {"part": "D-44"}


def test_a_bigger_models_router_can_only_choose_what_there_is(model: LocalModel) -> None:
    question = "What is 17 times 23?"
    offers = [replace(offer, examples=offer.examples[:1]) for offer in make_offers(TOOLS, question)]
    chosen: list[str] = []

    def work(engine: LlamaEngine, sink: GenerationSink) -> None:
        client = EngineClient(engine, sink, model.context)
        offer = SchemaRouter().choose(client, offers, question, must=True)
        chosen.append(offer.tool.name if offer else "none")

    runtime: Runtime = model.runtime
    assert list(runtime.stream(work)) == []
    assert chosen[0] in {tool.name for tool in TOOLS}
