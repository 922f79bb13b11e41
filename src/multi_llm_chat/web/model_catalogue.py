"""The models that the speakers' providers offer, with window, price and abilities; and the cost estimate of the next message.

Rules:
1. The provider lists its models (``list_models``). A list is kept for an hour, an error for a minute; both are forgotten when keys or
   settings change. All pages share one request.
2. A provider that does not list its models within ``LISTING_SECONDS`` counts as failed, and does not delay the others.
3. A window and abilities are those that the provider reports, else those of our tables (``protocol.capabilities``). Unknown values are
   None.
4. The estimate of a message counts the history by its characters, and an answer of typical length. Parts without a known price are not
   counted; the sum is then "at least". If no price is known, there is no sum.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from multi_llm_chat.agent.model_list import ModelInfo
from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.chat.planner import configured_prices
from multi_llm_chat.config.keys import FoundKey
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import Turn
from multi_llm_chat.metering.model_windows import window_of
from multi_llm_chat.metering.prices import Price, cost_of
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.protocol.capabilities import abilities_of
from multi_llm_chat.protocol.providers import ProviderRow
from multi_llm_chat.web.views import hue_of

if TYPE_CHECKING:
    from multi_llm_chat.chat.workspace import Workspace

#: Seconds within which a list must arrive; and for how long a list and an error are cached.
LISTING_SECONDS: Final = 15.0
KEPT_SECONDS: Final = 3600.0
KEPT_AFTER_ERROR: Final = 60.0
#: The most models of a list that the page gets.
MOST_MODELS: Final = 2_000


class ModelEntry(Struct, frozen=True):
    """A model that a speaker can use in a chat; prices are US dollars for a million tokens."""

    id: str
    name: str
    speaker: str
    provider: str
    hue: int
    window: int | None = None
    input: Decimal | None = None
    output: Decimal | None = None
    abilities: frozenset[str] = frozenset()

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing."""
        return self.input == 0 and self.output == 0


class ProviderListing(Struct, frozen=True):
    """The models of a provider; if it returned no list, ``error`` is the name of the error's class and ``message`` its text."""

    models: tuple[ModelInfo, ...] = ()
    error: str = ""
    message: str = ""
    read_at: float = 0.0

    @property
    def is_refused(self) -> bool:
        """Whether the provider refused the key."""
        return self.error in {"AuthError", "MissingKey"}


class ProviderState(Struct, frozen=True):
    """A provider on the page of models: its key, whether the key works, and the speakers that use it.

    ``own_variable`` is the variable of a separate key of its speakers, if they have one.
    """

    row: ProviderRow
    key: FoundKey | None
    speakers: tuple[str, ...]
    listing: ProviderListing | None
    hue: int
    own_variable: str = ""

    @property
    def state(self) -> str:
        """``works``, ``refused``, ``unreachable``, ``unchecked``, or ``missing`` without a key."""
        if self.listing is None:
            return "unchecked" if self.key or self.own_variable else "missing"
        if self.listing.error == "MissingKey":
            return "missing"
        if self.listing.is_refused:
            return "refused"
        return "unreachable" if self.listing.error else "works"

    @property
    def minutes(self) -> int:
        """Minutes since the key was checked."""
        return int((time.time() - self.listing.read_at) / 60) if self.listing else 0


class ModelCatalogue:
    """The models of a workspace's speakers."""

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace
        self._listings: dict[str, ProviderListing] = {}
        self._pending: dict[str, asyncio.Task[ProviderListing]] = {}

    def forget(self) -> None:
        """Forget all lists: keys or settings have changed."""
        self._listings.clear()
        self._pending.clear()

    def known(self, speaker: str) -> ProviderListing | None:
        """The list of a speaker's provider, if it is cached."""
        return self._listings.get(speaker)

    async def listing(self, speaker: str, *, again: bool = False) -> ProviderListing:
        """The list of a speaker's provider; with ``again``, the provider is asked even if the list is cached."""
        found = self._listings.get(speaker)
        kept = KEPT_AFTER_ERROR if found and found.error else KEPT_SECONDS
        if found and not again and time.time() - found.read_at < kept:
            return found
        task = self._pending.get(speaker)
        if task is None:
            task = self._pending[speaker] = asyncio.create_task(self._read(speaker))
        listing = await asyncio.shield(task)
        if self._pending.get(speaker) is task:
            del self._pending[speaker]
            self._listings[speaker] = listing
        return listing

    async def _read(self, speaker: str) -> ProviderListing:
        try:
            provider = self._workspace.speakers[speaker].provider
        except (MultiLLMChatError, ValueError, KeyError) as error:
            return ProviderListing((), type(error).__name__, str(error), time.time())
        return await read_listing(provider)

    async def models(self) -> list[ModelEntry]:
        """The models of all speakers; two speakers of one provider at one address share theirs."""
        names = [*self._workspace.speakers]
        listings = await asyncio.gather(*map(self.listing, names))
        return await asyncio.to_thread(self._entries, names, listings)

    def _entries(
        self, names: Sequence[str], listings: Sequence[ProviderListing]
    ) -> list[ModelEntry]:
        entries: list[ModelEntry] = []
        for name, listing in zip(names, listings, strict=True):
            try:
                provider = self._workspace.speakers[name].provider
            except (MultiLLMChatError, ValueError, KeyError):
                continue
            models = {each.id: each for each in listing.models}
            if (
                provider.model
            ):  # the speaker's own model can be chosen even if the provider lists none
                models.setdefault(provider.model, ModelInfo(provider.model))
            entries += [self._entry(name, provider, each) for each in models.values()]
        return entries[:MOST_MODELS]

    def _entry(self, speaker: str, provider: LLMProvider, model: ModelInfo) -> ModelEntry:
        settings = self._workspace.settings
        window = window_of(model.id, provider.name, settings.context.windows)
        price = price_of(provider.name, model.id, tuple(configured_prices(settings).items()))
        return ModelEntry(
            model.id,
            model.name,
            speaker,
            provider.name,
            hue_of(speaker, [*self._workspace.speakers]),
            model.context_window or (window.tokens if window.is_known else None),
            price.input if price else None,
            price.output if price else None,
            model.abilities
            if model.abilities is not None
            else abilities_of(provider.name, model.id),
        )


