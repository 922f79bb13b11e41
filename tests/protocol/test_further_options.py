"""The less common options: sent under the provider's own key, or left out with a note; never refused."""

from typing import Any

import pytest

from multi_llm_chat import render
from multi_llm_chat.errors import UsageError
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing import validate

TOOL: dict[str, Any] = {
    "name": "f",
    "description": "",
    "inputSchema": {"type": "object", "properties": {}},
}
VALUES: dict[str, Any] = {
    "top_p": 0.5,
    "seed": 7,
    "parallel_tool_calls": False,
    "service_tier": "auto",
    "metadata": {"user_id": "anna"},
}
#: Where the value is in the body; absent if the provider has no such option.
PLACES = {
    "openai-chat": {"seed": "seed", "parallel_tool_calls": "parallel_tool_calls", "service_tier": "service_tier", "metadata": "metadata"},
    "openai": {"parallel_tool_calls": "parallel_tool_calls", "service_tier": "service_tier", "metadata": "metadata"},
    "mistral": {"top_p": "top_p", "seed": "random_seed", "parallel_tool_calls": "parallel_tool_calls", "metadata": "metadata"},
    "groq": {name: name for name in VALUES},
    "anthropic": {"service_tier": "service_tier", "metadata": "metadata"},
}  # fmt: skip


@pytest.mark.parametrize("provider", sorted(ROWS))
@pytest.mark.parametrize("name", VALUES)
def test_an_option_is_sent_or_noted_and_never_refused(provider: str, name: str):
    rendered = render("hi", provider, tools=[TOOL], options={name: VALUES[name]})
    assert validate(provider, rendered.body, model=rendered.model) == []
    whole = str(rendered.body)
    is_sent = str(VALUES[name]) in whole or "disable_parallel_tool_use" in whole
    assert is_sent or any(name in note.message for note in rendered.notes)
    place = PLACES.get(provider, {}).get(name)
    if place is not None:
        assert rendered.body[place] == VALUES[name]


def test_gemini_has_its_own_spelling():
    body = render("hi", "gemini", options=VALUES).body
    assert body["generationConfig"]["topP"] == 0.5
    assert body["generationConfig"]["seed"] == 7


def test_claude_makes_one_call_at_a_time():
    options = {"parallel_tool_calls": False}
    body = render("hi", "anthropic", tools=[TOOL], options=options).body
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    forced = render(
        "hi",
        "anthropic",
        model="claude-sonnet-4-5",
        tools=[TOOL],
        options=options | {"tool_choice": "f"},
    ).body
    assert forced["tool_choice"] == {"type": "tool", "name": "f", "disable_parallel_tool_use": True}
    assert "tool_choice" not in render("hi", "anthropic", options=options).body


def test_claude_takes_a_temperature_or_top_p():
    model = "claude-sonnet-4-5"
    assert render("hi", "anthropic", model=model, options={"top_p": 0.5}).body["top_p"] == 0.5
    both = render("hi", "anthropic", model=model, options={"top_p": 0.5, "temperature": 0.1})
    assert "top_p" not in both.body
    assert [note.rule for note in both.notes] == ["ANT-35"]


def test_calls_at_once_are_not_spoken_of_without_tools():
    assert (
        "parallel_tool_calls"
        not in render("hi", "openai", options={"parallel_tool_calls": True}).body
    )


WRONG: dict[str, Any] = {
    "max_tokens": "many", "seed": 1.5, "temperature": "hot", "top_p": [1], "thinking": [], "stop": 5, "parallel_tool_calls": "yes",
    "cache": "always", "extra": 1, "metadata": {"a": 1}, "server_tools": "telepathy", "service_tier": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_the_wrong_kind_is_an_error_in_words(name: str):
    with pytest.raises(UsageError) as caught:
        render("hi", "openai", options={name: WRONG[name]})
    assert str(caught.value).startswith(f"The option {name} must be ")
    assert "$" not in str(caught.value)
    assert "`" not in str(caught.value)


def test_the_value_of_an_object_is_not_shown():
    server = {"type": "mcp", "url": 5, "authorization": "secret-token"}
    with pytest.raises(UsageError) as caught:
        render("hi", "openai", options={"server_tools": [server]})
    assert "secret-token" not in str(caught.value)
