"""Five hundred prompts, at most twenty at once and two hundred a second, with progress."""

import sys

from multi_llm_chat import Agent

PROMPTS = [f"Translate the number {number} into French." for number in range(500)]


def show(done: int, total: int) -> None:
    """Print how far it is."""
    if done % 100 == 0:
        print(f"{done} of {total}", file=sys.stderr)


with Agent("openai", instructions="Answer with one word.") as agent:
    results = agent.map_sync(
        PROMPTS, concurrency=20, rate=200, on_progress=show, return_errors=True
    )

answers = [each.text for each in results if not isinstance(each, Exception)]
print(f"{len(answers)} answers, {len(results) - len(answers)} failures; the first: {answers[0]}")
