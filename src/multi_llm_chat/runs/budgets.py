"""The budgets of runs, conversations, users and days, in money and in tokens.

Rules:
1. A budget is checked before each request, with an estimate of what its input will cost: a request that would exceed it is not
   sent, and the run fails with ``LimitReached`` (reason ``budget``). What was said before stays.
2. What was spent is in the store, so that all processes of a user share the budget. A day begins at midnight, UTC.
3. What has no known price counts as tokens, not as money. While the store cannot be read, nothing is refused.
4. Input that the run's last request had is estimated at the price of cached tokens.
"""

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from multi_llm_chat.agent.window.run_window import Fitting
from multi_llm_chat.config.settings import BudgetSettings
from multi_llm_chat.errors import LimitReached, StoreError
from multi_llm_chat.events import Usage
from multi_llm_chat.metering.prices import cost_of
from multi_llm_chat.store import Spent, read_spent

if TYPE_CHECKING:
    from multi_llm_chat.runs.journal import Journal

_DAY_MS: Final = 86_400_000
_SCOPES: Final = {
    "run": "this answer",
    "conversation": "this conversation",
    "user": "the user",
    "day": "today",
}


async def check_budget(journal: "Journal | None", fitting: Fitting) -> None:
    """Check that the fitted request of a run may be sent; a run without a journal has no budget.

    Raises:
        LimitReached: It would exceed a budget.
    """
    budget = None if journal is None else journal.spec.budget
    if journal is None or budget is None or budget == BudgetSettings():
        return
    spec, tokens = journal.spec, fitting.estimate
    usage = Usage(tokens, cache_read_tokens=min(fitting.known, tokens))
    cost = None
    if any(getattr(budget, scope) is not None for scope in _SCOPES):  # prices take time to load
        cost = cost_of(usage, spec.provider.priced_as, spec.model, spec.prices)
    estimate = Spent(Decimal(0) if cost is None else cost.total, tokens)
    spent = await _read(journal)
    for scope, words in _SCOPES.items():
        before = spent.get(scope, Spent())
        money: float | None = getattr(budget, scope)
        most: int | None = getattr(budget, f"{scope}_tokens")
        if money is not None and before.cost + estimate.cost > Decimal(str(money)):
            used = f"${before.cost:.4f} of ${money:g} spent, and the next request costs about ${estimate.cost:.4f}"
        elif most is not None and before.tokens + estimate.tokens > most:
            used = f"{before.tokens:,} of {most:,} tokens used, and the next request has about {tokens:,}"
        else:
            continue
        raise LimitReached(
            f"The budget of {words} is used up: {used}. Raise it in config.toml, under [budget].",
            reason="budget",
        )


async def _read(journal: "Journal") -> dict[str, Spent]:
    """What was spent, by scope; that of the run is known here."""
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
