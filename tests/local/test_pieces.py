"""The code around the model that needs no model: prompts, labels, checks, wording."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from multi_llm_chat.errors import ProviderError
from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.local._answer import (
    argument_error,
    basic_argument_error,
    flatten_result,
    is_faithful,
)
from multi_llm_chat.local._engine import check_processor, thread_count
from multi_llm_chat.local._prompt import read_prompt
from multi_llm_chat.local._tool_choice import MOST_TOOLS, NO_TOOL, Example, make_offers
from multi_llm_chat.request import ToolDefinition


def user(text: str) -> Turn:
    return Turn("user", (Text(text),))


def test_importing_the_package_loads_no_runtime() -> None:
    code = "import sys, multi_llm_chat, multi_llm_chat.local; sys.exit('xllamacpp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_messages_alternate_behind_one_system_message() -> None:
    prompt = read_prompt(
        [
            Turn("system", (Text("Be kind."),)),
            Turn("local", (Text("I begin."),)),
            user("One."),
            user("Two."),
            Turn("claude", (Text("Three."),)),
            Turn("local", (Text("Four."),)),
            user("Five."),
        ],
        model="m",
        system_prompt="Be brief.",
    )
    assert [(message["role"], message["content"]) for message in prompt.messages()] == [
        ("system", "Be brief.\n\nBe kind."),
        ("user", "(the conversation so far)"),
        ("assistant", "I begin."),
        ("user", "One.\n\nTwo.\n\n[claude] Three."),
        ("assistant", "Four."),
        ("user", "Five."),
    ]
    assert prompt.question == "Five."


def test_a_tool_exchange_becomes_one_line_of_the_user() -> None:
    history = [
        user("How warm is it?"),
        Turn("local", (ToolCall("weather", {"city": "Rome"}, "c1"),)),
        Turn("tool", (ToolResult("weather", {"celsius": 21}, "c1"),)),
        Turn("local", (Text("21 degrees."),)),
        user("Thanks"),
    ]
    messages = read_prompt(history, model="m").messages()
    assert messages[0]["content"] == 'How warm is it?\n\n(weather {"city":"Rome"}: {"celsius":21})'
    assert read_prompt(history, model="m").tool_exchanges == ()
    (exchange,) = read_prompt(history[:3], model="m").tool_exchanges
    assert (exchange.call.name, exchange.result, exchange.is_error) == (
        "weather",
        '{"celsius":21}',
        False,
    )


def test_the_oldest_exchanges_go_first_and_the_newest_never() -> None:
    turns = [
        turn for number in range(4) for turn in (user(f"q{number}"), Turn("local", (Text("a"),)))
    ]
    prompt = read_prompt([*turns, user("last")], model="m", system_prompt="s")
    shorter = prompt.shorter(0.3)
    assert shorter is not None
    assert [message["content"] for message in shorter.messages()][:2] == ["s", "q2"]
    least = prompt.shorter(1.0)
    assert least is not None
    assert [message["content"] for message in least.messages()] == ["s", "last"]
    assert least.shorter(0.1) is None


def tool(name: str, description: str = "") -> ToolDefinition:
    return ToolDefinition(name, description, {"type": "object", "properties": {}})


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["get_weather", "calculate"], ["weather", "calculate"]),
        (["getWeather", "getTime"], ["weather", "time"]),
        (["get_user", "get_users"], ["1", "2"]),
        (["chat_history", "calc"], ["history", "calc"]),
        (["chat"], ["1"]),
        (["天気", "計算"], ["1", "2"]),
    ],
)
def test_labels_begin_differently(names: list[str], labels: list[str]) -> None:
    offers = make_offers([tool(name) for name in names], "")
    assert [offer.label for offer in offers] == labels
    assert NO_TOOL not in labels


def test_examples_are_made_from_the_description_and_the_callers_come_first() -> None:
    weather = tool("get_weather", "Get the weather in a city. Long story follows.")
    (offer,) = make_offers([weather], "")
    assert offer.examples[0] == "Get the weather in a city."
    assert len(offer.examples) == 3
    assert not set(offer.examples) & set(offer.anchors)
    own = {"get_weather": [Example("Rain in Oslo?", {"city": "Oslo"})]}
    (offer,) = make_offers([weather], "", own)
    assert offer.examples[0] == "Rain in Oslo?"


def test_of_too_many_tools_those_nearest_to_the_question_are_offered() -> None:
    tools = [tool(f"tool_{letter}", f"Does {letter * 3}.") for letter in "abcdefghijkl"]
    offers = make_offers(tools, "please do LLL now")
    assert len(offers) == MOST_TOOLS
    assert "tool_l" in {offer.tool.name for offer in offers}


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "unit": {"enum": ["m", "km"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["count"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"count": 1},
        {"count": 1.0, "unit": "km", "tags": ["a"]},
        {},
        {"count": "1"},
        {"count": True},
        {"count": 1, "unit": "mile"},
        {"count": 1, "tags": [1]},
        {"count": 1, "more": 2},
    ],
)
def test_our_own_check_agrees_with_the_full_one(arguments: dict[str, Any]) -> None:
    valid = jsonschema_rs.is_valid(SCHEMA, arguments)
    assert (argument_error(arguments, SCHEMA) is None) == valid
    assert (basic_argument_error(arguments, SCHEMA) is None) == valid


@pytest.mark.parametrize(
    ("sentence", "faithful"),
    [
        ("17 times 23 is 391.", True),
        ("17 times 23 is 392.", False),
        ("17 times 23 is much.", False),
        ("", False),
    ],
)
def test_a_sentence_must_show_the_figure_and_invent_none(sentence: str, faithful: bool) -> None:
    assert is_faithful(sentence, "What is 17 times 23?", "391") is faithful


def test_a_json_result_becomes_everyday_words() -> None:
    assert flatten_result('{"sky_now": "rain", "degrees": [7, 9]}') == "sky now rain, degrees 7, 9"
    assert flatten_result("just words") == "just words"


def test_a_processor_without_avx2_is_refused_in_words(tmp_path: Path) -> None:
    described = tmp_path / "cpuinfo"
    described.write_text("flags\t\t: fpu sse4_2 avx\n", encoding="utf-8")
    with pytest.raises(ProviderError, match="AVX2") as caught:
        check_processor(described, "x86_64")
    assert caught.value.code == "no_avx2"
    check_processor(described, "arm64")
    check_processor(tmp_path / "nothing", "x86_64")
    described.write_text("flags\t\t: fpu avx avx2\n", encoding="utf-8")
    check_processor(described, "x86_64")


def test_one_core_is_left_to_others() -> None:
    assert thread_count() >= 1
