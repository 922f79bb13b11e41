"""Wait for one's turn before a provider is asked, so that all workers together stay within its limits."""

import asyncio
from collections.abc import Mapping

from multi_llm_chat.client.chain import FallbackProvider
from multi_llm_chat.client.provider import LLMProvider
from multi_llm_chat.context.counting import Counter
from multi_llm_chat.errors import ProviderError, RateLimited
from multi_llm_chat.events import Usage
from multi_llm_chat.loop.effects import CallModel
from multi_llm_chat.store import Store
from multi_llm_chat.store.rates import RateLimit, admit, close_rate, settle

#: Milliseconds to stay away from a provider that says "later" without saying when.
_LATER_MS = 1_000


class Gate:
    """One run's way to its provider."""

    def __init__(
        self, store: Store, provider: LLMProvider, limits: Mapping[str, RateLimit]
    ) -> None:
        # A chain is limited by who is asked first.
        first = provider.members[0] if isinstance(provider, FallbackProvider) else provider
        self._limit = limits.get(first.name)
        self._key = first.account if self._limit is not None else ""
        self._store = store
        self._counter = Counter()
        self._charged = 0

    async def __call__(self, effect: CallModel) -> None:
        """Wait until the request may be made."""
        if self._limit is None:
            return
        self._charged = self._counter.turns(effect.history)
        while wait := await self._store.arun(admit, self._key, self._limit, self._charged):  # noqa: ASYNC110 the database says when
            await asyncio.sleep(wait / 1000)

    async def answered(self, usage: Usage | None) -> None:
        """Set right what the request took."""
        if self._limit is not None and usage is not None and usage != Usage():
            took = usage.input_tokens + usage.output_tokens
            await self._store.arun(settle, self._key, took - self._charged)

    async def failed(self, error: ProviderError | None) -> None:
        """Keep everybody away from a provider that asks for it."""
        if self._limit is not None and isinstance(error, RateLimited):
            wait = _LATER_MS if error.retry_after is None else int(error.retry_after * 1000)
            await self._store.arun(close_rate, self._key, wait)
