"""The rate limit of a provider, shared by all processes that use the same key and the same store.

Rules:
1. A run whose provider has a limit asks the gate before each request, whichever process drives it.
2. While the store cannot be reached, a worker waits; a watched run makes its request without being counted.
"""

from collections.abc import Mapping
from typing import Final

from multi_llm_chat.agent.effects import CallModel
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.errors import MultiLLMChatError, RateLimited, StoreError
from multi_llm_chat.events import Usage
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.runs.records import TRANSIENT, Write
from multi_llm_chat.store import Store
from multi_llm_chat.store.rates import RateLimit, admit, close_rate, settle

#: Milliseconds to wait after a 429 without ``Retry-After``.
_LATER_MS: Final = 1_000


class RateGate:
    """The gate through which the requests of one run pass.

    Args:
        store: Where requests are counted.
        key: The account whose requests are counted together.
        limit: Requests and tokens a minute.
        patience: Seconds to wait for a store that cannot be reached; 0 does not wait.
    """

    def __init__(self, store: Store, key: str, limit: RateLimit, *, patience: float = 0.0) -> None:
        self._store = store
        self._key = key
        self._limit = limit
        self._patience = patience
        self._counter = Counter()
        self._charged = 0

    async def admit(self, effect: CallModel) -> float:
        """The seconds to wait before asking again; 0 if the request may be made now."""
        self._charged = self._counter.turns(effect.history)
        try:
            return await self._store.arun(admit, self._key, self._limit, self._charged) / 1000
        except StoreError as error:
            return self._patience if error.reason in TRANSIENT else 0.0

    def answered(self, usage: Usage | None) -> list[Write]:
        """Correct the estimated tokens by those that the provider counted."""
        if usage is None or usage == Usage():
            return []
        took = usage.input_tokens + usage.output_tokens
        return [Write(settle, (self._key, took - self._charged))]

    def failed(self, error: MultiLLMChatError | None) -> list[Write]:
        """After a 429, close the key for every process until the provider accepts requests again."""
        if not isinstance(error, RateLimited):
            return []
        wait = _LATER_MS if error.retry_after is None else int(error.retry_after * 1000)
        return [Write(close_rate, (self._key, wait))]


def rate_gate(
    store: Store,
    provider: LLMProvider,
    limits: Mapping[str, RateLimit],
    *,
    patience: float = 0.0,
) -> RateGate | None:
    """The gate of a run; None where its provider has no limit. A chain is limited by its first member."""
    first = provider.chain[0]
    limit = limits.get(first.name)
    if limit is None:
        return None
    return RateGate(store, first.account, limit, patience=patience)
