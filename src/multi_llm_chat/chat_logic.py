"""The first system's import path; the code is in ``chat``."""

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.display import logic_history_to_display
from multi_llm_chat.chat.mentions import read_mentions

__all__ = ["ChatService", "logic_history_to_display", "read_mentions"]
