"""Prices: the cost of a reply.

Rules:
1. A caller's own prices come first, then the table that comes with ``genai-prices``; nothing is fetched.
2. The cost of a model without a known price is ``None``, never 0. Models on the user's own machine cost 0.
3. ``input_tokens`` include the cached ones and ``output_tokens`` the thinking; each token is charged once.
"""

from collections.abc import Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.events import Usage

#: Providers that run on the user's own machine.
_FREE: Final = frozenset({"local", "simulated", "ollama", "llamacpp", "lmstudio"})
#: The price table's names of our providers, where they differ from ours.
_TABLE_NAMES: Final = {"openai-chat": "openai", "gemini": "google", "xai": "x-ai"}
_MILLION: Final = Decimal(1_000_000)


class Cost(Struct, frozen=True):
    """The cost of input and output tokens in US dollars."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)

    @property
    def total(self) -> Decimal:
        """The sum of both."""
        return self.input + self.output

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.input + other.input, self.output + other.output)


class Price(Struct, frozen=True):
    """US dollars for a million tokens; without a price of their own, cached tokens cost as much as other input."""

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None

    def cost(self, usage: Usage) -> Cost:
        """The cost of these tokens."""
        read, written = _cached(usage)
        fresh = usage.input_tokens - read - written
        paid = fresh * self.input
        paid += read * (self.input if self.cache_read is None else self.cache_read)
        paid += written * (self.input if self.cache_write is None else self.cache_write)
        return Cost(paid / _MILLION, usage.output_tokens * self.output / _MILLION)


def cost_of(
    usage: Usage, provider: str, model: str, prices: Mapping[str, Price] | None = None
) -> Cost | None:
    """The cost of a reply; ``None`` if the price is unknown.

    Args:
        usage: The tokens as the provider counted them.
        provider: Our name of the provider.
        model: The model that answered.
        prices: Prices by model name or pattern such as ``my-*``, which come before the table.
    """
    for pattern, price in (prices or {}).items():
        if fnmatchcase(model, pattern):
            return price.cost(usage)
    if provider in _FREE:
        return Cost()
    return _from_table(usage, _TABLE_NAMES.get(provider, provider), model) if model else None


def savings_of(
    usage: Usage, provider: str, model: str, prices: Mapping[str, Price] | None = None
) -> Decimal | None:
    """What the cache saved: the cost of the same tokens without a cache, minus the actual cost.

    Negative if writing to the cache cost more than reading from it saved.
    """
    paid = cost_of(usage, provider, model, prices)
    fresh = replace(usage, cache_read_tokens=0, cache_write_tokens=0)
    without = cost_of(fresh, provider, model, prices)
    return None if paid is None or without is None else without.total - paid.total


def _from_table(usage: Usage, provider: str, model: str) -> Cost | None:
    from genai_prices import Usage as Priced  # noqa: PLC0415  half a second: only when a cost is asked for
    from genai_prices import calc_price  # noqa: PLC0415  as above

    read, written = _cached(usage)
    counted = Priced(
        input_tokens=usage.input_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=usage.output_tokens,
    )
    try:
        price = calc_price(counted, model, provider_id=provider)
    except (LookupError, ValueError):
        return None
    return Cost(price.input_price, price.output_price)


def _cached(usage: Usage) -> tuple[int, int]:
    """Tokens read from and written to a cache, together at most the input tokens."""
    read = min(usage.cache_read_tokens, usage.input_tokens)
    return read, min(usage.cache_write_tokens, usage.input_tokens - read)
