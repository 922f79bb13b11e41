"""Names of the seeds that stand for functions of ours: each works as its document says."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

import multi_llm_chat
from multi_llm_chat import ChatGPTProvider, GeminiProvider, MessageNormalizer, render
from multi_llm_chat.compat.message_normalizer import AIServiceProvider, Message
from multi_llm_chat.errors import ToolError, UsageError
from multi_llm_chat.llm_provider import extract_text_from_chunk
from multi_llm_chat.request import Options
from multi_llm_chat.testing import validate
from multi_llm_chat.tools import ToolRegistry

USER = {"role": "user", "content": "What is the weather?"}
WEATHER = {"name": "get_weather", "description": "", "inputSchema": {"type": "object"}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "anthropic", "gemini"])
@pytest.mark.parametrize(
    "choice",
    [NAMED, {"type": "tool", "name": "get_weather"}, {"type": "function", "name": "get_weather"}],
    ids=["OpenAI Chat", "Anthropic", "OpenAI Responses"],
)
def test_tool_choice_may_be_an_object(provider: str, choice: dict[str, Any]):
    """Seed 000: ``"auto" | "none" | {"type": "function", "function": {"name": "..."}}``."""
    plain = render([USER], provider, tools=[WEATHER], options={"tool_choice": "get_weather"})
    assert render([USER], provider, tools=[WEATHER], options={"tool_choice": choice}) == plain
    given: Any = choice
    assert render([USER], provider, tools=[WEATHER], options=Options(tool_choice=given)) == plain
    assert validate(provider, plain.body, model=plain.model) == []


def test_a_tool_choice_of_no_known_form_is_named():
    assert (
        render(
            [USER], "openai-chat", tools=[WEATHER], options={"tool_choice": {"type": "any"}}
        ).body["tool_choice"]
        == "required"
    )
    with pytest.raises(UsageError, match="tool_choice"):
        render([USER], "openai-chat", tools=[WEATHER], options={"tool_choice": {"type": "odd"}})


def test_a_registry_executes_a_tool_by_name():
    """Seeds 003 and 004: ``tool_registry.execute_tool(function_name, arguments)``; a failure raises."""
    registry = ToolRegistry()

    @registry.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    assert str(registry.execute_tool("add", {"a": 2, "b": 3})) == "5"
    assert str(registry.execute_tool("add", '{"a": 2, "b": 3}')) == "5"
    for name, arguments in [("add", {"a": "x"}), ("add", "{"), ("none", {})]:
        with pytest.raises(ToolError):
            registry.execute_tool(name, arguments)


def parts(*texts: str) -> SimpleNamespace:
    return SimpleNamespace(parts=[SimpleNamespace(text=text) for text in texts])


CHUNKS: dict[str, tuple[Any, str]] = {
    "ours": ({"type": "text", "content": "Hi"}, "Hi"),
    "a call of ours": ({"type": "tool_call", "content": {"name": "f", "arguments": {}}}, ""),
    "OpenAI Chat": ({"choices": [{"delta": {"content": "Hi"}}]}, "Hi"),
    "OpenAI's object": (SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content="Hi"))]), "Hi"),
    "OpenAI without content": ({"choices": [{"delta": {"content": None}}]}, ""),
    "OpenAI without choices": ({"choices": []}, ""),
    "OpenAI Responses": ({"type": "response.output_text.delta", "delta": "Hi"}, "Hi"),
    "Anthropic": ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}, "Hi"),
    "Gemini": ({"candidates": [{"content": {"parts": [{"text": "H"}, {"text": "i"}]}}]}, "Hi"),
    "Gemini's object": (parts("H", "i"), "Hi"),
    "nothing": (None, ""),
}  # fmt: skip


@pytest.mark.parametrize(("chunk", "text"), CHUNKS.values(), ids=CHUNKS)
def test_the_text_of_a_chunk(chunk: object, text: str):
    """Seed 000: ``self.extract_text_from_chunk(chunk)``."""
    assert extract_text_from_chunk(chunk) == text
    assert GeminiProvider().extract_text_from_chunk(chunk) == text
    assert ChatGPTProvider().extract_text_from_chunk(chunk) == text


@pytest.mark.parametrize("provider", list(AIServiceProvider))
def test_the_providers_of_seed_001_are_an_enumeration(provider: AIServiceProvider):
    message: Message = {"id": "1", "role": "tool", "content": "orphan", "tool_call_id": "call_999"}
    assert MessageNormalizer.sanitize_messages_for_provider([message], provider) == []
    assert render([USER], provider).body
    assert json.loads(json.dumps(provider)) == provider.value


def test_they_are_also_at_the_top():
    assert multi_llm_chat.AIServiceProvider is AIServiceProvider
    assert multi_llm_chat.Message is Message
    assert multi_llm_chat.extract_text_from_chunk is extract_text_from_chunk
