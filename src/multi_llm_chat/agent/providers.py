"""Asking providers: ``create_provider`` and what it creates."""

from multi_llm_chat.agent.fallback_chain import FallbackProvider
from multi_llm_chat.agent.model_list import ModelInfo
from multi_llm_chat.agent.provider import (
    ChatGPTProvider,
    ClaudeProvider,
    GeminiProvider,
    LLMProvider,
    ProviderSettings,
)
from multi_llm_chat.agent.provider_factories import (
    ProviderFactory,
    create_provider,
    register_provider,
)
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.agent.reply_stream import AsyncReplyStream, ReplyStream

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