async def read_listing(provider: LLMProvider) -> ProviderListing:
    """Ask a provider for its models."""
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            models = await provider.alist_models()
    except TimeoutError:
        message = f"{provider.name} did not answer within {LISTING_SECONDS:g} seconds"
        return ProviderListing((), "ConnectionFailed", message, time.time())
    except (MultiLLMChatError, ValueError) as error:
        return ProviderListing((), type(error).__name__, str(error)[:400], time.time())
    return ProviderListing(tuple(models), read_at=time.time())


async def check_key(provider: str, key: str, base_url: str | None) -> ProviderListing:
    """Ask a provider for its models with a key that is not saved yet."""
    try:
        asked = create_provider(provider, api_key=key, base_url=base_url)
    except (MultiLLMChatError, ValueError) as error:
        return ProviderListing((), type(error).__name__, str(error), time.time())
    async with asked:
        return await read_listing(asked)


@lru_cache(maxsize=4096)
def price_of(provider: str, model: str, prices: tuple[tuple[str, Price], ...] = ()) -> Price | None:
    """The price of a million tokens of a model; None if unknown."""
    # Computed for a thousand tokens, because some models cost more above 200,000.
    cost = cost_of(Usage(1000, 1000), provider, model, dict(prices))
    return None if cost is None else Price(cost.input * 1000, cost.output * 1000)


# Estimates.

#: Tokens of a typical answer, and of the message that is being written.
ANSWER_TOKENS: Final = 400
MESSAGE_TOKENS: Final = 60

_COUNTER: Final = Counter()


class CostEstimate(Struct, frozen=True):
    """US dollars; None if no price is known. ``is_at_least`` if some prices are unknown."""

    cost: Decimal | None = None
    is_at_least: bool = False

    @property
    def is_free(self) -> bool:
        """Whether all addressed models cost nothing."""
        return self.cost == 0 and not self.is_at_least


def estimate_cost(
    workspace: "Workspace",
    turns: Sequence[Turn],
    names: Sequence[str],
    models: Mapping[str, str] | None = None,
    *,
    tokens_before: int = 0,
) -> CostEstimate:
    """Estimate the cost of these speakers' answers to the next message.

    Args:
        workspace: The speakers and prices.
        turns: The history, or the end of it.
        names: The speakers.
        models: The models that the chat has chosen.
        tokens_before: The tokens of the turns before the end.
    """
    tokens = sum(map(_COUNTER.turn, turns)) + tokens_before
    usage = Usage(input_tokens=MESSAGE_TOKENS + tokens, output_tokens=ANSWER_TOKENS)
    prices = configured_prices(workspace.settings)
    costs = [_cost_of(workspace, name, usage, prices, (models or {}).get(name)) for name in names]
    known = [cost for cost in costs if cost is not None]
    if not known:
        return CostEstimate()
    return CostEstimate(sum(known, Decimal(0)), len(known) < len(costs))


def _cost_of(
    workspace: "Workspace",
    name: str,
    usage: Usage,
    prices: Mapping[str, Price],
    model: str | None,
) -> Decimal | None:
    try:
        provider = workspace.speakers[name].provider
    except (MultiLLMChatError, ValueError, KeyError):
        return None  # an error in the settings of one speaker must not hide the others
    cost = cost_of(usage, provider.name, model or provider.model or "", prices)
    return None if cost is None else cost.total
