"""An answer of a Python type: validated, and asked for again if it does not fit."""

from dataclasses import dataclass

from multi_llm_chat import Agent


@dataclass
class City:
    """A city."""

    name: str
    population: int


with Agent("openai", output=City) as agent:
    city = agent.run_sync("Which city is the largest in Japan?").output
    print(f"{city.name}: {city.population:,}")
