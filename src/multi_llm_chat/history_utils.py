"""The first seed system's import path; the code lives in ``multi_llm_chat.history``."""

from multi_llm_chat.compat.history_text import (
    content_to_text,
    history_contains_tools,
    normalize_history_turns,
    validate_history_entry,
)

__all__ = [
    "content_to_text",
    "history_contains_tools",
    "normalize_history_turns",
    "validate_history_entry",
]
