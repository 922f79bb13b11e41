"""Asking providers: ``create_provider`` and what it creates."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from multi_llm_chat.client.chain import FallbackProvider
from multi_llm_chat.client.models import ModelInfo
from multi_llm_chat.client.provider import (
    ChatGPTProvider,
    ClaudeProvider,
    GeminiProvider,
    LLMProvider,
)
from multi_llm_chat.client.reply import Reply
from multi_llm_chat.client.streams import AsyncReplyStream, ReplyStream
from multi_llm_chat.errors import UsageError
from multi_llm_chat.providers import provider_row
from multi_llm_chat.request import Options

__all__ = [
    "AsyncReplyStream",
    "ChatGPTProvider",
    "ClaudeProvider",
    "FallbackProvider",
    "GeminiProvider",
    "LLMProvider",
    "ModelInfo",
    "Reply",
    "ReplyStream",
    "create_provider",
]

_CLASSES: dict[str, type[LLMProvider]] = {
    "openai": ChatGPTProvider,
    "gemini": GeminiProvider,
    "anthropic": ClaudeProvider,
}


#: Providers that need more than an address; each is loaded when it is asked for.
_ELSEWHERE = {
    "local": "multi_llm_chat.client.local:create_local",
    "simulated": "multi_llm_chat.testing.simulated:SimulatedProvider",
}


def create_provider(
    name: str | Sequence[str],
    *,
    model: str | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    **settings: Any,
) -> LLMProvider:
    """The provider of this name, or a chain of several: ``create_provider(["claude", "gemini"])``.

    Args:
        name: A provider's name, its speaker's, or a list of them; ``local`` is the model inside
            this process (or a running Ollama), ``simulated`` one that only pretends.
        model: The model; the provider's default otherwise.
        api_key: The key; the provider's environment variable otherwise.
        base_url: The address; ``<NAME>_BASE_URL`` or the provider's own otherwise.
        options: Settings for every call, in the vocabulary of ``Options``.
        settings: The further arguments of ``LLMProvider``.
    """
    if isinstance(name, list | tuple):
        if model or api_key or base_url:
            raise UsageError("In a chain each provider has its own model, key and address")
        return FallbackProvider(
            [create_provider(member, options=options, **settings) for member in name]
        )
    factory = _ELSEWHERE.get(str(name).strip().lower())
    if factory is not None:
        module, _, attribute = factory.partition(":")
        create = getattr(import_module(module), attribute)
        return create(model=model, options=options, **settings)
    row = provider_row(name)
    return _CLASSES.get(row.name, LLMProvider)(
        row.name, model=model, api_key=api_key, base_url=base_url, options=options, **settings
    )
