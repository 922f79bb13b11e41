"""An object of the program's own for tools and instructions."""

from dataclasses import dataclass

from multi_llm_chat import Agent
from multi_llm_chat.chat.agent import RunContext
from multi_llm_chat.tools import ToolContext


@dataclass
class Shop:
    """What the tools need to know."""

    customer: str
    stock: dict[str, int]


def in_stock(context: ToolContext[Shop], article: str) -> int:
    """How many of an article there are."""
    return context.deps.stock.get(article, 0)


def instructions(context: RunContext[Shop]) -> str:
    """The system prompt of each run."""
    return f"You serve {context.deps.customer}. Look into the stock before you answer."


with Agent("claude", tools=[in_stock], instructions=instructions) as agent:
    for shop in (Shop("Anna", {"pen": 3}), Shop("Bert", {"pen": 0})):
        print(f"{shop.customer}:", agent.run_sync("Is there a pen?", deps=shop).text)
