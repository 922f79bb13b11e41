"""A read-only filesystem server: ``python -m multi_llm_chat.tools.filesystem ROOT…``."""
