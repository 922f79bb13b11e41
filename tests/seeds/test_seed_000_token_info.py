"""Seed 000's third phase: token info and its buffer factor, under their original names and import path.

The seed multiplies every count with the factor. Here an exact count without tools stays unchanged:
only estimates, and requests that offer tools, are increased.
"""

import pytest

from multi_llm_chat import ChatGPTProvider, create_provider
from multi_llm_chat.token_utils import get_buffer_factor, get_token_info

HISTORY = [
    {"role": "user", "content": "What is the weather in Tokyo?"},
    {"role": "chatgpt", "content": [{"type": "tool_call", "content": {"name": "get_weather", "arguments": {"location": "Tokyo"}, "tool_call_id": "call_1"}}]},
    {"role": "tool", "content": [{"type": "tool_result", "name": "get_weather", "content": {"temperature": "25°C"}, "tool_call_id": "call_1"}]},
]  # fmt: skip
WEATHER = {
    "name": "get_weather",
    "description": "Get the current weather in a given location",
    "inputSchema": {"type": "object", "properties": {"location": {"type": "string"}}},
}


def test_the_buffer_factor_is_larger_with_tools():
    assert get_buffer_factor(has_tools=False) == 1.2
    assert get_buffer_factor(has_tools=True) == 1.5


def test_token_info_has_three_facts():
    info = ChatGPTProvider(model="gpt-4o").get_token_info("hello world")
    assert info == {"input_tokens": 2, "max_tokens": 128_000, "is_estimate": False}


def test_tools_raise_the_count():
    provider = ChatGPTProvider(model="gpt-4o")
    plain = provider.get_token_info("hello", HISTORY)
    with_tools = provider.get_token_info("hello", HISTORY, has_tools=True)
    assert with_tools["input_tokens"] == int(plain["input_tokens"] * 1.5)
    assert with_tools["is_estimate"]
    with_schemas = provider.get_token_info("hello", HISTORY, tools=[WEATHER])
    assert with_schemas["input_tokens"] > with_tools["input_tokens"]


@pytest.mark.parametrize("model", ["gemini-3.7-flash", "claude-sonnet-5", "somebody's", None])
def test_without_a_tokenizer_the_count_is_a_marked_estimate(model: str | None):
    info = get_token_info("東京の天気はどうですか", model_name=model)
    assert info["input_tokens"] == int(8 * 1.2)
    assert info["is_estimate"]


def test_the_model_of_a_provider_is_the_default():
    provider = create_provider("gemini")
    assert provider.get_token_info("x")["max_tokens"] == 1_000_000
    assert provider.get_token_info("x", model_name="gpt-4")["max_tokens"] == 8_192
