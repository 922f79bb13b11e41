"""Make a conversation fit a model's window, without input or output.

``fit`` is all that most callers need; the parts are here for those who decide for themselves.
"""

from multi_llm_chat.context.compressing import compress
from multi_llm_chat.context.counting import Counter, estimate_tokens, get_buffer_factor
from multi_llm_chat.context.fitting import fit
from multi_llm_chat.context.notes import CompressionNote, Cut
from multi_llm_chat.context.windows import Window, window_of

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
