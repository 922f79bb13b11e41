"""Budgets: a request that would exceed a budget is not sent (SPEC: cost is a promise)."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.chat.agent import Agent
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.config.settings import BudgetSettings, PriceSettings, Settings
from multi_llm_chat.errors import LimitReached
from multi_llm_chat.events import Event, RunFailed
from multi_llm_chat.store import Store, open_store
from multi_llm_chat.testing.simulator import Call, Reply, Say, Simulator
from multi_llm_chat.tools import ToolRegistry

#: A dollar for a thousand tokens: prices high enough for a test.
PRICES = {"*": PriceSettings(1000, 1000)}
WORDS = "word " * 200


def services(
    simulator: Simulator, store: Store, budget: BudgetSettings, tools: ToolRegistry | None = None
) -> ChatService:
    provider = create_provider(
        "openai-chat", api_key="k", base_url=simulator.base_url("openai-chat")
    )
    settings = Settings(budget=budget, prices=PRICES)
    return ChatService({"robot": provider}, store=store, settings=settings, tools=tools)


@contextmanager
def stage(tmp_path: Path, **budget: Any) -> Generator[tuple[Simulator, Store, BudgetSettings]]:
    with (
        Simulator(lambda _request: Say(WORDS)) as simulator,
        open_store(tmp_path / "chats.db") as store,
    ):
        yield simulator, store, BudgetSettings(**budget)


def failures(events: list[Event]) -> list[str]:
    return [event.error.message for event in events if isinstance(event, RunFailed)]


def ask_until_refused(service: ChatService, most: int = 12) -> tuple[int, str]:
    """Return how many messages were answered, and why the next one was not."""
    for number in range(most):
        found = failures(list(service.process_message(f"question {number}")))
        if found:
            return number, found[0]
    raise AssertionError("the budget was never used up")


@pytest.mark.parametrize(
    ("budget", "scope"),
    [
        ({"conversation": 3.0}, "this conversation"),
        ({"conversation_tokens": 3000}, "this conversation"),
        ({"user": 3.0}, "the user"),
        ({"user_tokens": 3000}, "the user"),
        ({"day": 3.0}, "today"),
        ({"day_tokens": 3000}, "today"),
    ],
)
def test_what_would_exceed_a_budget_is_not_sent(
    tmp_path: Path, budget: dict[str, Any], scope: str
) -> None:
    with (
        stage(tmp_path, **budget) as (simulator, store, limits),
        services(simulator, store, limits) as service,
    ):
        answered, why = ask_until_refused(service)
        assert answered > 0
        assert len(simulator.requests) == answered
        assert why.startswith(f"The budget of {scope} is used up")
        assert failures(list(service.process_message("again"))) != []
        assert len(simulator.requests) == answered


def test_conversations_share_the_budget_of_a_day_and_not_their_own(tmp_path: Path) -> None:
    with stage(tmp_path, day=3.0, conversation=3.0) as (simulator, store, limits):
        with services(simulator, store, limits) as first:
            before, _ = ask_until_refused(first)
        with services(simulator, store, limits) as second:
            answered, why = ask_until_refused(second)
            assert answered < before
            assert "today" in why
        # Another user has a budget of their own.
        with services(simulator, store.as_user("berta"), limits) as other:
            assert failures(list(other.process_message("hi"))) == []


def test_the_budget_of_an_answer_ends_its_loop(tmp_path: Path) -> None:
    def answer(_request: object) -> Reply:
        return Say(WORDS, calls=[Call("look", {})])

    registry = ToolRegistry()
    looked: list[int] = []

    @registry.tool
    def look() -> str:
        """Look around."""
        looked.append(1)
        return WORDS

    with (
        Simulator(answer) as simulator,
        open_store(tmp_path / "chats.db") as store,
        services(simulator, store, BudgetSettings(run_tokens=4000), registry) as service,
    ):
        found = failures(list(service.process_message("look")))
        assert found[0].startswith("The budget of this answer is used up")
        assert 0 < len(simulator.requests) < 10
        # Earlier texts and results are kept.
        assert len(service.turns) == 1 + 2 * len(looked)


@pytest.mark.parametrize("is_stored", [False, True])
def test_an_agent_ends_before_a_request_that_costs_too_much(
    tmp_path: Path, is_stored: bool
) -> None:
    looked: list[int] = []

    def look() -> str:
        """Look around."""
        looked.append(1)
        return f"{WORDS} {len(looked)}"

    store = tmp_path / "chats.db" if is_stored else None
    with Simulator(lambda _request: Say(WORDS, calls=[Call("look", {})])) as simulator:
        provider = create_provider(
            "openai-chat", model="gpt-4o", api_key="k", base_url=simulator.base_url("openai-chat")
        )
        limits = LoopLimits(iterations=50, cost=0.02)
        agent = Agent(provider, tools=[look], limits=limits, store=store)
        with agent, pytest.raises(LimitReached, match="Raise it in LoopLimits") as caught:
            agent.run_sync("look")
    assert caught.value.reason == "budget"
    assert 1 < len(simulator.requests) < 20
    assert len(looked) == len(simulator.requests)
    assert len(caught.value.turns) == 2 * len(looked)  # the results are kept
