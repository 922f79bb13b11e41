"""The first system's import path; the code is in ``metering``."""

from multi_llm_chat.metering.token_count import estimate_tokens
from multi_llm_chat.metering.tokenizers import get_buffer_factor, get_token_info

__all__ = ["estimate_tokens", "get_buffer_factor", "get_token_info"]
