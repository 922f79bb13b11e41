"""The first seed system's import path; the code lives in ``service``."""

from multi_llm_chat.mentions import read_mentions
from multi_llm_chat.service.chat import ChatService
from multi_llm_chat.service.display import logic_history_to_display

__all__ = ["ChatService", "logic_history_to_display", "read_mentions"]
