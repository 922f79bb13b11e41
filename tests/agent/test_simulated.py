"""``provider="simulated"``: seed 004's simulation mode."""

import asyncio

import pytest

from multi_llm_chat import ToolRegistry, create_provider, execute_with_tools_sync
from multi_llm_chat.agent.providers import LLMProvider
from multi_llm_chat.testing.simulated import SimulatedProvider
from multi_llm_chat.testing.simulator import Say, always

HELLO = [{"role": "user", "content": "Hello, who are you?"}]


def test_a_simulated_provider_answers_without_a_key():
    with create_provider("simulated") as provider:
        assert isinstance(provider, LLMProvider)
        reply = provider.complete(HELLO)
        again = provider.complete(HELLO)
    assert reply.text
    assert reply.text == again.text
    assert reply.turn.role == "simulated"


@pytest.mark.parametrize("acts_as", ["openai", "openai-chat", "anthropic", "gemini", "mistral"])
def test_it_can_act_as_any_provider(acts_as: str):
    with SimulatedProvider(acts_as=acts_as, rule=always(Say("Scripted."))) as provider:
        text = "".join(chunk["content"] for chunk in provider.call_api(HELLO))
    assert text == "Scripted."


def test_it_is_closed_with_async_too():
    async def ask() -> str:
        async with SimulatedProvider(rule=always(Say("Scripted."))) as provider:
            return (await provider.acomplete(HELLO)).text

    assert asyncio.run(ask()) == "Scripted."


def test_the_demonstration_uses_a_tool():
    tools = ToolRegistry()

    @tools.tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny and 21 degrees in {city}"

    asked = [{"role": "user", "content": "What is the weather in Paris?"}]
    with create_provider("simulated") as provider:
        result = execute_with_tools_sync(provider, asked, tools)
    assert result.stop_reason == "answered"
    assert result.iterations_used == 2
    assert "21" in result.final_text
