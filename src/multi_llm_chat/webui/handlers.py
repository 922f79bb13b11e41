"""The first seed system's import path; the code lives in ``multi_llm_chat.chat.display``."""

from multi_llm_chat.chat.display import logic_history_to_display

__all__ = ["logic_history_to_display"]
