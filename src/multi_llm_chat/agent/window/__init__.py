"""Make a conversation fit a model's window, without input or output.

Most callers need only ``fit``; the other functions are its parts.
"""

from multi_llm_chat.agent.window._compression import compress
from multi_llm_chat.agent.window._request_fit import fit
from multi_llm_chat.agent.window.compression_notes import CompressionNote, Cut
from multi_llm_chat.metering.model_windows import Window, window_of
from multi_llm_chat.metering.token_count import Counter, estimate_tokens
from multi_llm_chat.metering.tokenizers import get_buffer_factor

__all__ = [
    "CompressionNote",
    "Counter",
    "Cut",
    "Window",
    "compress",
    "estimate_tokens",
    "fit",
    "get_buffer_factor",
    "window_of",
]
