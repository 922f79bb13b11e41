"""Between our history and the message lists of other systems."""

from collections.abc import Iterable
from typing import Any, Unpack

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.flat import read_flat
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject, Origin, Turn
from multi_llm_chat.history.writer import write_history
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.providers import ROWS, provider_row
from multi_llm_chat.protocol.rendered_request import render
from multi_llm_chat.protocol.request_settings import RequestSettings

#: The key of a request's body that holds its history, by dialect.
MESSAGES_KEYS = {
    "openai_chat": "messages",
    "openai_responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}

_NAMES = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "responses": "openai_responses",
    "chat": "openai_chat",
}


def history_from(
    messages: object, dialect: str, *, provider: str | None = None, model: str | None = None
) -> list[JsonObject]:
    """Read provider-native messages as a history.

    Args:
        messages: The list as that API takes it: messages, input items or contents; not changed.
        dialect: ``openai-chat``, ``openai-responses``, ``anthropic``, ``gemini``, ``flat`` (seed
            001's messages), or the name of a provider.
        provider: Where reasoning in the messages came from; the dialect's inventor otherwise.
        model: The model that produced them. Without it reasoning cannot be replayed.
    """
    return write_history(turns_from(messages, dialect, provider=provider, model=model))


def turns_from(
    messages: object, dialect: str, *, provider: str | None = None, model: str | None = None
) -> tuple[Turn, ...]:
    """Like ``history_from``, as values."""
    if dialect == "flat":
        turns = [
            Turn(turn.role, turn.parts, turn.meta["message"].get("id"))
            for turn in read_flat(as_list(messages) or [])
        ]
        return read_history(turns)
    name = dialect_of(dialect, messages)
    origin = Origin(provider or _inventor(dialect, name), "", model or "")
    return read_history(DIALECTS[name].read_messages(messages, origin))


def history_to(
    history: Iterable[Any], provider: str, **settings: Unpack[RequestSettings]
) -> list[JsonObject]:
    """The provider's messages for a history: those of ``render``, which takes the same settings."""
    rendered = render(history, provider, **settings)
    return rendered.body[MESSAGES_KEYS[provider_row(provider).dialect]]


def dialect_of(name: str, messages: object = None) -> str:
    """The dialect by its name or a provider's; ``openai`` alone means whichever the messages are."""
    key = name.strip().lower()
    if key == "openai" and _look_like_chat(messages):
        return "openai_chat"
    key = _NAMES.get(key, key)
    if key in DIALECTS:
        return key
    try:
        return provider_row(key).dialect
    except UsageError:
        known = ", ".join(sorted({*_NAMES, *ROWS, "flat"}))
        raise UsageError(f"Unknown dialect {name!r}; known are: {known}") from None


def _look_like_chat(messages: object) -> bool:
    found = (as_object(message) or {} for message in as_list(messages) or [])
    return any("tool_calls" in message or message.get("role") == "tool" for message in found)


def _inventor(name: str, dialect: str) -> str:
    if name in ROWS:
        return name
    return {"openai_chat": "openai-chat", "openai_responses": "openai"}.get(dialect, dialect)
