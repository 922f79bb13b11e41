"""Checks before each request: the rate limit of its provider and the budgets of its user. Also the events of waits for a retry.

Rules of rate limits, which are shared by all processes with the same key and the same store:
1. A run whose provider has a limit asks the gate before each request, whichever process drives it.
2. While the store cannot be reached, a worker waits; a watched run sends its request uncounted.

Rules of budgets, in money and in tokens, for a run, a conversation, a user and a day:
1. A budget is checked before each request, with an estimate of what its input will cost: a request that would exceed it is not sent, and
   the run fails with ``LimitReached`` (reason ``budget``). Earlier turns stay.
2. The store holds the spending, so that all processes of a user share the budget. A day begins at midnight, UTC.
3. Usage without a known price counts as tokens, not as money. While the store cannot be read, no request is refused.
4. Input that was in the run's last request is estimated at the price of cached tokens.
"""

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from multi_llm_chat.agent.effects import CallModel
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.window.run_window import Fitting
from multi_llm_chat.config.settings import BudgetSettings
from multi_llm_chat.errors import (
    LimitReached,
    MultiLLMChatError,
    ProviderError,
    RateLimited,
    StoreError,
)
from multi_llm_chat.events import Event, RunWaiting, Usage
from multi_llm_chat.metering.prices import cost_of
from multi_llm_chat.metering.token_count import Counter
from multi_llm_chat.runs.records import TRANSIENT, Write
from multi_llm_chat.store import Spent, Store, read_spent
from multi_llm_chat.store.rates import RateLimit, admit, close_rate, settle

if TYPE_CHECKING:
    from multi_llm_chat.runs.journal import Journal
    from multi_llm_chat.runs.spec import RunSpec

#: Milliseconds to wait after a 429 without ``Retry-After``.
_LATER_MS: Final = 1_000


#: Shorter waits for a retry, in seconds, are not shown to readers.
SHORTEST_WAIT: Final = 1.0


def retry_waits(failure: ProviderError, seconds: float, provider: str) -> list[Event]:
    """The event of a wait before a retry; none if the wait is too short to be noticed."""
    if seconds < SHORTEST_WAIT:
        return []
    name, cause = failure.provider or provider, failure.status or "no connection"
    text = f"{name} is busy ({cause}); tries again in {seconds:.0f} s."
    return [RunWaiting("retry", text, time.time() + seconds)]


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
        """The seconds to wait before the next call of ``admit``; 0 if the request may be sent now."""
        self._charged = self._counter.turns(effect.history)
        try:
            return await self._store.arun(admit, self._key, self._limit, self._charged) / 1000
        except StoreError as error:
            return self._patience if error.reason in TRANSIENT else 0.0

    def answered(self, usage: Usage | None) -> list[Write]:
        """Replace the estimated tokens by those that the provider reported."""
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


# Budgets.

_DAY_MS: Final = 86_400_000
_SCOPES: Final = {
    "run": "this answer",
    "conversation": "this conversation",
    "user": "the user",
    "day": "today",
}


class RunBudget:
    """Checks before each request of a run that it stays within the budgets: its own (``LoopLimits.cost``) and the configured ones.

    A run without a journal has only its own.
    """

    def __init__(self, spec: "RunSpec", journal: "Journal | None") -> None:
        self._spec = spec
        self._journal = journal
        budget = BudgetSettings() if journal is None or spec.budget is None else spec.budget
        own = [each for each in (budget.run, spec.limits.cost) if each is not None]
        self._budget = replace(budget, run=min(own)) if own else budget
        self._spent = Spent()

    def answered(self, usage: Usage) -> None:
        """Add the cost of a reply; in a run with a journal, the journal counts it."""
        if self._journal is None and self._budget.run is not None:
            tokens = usage.input_tokens + usage.output_tokens
            cost = self._cost(usage)
            self._spent = Spent(self._spent.cost + cost, self._spent.tokens + tokens)

    async def refusal(self, fitting: Fitting) -> LimitReached | None:
        """The error of a request that would exceed a budget; None if it may be sent."""
        budget = self._budget
        if budget == BudgetSettings():
            return None
        tokens = fitting.estimate
        cost = Decimal(0)
        # Loading prices takes time.
        if any(getattr(budget, scope) is not None for scope in _SCOPES):
            cost = self._cost(Usage(tokens, cache_read_tokens=min(fitting.known, tokens)))
        spent = {"run": self._spent} if self._journal is None else await _read(self._journal)
        for scope, words in _SCOPES.items():
            before = spent.get(scope, Spent())
            money: float | None = getattr(budget, scope)
            most: int | None = getattr(budget, f"{scope}_tokens")
            if money is not None and before.cost + cost > Decimal(str(money)):
                used = f"${before.cost:.4f} of ${money:g} spent, and the next request costs about ${cost:.4f}"
            elif most is not None and before.tokens + tokens > most:
                used = f"{before.tokens:,} of {most:,} tokens used, and the next request has about {tokens:,}"
            else:
                continue
            place = (
                "in LoopLimits"
                if money == self._spec.limits.cost
                else "in config.toml, under [budget]"
            )
            return LimitReached(
                f"The budget of {words} is used up: {used}. Raise it {place}.", reason="budget"
            )
        return None

    def _cost(self, usage: Usage) -> Decimal:
        spec = self._spec
        cost = cost_of(usage, spec.provider.priced_as, spec.model, spec.prices)
        return Decimal(0) if cost is None else cost.total


async def _read(journal: "Journal") -> dict[str, Spent]:
    """The spending by scope; the run's own is known in memory."""
    cost = journal.cost.total if journal.cost is not None else Decimal(0)
    used = journal.usage.input_tokens + journal.usage.output_tokens
    run = {"run": Spent(cost, used)}
    now = time.time_ns() // 1_000_000
    try:
        found = await journal.store.arun(
            read_spent, journal.spec.conversation or "", now - now % _DAY_MS
        )
    except StoreError:
        return run
    return found | run
