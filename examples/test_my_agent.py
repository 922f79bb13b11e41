"""Test an application without a key or a network: the simulator is every provider, over real HTTP."""

from multi_llm_chat import Agent
from multi_llm_chat.testing.simulator import Call, Say, Simulator


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def test_the_agent_looks_at_the_weather_before_it_answers() -> None:
    script = [Say(calls=[Call("get_weather", {"city": "Tokyo"})]), Say("It is sunny.")]
    with Simulator(script) as simulator:
        base_url = simulator.base_url("anthropic")
        with Agent("claude", tools=[get_weather], api_key="none", base_url=base_url) as agent:
            assert agent.run_sync("How is the weather in Tokyo?").text == "It is sunny."
    assert "sunny in Tokyo" in str(simulator.requests[1].body)  # the model got the result
