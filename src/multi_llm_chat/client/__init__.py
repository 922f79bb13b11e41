"""Asking providers: ``create_provider`` and what it creates."""

from multi_llm_chat.client.chain import FallbackProvider
from multi_llm_chat.client.factories import ProviderFactory, create_provider, register_provider
from multi_llm_chat.client.models import ModelInfo
from multi_llm_chat.client.provider import (
    ChatGPTProvider,
    ClaudeProvider,
    GeminiProvider,
    LLMProvider,
    ProviderSettings,
)
from multi_llm_chat.client.reply import Reply
from multi_llm_chat.client.streams import AsyncReplyStream, ReplyStream

__all__ = [
    "AsyncReplyStream",
    "ChatGPTProvider",
    "ClaudeProvider",
    "FallbackProvider",
    "GeminiProvider",
    "LLMProvider",
    "ModelInfo",
    "ProviderFactory",
    "ProviderSettings",
    "Reply",
    "ReplyStream",
    "create_provider",
    "register_provider",
]
