"""The first seed system's import path; the code lives in ``multi_llm_chat.chat``."""
