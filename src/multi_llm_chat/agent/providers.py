"""Asking providers: ``create_provider``, ``register_provider`` and what they create.

Rules:
1. A name is looked up in this order: what was registered, the rows of ``multi_llm_chat.protocol.providers``,
   the entry points of the group ``multi_llm_chat.providers``.
2. Entry points are read only for a name that is unknown otherwise: reading them looks at every
   installed package. What one gives is registered, so that it is read once.
3. A factory takes the keywords of ``ProviderSettings`` and returns an ``LLMProvider``; a class will do.
4. Nothing here names a package above this one: ``simulated`` is an entry point of this distribution.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeAlias, Unpack, cast

from multi_llm_chat.agent._reply_stream import AsyncReplyStream, ReplyStream
from multi_llm_chat.agent.fallback_chain import FallbackProvider
from multi_llm_chat.agent.model_list import ModelInfo
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.provider_access import ProviderSettings
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.errors import UsageError
from multi_llm_chat.protocol.providers import provider_row

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

ENTRY_POINTS: Final = "multi_llm_chat.providers"


class ChatGPTProvider(LLMProvider):
    """OpenAI's models, over the Responses API."""

    default_provider = "openai"


class GeminiProvider(LLMProvider):
    """Google's models."""

    default_provider = "gemini"


class ClaudeProvider(LLMProvider):
    """Anthropic's models."""

    default_provider = "anthropic"


_CLASSES: Final[dict[str, type[LLMProvider]]] = {
    "openai": ChatGPTProvider,
    "gemini": GeminiProvider,
    "anthropic": ClaudeProvider,
}

#: Settings that belong to one provider and make no sense for all members of a chain.
_OF_ONE: Final = ("model", "api_key", "base_url", "headers")


#: Makes a provider from the keywords of ``ProviderSettings``: a subclass of ``LLMProvider``, or a function.
ProviderFactory: TypeAlias = Callable[..., LLMProvider]


def create_provider(name: str | Sequence[str], **settings: Unpack[ProviderSettings]) -> LLMProvider:
    """The provider of this name, or a chain of several: ``create_provider(["claude", "gemini"])``.

    Args:
        name: A provider's name, its speaker's, or a list of them; ``local`` is the model inside
            this process (or a running Ollama), ``simulated`` a scripted one over real HTTP.
        settings: See ``ProviderSettings``: ``model``, ``api_key``, ``base_url``, ``options``,
            ``policy``, ``retry``, ``speaker``, ``headers``, ``timeouts``,
            ``connections_per_host``, ``breaker``.
    """
    if isinstance(name, list | tuple):
        if any(settings.get(setting) for setting in _OF_ONE):
            raise UsageError("In a chain each provider has its own model, key, address and headers")
        return FallbackProvider([create_provider(member, **settings) for member in name])
    key = _key(name)
    factory = _FACTORIES.get(key)
    if factory is not None:
        return factory(**settings)
    try:
        row = provider_row(name)
    except UsageError as unknown:
        factory = _installed(key)
        if factory is None:
            raise UsageError(
                f"{unknown}, and what packages offer as entry points {ENTRY_POINTS!r}"
            ) from None
        register_provider(key, factory)
        return factory(**settings)
    return _CLASSES.get(row.name, LLMProvider)(row.name, **settings)


def register_provider(name: str, factory: ProviderFactory) -> None:
    """Let ``create_provider(name)`` use this factory; a later registration replaces an earlier one.

    Args:
        name: The provider's name; one of ours may be replaced.
        factory: Called with the keywords that ``create_provider`` was given.
    """
    key = _key(name)
    if not key:
        raise UsageError("A provider needs a name")
    _FACTORIES[key] = factory


def _key(name: object) -> str:
    return str(getattr(name, "value", name)).strip().lower()


def _installed(key: str) -> ProviderFactory | None:
    """The factory that an installed package offers under this name."""
    found = [entry for entry in entry_points(group=ENTRY_POINTS) if _key(entry.name) == key]
    if not found:
        return None
    if len(found) > 1:
        places = ", ".join(sorted(map(_place, found)))
        raise UsageError(
            f"Several packages offer a provider {key!r}: {places}. Uninstall all but one"
        )
    [entry] = found
    try:
        return cast("ProviderFactory", entry.load())
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"The provider {key!r} of {_place(entry)} cannot be loaded: {error}"
        ) from error


def _place(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "an unknown package"
    return f"{package} ({entry.value})"


def _local(**settings: Unpack[ProviderSettings]) -> LLMProvider:
    # Loaded when it is asked for: the embedded model has modules of its own.
    return import_module("multi_llm_chat.agent.local_provider").create_local(**settings)


_FACTORIES: Final[dict[str, ProviderFactory]] = {"local": _local}
