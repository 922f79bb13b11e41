"""The arguments of an ``Agent``: common mistakes raise an error that says what to write instead."""

from typing import Any

import pytest

from multi_llm_chat import Agent, create_provider
from multi_llm_chat.errors import UsageError


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("setting", ["api_key", "base_url"])
@pytest.mark.parametrize("models", [["claude", "gemini"], {"a": "claude", "b": "gemini"}, {"a": ["claude", "gemini"]}])  # fmt: skip
def test_a_key_or_an_address_does_not_go_to_several_services(models: Any, setting: str):
    given: dict[str, Any] = {setting: "https://example.com"}
    with pytest.raises(UsageError, match=f"{setting} would go to all"):
        Agent(models, **given)


def test_settings_of_a_provider_object_are_refused_by_name():
    several: list[Any] = [[create_provider("claude")], {"a": create_provider("claude")}]
    for models in several:
        with pytest.raises(UsageError, match="Give headers to the provider itself"):
            Agent(models, headers={"x": "y"})


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"tool": [get_weather]}, "takes no 'tool'"),
    ({"tools": ["get_weather"]}, "is no tool"),
    ({"tools": [{"name": "f", "inputSchema": {}}]}, "has no function"),
    ({"tools": [get_weather, get_weather]}, "get_weather"),
    ({"output": 5}, "no type of an answer"),
    ({"system_prompt": "Be brief."}, "write instructions="),
    ({"temperature": 0.2}, "write options={'temperature': …}"),
    ({"max_turns": 3}, r"write limits=LoopLimits\(iterations=…\)"),
    ({"instruction": "Be brief."}, "write instructions="),
    ({"limits": 3}, r"takes LoopLimits\("),
    ({"limits": {"iterations": 3}}, "not dict"),
    ({"store": 5}, "a file such as 'runs.db'"),
    ({"approve": True}, "a function of an ApprovalRequest"),
    ({"hooks": get_weather}, "takes RunHooks"),
    ({"options": 5}, "a dict such as"),
    ({"headers": ["x"]}, "a dict such as"),
    ({"api_key": 5}, "the key, a text, not int"),
    ({"base_url": 5}, "an address such as"),
]


@pytest.mark.parametrize(("settings", "words"), MISTAKES)
def test_first_mistakes_get_an_error_that_says_what_to_do(settings: dict[str, Any], words: str):
    with pytest.raises(UsageError, match=words):
        Agent("claude", **settings)


def test_a_text_is_no_list_of_prompts():
    with Agent("claude", api_key="none") as agent, pytest.raises(UsageError, match="run answers a single one"):  # fmt: skip
        agent.map_sync("Hi")
