"""An agent that calls a Python function, its answer printed as it arrives."""

import asyncio

from multi_llm_chat import Agent, TextDelta


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny, 21 °C in {city}"


async def main() -> None:
    async with Agent("claude", tools=[get_weather], instructions="Be brief.") as agent:
        stream = agent.stream("How is the weather in Tokyo?")
        async for event in stream:
            if isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
        print(f"\n{stream.result.usage.output_tokens} tokens")


asyncio.run(main())
