"""Create and register providers: ``create_provider``, ``register_provider`` and the classes that they create.

Rules:
1. A name is looked up in this order: what was registered, the rows of ``multi_llm_chat.protocol.providers``,
   the entry points of the group ``multi_llm_chat.providers``. ``package.module:Class`` is imported.
2. Entry points are read only for a name that is not found otherwise, because reading them inspects every installed package. A loaded
   provider is registered, so its entry point is read once. An unknown dialect of a row is loaded in the same way, from the group
   ``multi_llm_chat.dialects``.
3. A factory takes the keywords of ``ProviderSettings``, or some of them, and returns an ``LLMProvider``, or an object
   that has ``ask`` or ``call_api``. A class is a factory, too. A ``ProviderRow`` instead of a factory describes a provider on a known
   dialect.
4. A setting that is no parameter of the factory is set on the provider that it returns; if that is not possible, it raises ``UsageError``.
5. This module imports no package above its own: ``simulated`` is an entry point of this distribution.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeAlias, Unpack, cast

from msgspec.structs import replace

from multi_llm_chat.agent._reply_stream import AsyncReplyStream, ReplyStream, extract_text
from multi_llm_chat.agent.fallback_chain import FallbackProvider
from multi_llm_chat.agent.model_list import ModelInfo
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.provider_access import ProviderSettings
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.errors import UsageError
from multi_llm_chat.metering.model_windows import Window, register_windows
from multi_llm_chat.protocol.dialect_registry import DIALECTS, Dialect, register_dialect
from multi_llm_chat.protocol.providers import (
    ProviderRow,
    is_known,
    plain_row,
    provider_row,
    register_row,
)

__all__ = [
    "AsyncReplyStream",
    "ChatGPTProvider",
    "ClaudeProvider",
    "FallbackProvider",
    "GeminiProvider",
    "LLMProvider",
    "ModelInfo",
    "PluginProvider",
    "ProviderFactory",
    "ProviderRow",
    "ProviderSettings",
    "Reply",
    "ReplyStream",
    "as_provider",
    "create_provider",
    "extract_text",
    "find_factory",
    "register_dialect",
    "register_provider",
]

ENTRY_POINTS: Final = "multi_llm_chat.providers"
DIALECT_ENTRY_POINTS: Final = "multi_llm_chat.dialects"


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

#: Settings of a single provider, which cannot apply to all members of a chain.
_OF_ONE: Final = ("model", "api_key", "base_url", "headers")


#: Makes a provider from the keywords of ``ProviderSettings``: a subclass of ``LLMProvider``, a function, or a class
#: with ``ask`` or ``call_api``.
ProviderFactory: TypeAlias = Callable[..., Any]


#: The methods with which an object answers requests; the first that it has is called.
_ANSWERING: Final = ("ask", "acall_api", "call_api")


class PluginProvider(LLMProvider):
    """An ``LLMProvider`` around another object that has ``ask`` or ``call_api``.

    Args:
        plugin: The object; its ``model`` and ``speaker`` are used if it has them.
        provider: The provider's name.
        settings: See ``ProviderSettings``.
    """

    def __init__(self, plugin: object, provider: str, **settings: Unpack[ProviderSettings]) -> None:
        self.plugin = plugin
        for name in ("model", "speaker"):
            own = getattr(plugin, name, None)
            if isinstance(own, str) and settings.get(name) is None:
                settings[name] = own
        super().__init__(provider, **settings)

    def _code(self, method: str) -> Callable[..., Any] | None:
        return own_code(self.plugin).get(method)

    def _find_row(self, name: str | None) -> ProviderRow:
        return plain_row(name or "plugin")

    def close(self) -> None:
        """Close the object, if it can be closed."""
        close = getattr(self.plugin, "close", None)
        if callable(close):
            close()


def own_code(plugin: object) -> dict[str, Callable[..., Any]]:
    """The methods with which an object answers requests, by name.

    An object that creates attributes when they are read, such as a mock, seems to have all of them. Of such an object only ``call_api``
    counts, the method that the earlier systems' tests replace.
    """
    missing = object()
    found = {
        method: code for method in _ANSWERING if callable(code := getattr(plugin, method, None))
    }
    written = {
        method: code
        for method, code in found.items()
        if inspect.getattr_static(plugin, method, missing) is not missing
    }
    if written or "call_api" not in found:
        return written or found
    return {"call_api": found["call_api"]}


def as_provider(value: object, name: str) -> LLMProvider:
    """Make a provider of an ``LLMProvider``, a name or names for ``create_provider``, or an object with ``ask`` or ``call_api``.

    Raises:
        UsageError: It is none of these.
    """
    # ``isinstance`` is also true of a mock of a provider's class, which has none of its fields.
    if isinstance(value, LLMProvider) and LLMProvider in type(value).__mro__:
        return value
    if isinstance(value, str | list | tuple):
        return create_provider(cast("str | Sequence[str]", value), speaker=name)
    if own_code(value):
        return PluginProvider(value, name)
    raise UsageError(
        f"{name!r} is no provider: {type(value).__name__} has neither ask nor call_api. "
        "Give a name such as 'claude', or what create_provider returns"
    )


def create_provider(name: str | Sequence[str], **settings: Unpack[ProviderSettings]) -> LLMProvider:
    """The provider of this name, or a chain of several: ``create_provider(["claude", "gemini"])``.

    Args:
        name: A provider's name, its speaker's, ``NAME:MODEL``, ``package.module:Class``, or a list of them; ``local`` is
            the model inside this process (or a running Ollama), ``simulated`` a scripted one over real HTTP.
        settings: See ``ProviderSettings``: ``model``, ``api_key``, ``base_url``, ``options``,
            ``policy``, ``retry``, ``speaker``, ``headers``, ``timeouts``,
            ``connections_per_host``, ``breaker``.
    """
    if isinstance(name, list | tuple):
        if any(settings.get(setting) for setting in _OF_ONE):
            raise UsageError("In a chain each provider has its own model, key, address and headers")
        return FallbackProvider([create_provider(member, **settings) for member in name])
    known, colon, model = str(name).partition(":")
    if colon and (is_known(known) or _key(known) in _FACTORIES):
        return create_provider(known, **{**settings, "model": settings.get("model") or model})
    factory = find_factory(name)
    if factory is not None:
        return _made(factory, _plugin_name(str(name)), settings)
    row = provider_row(name)
    _find_dialect(row)
    return _CLASSES.get(row.name, LLMProvider)(row.name, **settings)


def find_factory(name: object) -> ProviderFactory | None:
    """The factory of a registered provider, of a path, or of an installed package; None for a provider with a row.

    Raises:
        UsageError: No provider has this name, or its package cannot be loaded.
    """
    key = _key(name)
    factory = _FACTORIES.get(key)
    if factory is not None or is_known(name):
        return factory
    if ":" in key:
        factory = _imported(str(name).strip())
        register_provider(key, factory)
        return factory
    found = _installed(key, ENTRY_POINTS, "provider")
    if found is None:
        try:
            provider_row(name)
        except UsageError as unknown:
            also = f"and what packages offer as entry points {ENTRY_POINTS!r}"
            raise UsageError(f"{unknown}, {also}") from None
    else:
        register_provider(key, found)
    return _FACTORIES.get(key)


def register_provider(
    name: str,
    factory: ProviderFactory | ProviderRow,
    *,
    windows: Mapping[str, int | Window] | None = None,
) -> None:
    """Let ``create_provider(name)`` use this factory; a later registration replaces an earlier one.

    Args:
        name: The provider's name; one of ours may be replaced.
        factory: Called with the keywords that ``create_provider`` was given. Or a ``ProviderRow``: a provider on a known dialect, with its
            address, the variable of its key and its requirements for histories.
        windows: The context windows of its models, by name or pattern such as ``acme-*``.
    """
    key = _key(name)
    if not key:
        raise UsageError("A provider needs a name")
    if windows:
        register_windows(windows)
    if isinstance(factory, ProviderRow):
        register_row(factory if factory.name == key else replace(factory, name=key))
    elif callable(factory):
        _FACTORIES[key] = factory
    else:
        raise UsageError(
            f"The provider {key!r} is made by a class, a function or a ProviderRow, not by {type(factory).__name__}"
        )


def _key(name: object) -> str:
    return str(getattr(name, "value", name)).strip().lower()


def _plugin_name(name: str) -> str:
    """The name of a provider given by its path: the name of its class."""
    last = _key(name).rpartition(":")[2]
    return last.rpartition(".")[2]


def _made(factory: ProviderFactory, name: str, settings: ProviderSettings) -> LLMProvider:
    """Call a factory, and set the settings that are none of its parameters."""
    given = cast("dict[str, Any]", dict(settings))
    left = {} if _takes_all(factory) else _not_taken(factory, given)
    made = factory(**{key: value for key, value in given.items() if key not in left})
    if isinstance(made, LLMProvider):
        if not is_known(made.name):  # a plug-in gets the name that the caller used
            speaker = made.row.speaker
            made.row = replace(made.row, name=name, speaker=name)
            made.speaker = name if made.speaker == speaker else made.speaker
    else:
        as_provider(made, name)
        made = PluginProvider(made, name, **cast("ProviderSettings", left))
        left = {key: left[key] for key in left if key in _OF_NETWORK}
    for key, value in left.items():
        if value is not None and key in _OF_NETWORK:
            raise UsageError(f"The provider {name!r} takes no {key}")
    made.set_up(**cast("ProviderSettings", left))
    return made


#: Settings that only the code that opens connections can use.
_OF_NETWORK: Final = frozenset(
    {"api_key", "base_url", "headers", "timeouts", "connections_per_host", "breaker"}
)


def _takes_all(factory: ProviderFactory) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in _parameters(factory))


def _not_taken(factory: ProviderFactory, settings: dict[str, Any]) -> dict[str, Any]:
    known = ProviderSettings.__annotations__
    taken = {each.name for each in _parameters(factory)}
    return {key: value for key, value in settings.items() if key in known and key not in taken}


def _parameters(factory: ProviderFactory) -> Sequence[inspect.Parameter]:
    return tuple(inspect.signature(factory).parameters.values())


def _imported(path: str) -> ProviderFactory:
    """The class at ``package.module:Class``."""
    module, _, name = path.partition(":")
    try:
        found: Any = import_module(module)
        for each in name.split("."):
            found = getattr(found, each)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"The provider {path!r} cannot be loaded: {error}") from error
    if not isinstance(found, type) or not any(hasattr(found, method) for method in _ANSWERING):
        raise UsageError(f"{path!r} is no class of a provider: it has neither ask nor call_api")
    return found


def _find_dialect(row: ProviderRow) -> None:
    """Load the dialect of a row from its package, if it is not one of ours."""
    if row.dialect in DIALECTS:
        return
    found = _installed(row.dialect, DIALECT_ENTRY_POINTS, "dialect")
    if not isinstance(found, Dialect):
        raise UsageError(
            f"The provider {row.name!r} speaks {row.dialect!r}, which is no known dialect: {', '.join(sorted(DIALECTS))}"
        )
    register_dialect(row.dialect, found)


def _installed(key: str, group: str, kind: str) -> Any:
    """The object that an installed package offers under this name; None if there is none."""
    found = [entry for entry in entry_points(group=group) if _key(entry.name) == key]
    if not found:
        return None
    if len(found) > 1:
        places = ", ".join(sorted(map(_place, found)))
        raise UsageError(
            f"Several packages offer a {kind} {key!r}: {places}. Uninstall all but one"
        )
    [entry] = found
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"The {kind} {key!r} of {_place(entry)} cannot be loaded: {error}"
        ) from error


def _place(entry: EntryPoint) -> str:
    package = entry.dist.name if entry.dist is not None else "an unknown package"
    return f"{package} ({entry.value})"


def _local(**settings: Unpack[ProviderSettings]) -> LLMProvider:
    # Imported on first use: the embedded model has many modules.
    return import_module("multi_llm_chat.agent.local_provider").create_local(**settings)


_FACTORIES: Final[dict[str, ProviderFactory]] = {"local": _local}
