"""The cost of replies, to the last token."""

from decimal import Decimal

import pytest

from multi_llm_chat.events import Usage
from multi_llm_chat.metering.prices import Cost, Price, cost_of, savings_of
from multi_llm_chat.protocol.providers import ROWS

MILLION = 1_000_000
OWN = {
    "my-*": Price(Decimal(2), Decimal(10), cache_read=Decimal("0.2"), cache_write=Decimal("2.5"))
}


def test_cached_tokens_are_paid_once_and_at_their_own_price():
    usage = Usage(3 * MILLION, MILLION, cache_read_tokens=MILLION, cache_write_tokens=MILLION)
    assert cost_of(usage, "openai", "my-model", OWN) == Cost(Decimal("4.7"), Decimal(10))


def test_thinking_is_part_of_the_output():
    usage = Usage(0, MILLION, thinking_tokens=MILLION // 2)
    assert cost_of(usage, "openai", "my-model", OWN) == Cost(Decimal(0), Decimal(10))


def test_more_cached_tokens_than_tokens_are_not_believed():
    usage = Usage(10, 0, cache_read_tokens=50, cache_write_tokens=50)
    assert cost_of(usage, "openai", "my-model", OWN) == Cost(Decimal("0.000002"), Decimal(0))
    assert cost_of(usage, "anthropic", "claude-sonnet-5") is not None


def test_the_table_knows_cached_tokens():
    whole = cost_of(Usage(MILLION, 0), "anthropic", "claude-sonnet-4-5")
    cached = cost_of(Usage(MILLION, 0, cache_read_tokens=MILLION), "anthropic", "claude-sonnet-4-5")
    assert whole is not None
    assert cached is not None
    assert cached.total * 5 < whole.total


def test_an_unknown_price_is_unknown():
    usage = Usage(1_000, 1_000)
    assert cost_of(usage, "openai", "no-such-model") is None
    assert cost_of(usage, "nobody", "gpt-4.1") is None
    assert cost_of(usage, "openai", "") is None


@pytest.mark.parametrize("provider", ["local", "simulated", "ollama", "llamacpp", "lmstudio"])
def test_what_runs_here_costs_nothing(provider: str):
    assert cost_of(Usage(1_000, 1_000), provider, "anything") == Cost()


@pytest.mark.parametrize(
    "provider",
    ["openai", "openai-chat", "anthropic", "gemini", "groq", "cerebras", "fireworks", "mistral",
     "deepseek", "xai", "openrouter", "together", "azure"],
)  # fmt: skip
def test_the_default_model_of_every_hosted_provider_has_a_price(provider: str):
    cost = cost_of(Usage(1_000, 1_000), provider, ROWS[provider].default_model)
    assert cost is not None
    assert cost.input > 0
    assert cost.output > 0


def test_costs_add_up():
    together = Cost(Decimal(1), Decimal(2)) + Cost(Decimal(3), Decimal(4))
    assert together.total == Decimal(10)


def test_what_the_cache_saved_is_the_difference_to_fresh_tokens():
    usage = Usage(3 * MILLION, MILLION, cache_read_tokens=2 * MILLION)
    assert savings_of(usage, "openai", "my-model", OWN) == Decimal("3.6")
    written = Usage(MILLION, 0, cache_write_tokens=MILLION)
    assert savings_of(written, "openai", "my-model", OWN) == Decimal("-0.5")
    assert savings_of(usage, "openai", "a model without a price") is None
