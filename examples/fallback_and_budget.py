"""If the first provider fails, the next one answers; a run has its limits."""

from multi_llm_chat import Agent, LoopLimits
from multi_llm_chat.errors import LimitReached


def search(words: str) -> str:
    """Search the archive."""
    return f"nothing found for {words}"


limits = LoopLimits(iterations=3, seconds=60, tokens=20_000, cost=0.05)  # dollars
with Agent(["claude", "gemini"], tools=[search], limits=limits) as agent:
    try:
        print(agent.run_sync("Find the report of 1987.").text)
    except LimitReached as reached:
        print(f"gave up ({reached.reason}) after {len(reached.turns)} turns")
