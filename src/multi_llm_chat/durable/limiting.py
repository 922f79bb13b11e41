"""Wait for one's turn before a provider is asked, so that all who use a key together stay within its limits.

Rules:
1. Whoever asks a provider that has a limit asks here first, wherever the answer is given.
2. Nothing here waits: who asks is told for how long, and what is to be saved afterwards.
3. Where the store cannot be asked, a worker waits for it; an answer that somebody is looking at goes on without.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from multi_llm_chat.client.agent_events import Admit
from multi_llm_chat.client.chain import FallbackProvider
from multi_llm_chat.client.provider import LLMProvider
from multi_llm_chat.context.counting import Counter
from multi_llm_chat.durable.saving import TROUBLE, Save
from multi_llm_chat.errors import MultiLLMChatError, RateLimited, StoreError
from multi_llm_chat.events import Usage
from multi_llm_chat.loop.effects import CallModel
from multi_llm_chat.store import Store
from multi_llm_chat.store.rates import RateLimit, admit, close_rate, settle

#: Milliseconds to stay away from a provider that says "later" without saying when.
_LATER_MS: Final = 1_000


class Gate:
    """One run's way to its provider.

    Args:
        store: Where is counted what was asked.
        provider: Who is asked.
        limits: What may be asked, by the names of providers.
        patience: Seconds to wait for a store that cannot be reached; 0 goes on without it.
    """

    def __init__(
        self,
        store: Store,
        provider: LLMProvider,
        limits: Mapping[str, RateLimit],
        *,
        patience: float = 0.0,
    ) -> None:
        # A chain is limited by who is asked first.
        first = provider.members[0] if isinstance(provider, FallbackProvider) else provider
        self._limit = limits.get(first.name)
        self._key = first.account if self._limit is not None else ""
        self._store = store
        self._patience = patience
        self._counter = Counter()
        self._charged = 0

    @property
    def admit(self) -> Admit | None:
        """Says when the model may be asked; None where it always may."""
        return None if self._limit is None else self._ask

    def answered(self, usage: Usage | None) -> Sequence[Save]:
        """Set right what the request took."""
        if self._limit is None or usage is None or usage == Usage():
            return ()
        took = usage.input_tokens + usage.output_tokens
        return [Save(settle, (self._key, took - self._charged))]

    def failed(self, error: MultiLLMChatError | None) -> Sequence[Save]:
        """Keep everybody away from a provider that asks for it."""
        if self._limit is None or not isinstance(error, RateLimited):
            return ()
        wait = _LATER_MS if error.retry_after is None else int(error.retry_after * 1000)
        return [Save(close_rate, (self._key, wait))]

    def _ask(self, effect: CallModel) -> "Future[float]":
        assert self._limit is not None
        self._charged = self._counter.turns(effect.history)
        told: Future[float] = Future()

        def tell(asked: "Future[int]") -> None:
            if not told.set_running_or_notify_cancel():
                return
            match asked.exception():
                case None:
                    told.set_result(asked.result() / 1000)
                case StoreError() as error:
                    told.set_result(self._patience if error.reason in TROUBLE else 0.0)
                case error:
                    told.set_exception(error)

        asked = self._store.submit(admit, self._key, self._limit, self._charged)
        asked.add_done_callback(tell)
        return told
