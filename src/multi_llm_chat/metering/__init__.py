"""What a conversation costs: tokens by the models' own tokenizers, and prices."""

from multi_llm_chat.metering.prices import Cost, Price, cost_of
from multi_llm_chat.metering.token_info import get_token_info
from multi_llm_chat.metering.tokenizers import counter_for

__all__ = ["Cost", "Price", "cost_of", "counter_for", "get_token_info"]
