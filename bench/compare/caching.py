"""The input cost of a conversation, at its provider's prices, through every contender.

    python -m bench.compare.caching

Rules:
1. Each contender is used as its documentation shows, with its defaults: an agent with one tool for thirty rounds, and a chat of
   twenty exchanges. The simulator answers; ``multi_llm_chat.testing.bill`` computes the cost of the requests it received.
2. The figure is the cost divided by the lowest possible cost of the same requests (``least_bill``). A contender pays no penalty for
   longer requests, only for input that its provider could have cached and did not.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from bench import page, summary
from bench.peers.environments import PEERS, make
from bench.peers.field import Contestant, field
from bench.where import PAGE
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing import BilledRequest, bill, least_bill
from multi_llm_chat.testing.simulator import Call, RecordedRequest, Reply, Say, Simulator

CONTENDERS = ("ours", "litellm", "pydantic-ai", "langchain")
#: The provider's name on the bill, and the provider that receives the requests.
TARGETS = {"anthropic": "anthropic", "openai": "openai-chat", "gemini": "gemini"}
ROUNDS = 30
EXCHANGES = 20
WORDS = " ".join(["The quick brown fox jumps over the lazy dog near the river bank."] * 16)
QUESTIONS = [f"Question {number}: what happened next?" for number in range(EXCHANGES)]
DONE = "Done."


def _reply(request: RecordedRequest) -> Reply:
    """Return the next answer of a chat."""
    return Say(f"{request.number} {WORDS}")


def _call(request: RecordedRequest) -> Reply:
    """Return the next tool call of an agent."""
    number = request.number
    if number >= ROUNDS:
        return Say(DONE)
    return Say(f"{number} {WORDS}", calls=[Call("nothing", {"number": number})])


class Scenario(NamedTuple):
    """What a contender runs, how the model answers, and how many requests that takes."""

    task: dict[str, Any]
    reply: Callable[[RecordedRequest], Reply]
    requests: int


SCENARIOS = {
    "agent": Scenario({"do": "agent", "tool": "nothing", "seconds": 0, "expected": DONE}, _call, ROUNDS + 1),
    "chat": Scenario({"do": "chat", "questions": QUESTIONS, "expected": f"{EXCHANGES - 1} {WORDS}"}, _reply, EXCHANGES),
}  # fmt: skip


def _measure(contestant: Contestant, target: str, scenario: Scenario) -> float | str:
    """Return the cost divided by the lowest possible cost, or the reason why there is none."""
    provider = TARGETS[target]
    model = "gemini-2.5-pro" if target == "gemini" else ROWS[provider].default_model
    with Simulator(scenario.reply) as simulator:
        where = {"provider": provider, "base": simulator.sdk_url(provider), "model": model}
        answer = contestant.ask(scenario.task | where)
        requests = [BilledRequest(target, each.body) for each in simulator.requests]
    if "cpu" not in answer:
        return summary.one_line(str(next(iter(answer.values()), "")))
    if len(requests) != scenario.requests:
        return f"{len(requests)} requests instead of {scenario.requests}"
    return round(bill(requests).cost / least_bill(requests).cost, 3)


def measure() -> dict[str, dict[str, float | str]]:
    """Return all figures, by scenario and target, then by contender."""
    found: dict[str, dict[str, float | str]] = {}
    for name in CONTENDERS:
        for label, scenario in SCENARIOS.items():
            for target in TARGETS:
                with field([name], variants=()) as contestants:  # a contender that hangs is killed
                    figure = _measure(contestants[0], target, scenario)
                found.setdefault(f"{label}, {target}", {})[name] = figure
                print(f"{name}, {label}, {target}: {figure}", flush=True)
    return found


def main() -> int:
    """Measure, and write the figures to the page; fail if one of our figures exceeds 1.02."""
    for peer in PEERS:
        if peer.name in CONTENDERS:
            make(peer)
    found = measure()
    file = PAGE / "compare.json"
    summary.write(file, {**(summary.read(file) or {}), "caching": found})
    page.write()
    ours = {name: cells["ours"] for name, cells in found.items()}
    worse = {name: each for name, each in ours.items() if isinstance(each, str) or each > 1.02}
    print(f"ours above 1.02: {worse}" if worse else "ours: at most 1.02", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
