"""What a conversation costs: tokens by the models' own tokenizers, and prices."""

from multi_llm_chat.metering.prices import Cost, Price, cost_of
from multi_llm_chat.metering.tokenizers import counter_for, get_token_info

__all__ = ["Cost", "Price", "cost_of", "counter_for", "get_token_info"]
