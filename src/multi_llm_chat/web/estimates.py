"""What the next message costs, before it is sent.

Rules:
1. It is an estimate: the history by its characters, and an answer of ordinary length. The page says "about".
2. What has no known price is not counted; then the sum is "at least". Where no price is known, there is no sum.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from multi_llm_chat.chat.planner import configured_prices
from multi_llm_chat.errors import MultiLLMChatError
from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import Turn
from multi_llm_chat.metering.prices import Price, cost_of
from multi_llm_chat.metering.token_count import Counter

if TYPE_CHECKING:
    from multi_llm_chat.chat.workspace import Workspace

#: Tokens of an ordinary answer, and of the message that is being written.
ANSWER_TOKENS: Final = 400
MESSAGE_TOKENS: Final = 60

_COUNTER: Final = Counter()


class CostEstimate(Struct, frozen=True):
    """US dollars; None if no price is known. ``is_at_least`` if some are not known."""

    cost: Decimal | None = None
    is_at_least: bool = False

    @property
    def is_free(self) -> bool:
        """Whether all addressed models cost nothing."""
        return self.cost == 0 and not self.is_at_least


def estimate_cost(
    workspace: "Workspace", turns: Sequence[Turn], names: Sequence[str]
) -> CostEstimate:
    """What the answers of these speakers to the next message cost."""
    usage = Usage(
        input_tokens=MESSAGE_TOKENS + sum(map(_COUNTER.turn, turns)), output_tokens=ANSWER_TOKENS
    )
    prices = configured_prices(workspace.settings)
    costs = [_cost_of(workspace, name, usage, prices) for name in names]
    known = [cost for cost in costs if cost is not None]
    if not known:
        return CostEstimate()
    return CostEstimate(sum(known, Decimal(0)), len(known) < len(costs))


def _cost_of(
    workspace: "Workspace", name: str, usage: Usage, prices: Mapping[str, Price]
) -> Decimal | None:
    try:
        provider = workspace.speakers[name].provider
    except (MultiLLMChatError, ValueError, KeyError):
        return None  # a mistake in the settings of one speaker does not hide the others
    cost = cost_of(usage, provider.name, provider.model or "", prices)
    return None if cost is None else cost.total
