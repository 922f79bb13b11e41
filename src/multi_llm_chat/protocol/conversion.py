"""Converts between our history and the message lists of other systems."""

from collections.abc import Iterable
from typing import Any, Final, Unpack

from multi_llm_chat.archive.importer import read_conversations
from multi_llm_chat.archive.text_export import shown_turns
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, clean_json, compact_json
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject, Origin, Turn
from multi_llm_chat.history.writer import write_history
from multi_llm_chat.protocol._message_reader import without_unreadable
from multi_llm_chat.protocol.dialect_registry import DIALECTS
from multi_llm_chat.protocol.message_formats import LIBRARIES, OURS, detect_format
from multi_llm_chat.protocol.providers import ROWS, provider_row
from multi_llm_chat.protocol.rendered_request import render
from multi_llm_chat.protocol.request_settings import RequestSettings

_NAMES = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "responses": "openai_responses",
    "chat": "openai_chat",
    "openai-agents": "openai_responses",
}


def history_from(
    messages: object,
    format: str = "auto",
    *,
    provider: str | None = None,
    model: str | None = None,
) -> list[JsonObject]:
    """Read the messages of a provider's API, of another library or of an export as a history.

    Args:
        messages: The list in the form of that API or library: messages, input items or contents; not changed.
        format: ``auto`` recognises it. Or ``openai-chat``, ``openai-responses``, ``anthropic``, ``gemini``, a
            provider's name; ``flat`` (seed 001's messages), ``langchain``, ``vercel``, ``pydantic-ai``,
            ``openai-agents``, ``ours``; ``chatgpt`` or ``claude-export`` for an exported conversation.
        provider: The provider that issued the reasoning and native items in the messages; by default the dialect's own.
        model: The model that produced them. Without it, reasoning cannot be replayed.

    Raises:
        UsageError: The messages are not a list, or the format is unknown. (A bad element is kept as a native part.)
    """
    return write_history(turns_from(messages, format, provider=provider, model=model))


def turns_from(
    messages: object, name: str = "auto", *, provider: str | None = None, model: str | None = None
) -> tuple[Turn, ...]:
    """Like ``history_from``, but returns ``Turn`` values."""
    key = name.strip().lower()
    if key == "auto":
        key = _detected(messages)
    if key in _EXPORTS:
        return _exported(messages)
    library = LIBRARIES.get(key)
    if library is not None:
        return read_history(library(read_list(messages)))
    if key == OURS:
        return read_history(read_list(messages))
    dialect = dialect_of(name if name != "auto" else key, messages)
    origin = Origin(provider or _inventor(name, dialect), "", model or "")
    return read_history(without_unreadable(DIALECTS[dialect].read_messages(messages, origin)))


_EXPORTS: Final = frozenset({"chatgpt", "claude-export"})


def _detected(messages: object) -> str:
    first = (as_list(messages) or [messages])[:1]
    export = as_object(first[0]) if first else None
    if export is not None and ("mapping" in export or "chat_messages" in export):
        return "chatgpt"
    return detect_format(as_list(messages) or [])


def read_list(messages: object) -> list[Any]:
    """The messages as a list; raises ``UsageError`` if they are not a list."""
    items = as_list(messages)
    if items is None:
        raise UsageError(f"Messages must be a list (actual type: {type(messages).__name__})")
    return items


def _exported(document: object) -> tuple[Turn, ...]:
    """The shown branch of the first conversation of an export."""
    imported = read_conversations(compact_json(clean_json(document)).encode())
    if not imported.conversations:
        raise UsageError(f"The export holds no conversation: {'; '.join(imported.problems[:3])}")
    return read_history(shown_turns(imported.conversations[0]))


def history_to(
    history: Iterable[Any], provider: str, **settings: Unpack[RequestSettings]
) -> list[JsonObject]:
    """The provider's messages for a history, as ``render`` writes them; takes the same settings."""
    rendered = render(history, provider, **settings)
    return rendered.body[DIALECTS[provider_row(provider).dialect].messages]


def dialect_of(name: str, messages: object = None) -> str:
    """The dialect by its name or a provider's; for ``openai``, the messages decide which of OpenAI's dialects it is."""
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
