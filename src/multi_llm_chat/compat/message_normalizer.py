"""Seed 001's ``MessageNormalizer``: the repair engine for flat messages.

It logs the notes of the repair: removed calls with their ids as a warning for each message, a skipped orphan as debug, the totals as info.
Texts of messages are not logged.
"""

import logging
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final, Literal, Required, TypedDict, cast

import msgspec

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.flat import read_flat, write_flat
from multi_llm_chat.history.json_values import as_list, as_object
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.providers import ProviderRow, provider_row
from multi_llm_chat.protocol.rendered_request import target_of
from multi_llm_chat.repair import repair
from multi_llm_chat.repair.policy import PAIRS_ONLY, Note, RepairPolicy

_LOGGER = logging.getLogger(__name__)


class AIServiceProvider(StrEnum):
    """The providers by seed 001's names; the values are the names that the functions accept."""

    OpenAI = "openai"
    Groq = "groq"
    Cerebras = "cerebras"
    Fireworks = "fireworks"
    Anthropic = "anthropic"
    Gemini = "gemini"
    Ollama = "ollama"


class FunctionCall(TypedDict):
    """The function of a ``MessageToolCall``; ``arguments`` is JSON text."""

    name: str
    arguments: str


class MessageToolCall(TypedDict):
    """A call in a ``Message``."""

    id: str
    type: Literal["function"]
    function: FunctionCall


class Message(TypedDict, total=False):
    """A flat message, seed 001's ``Message``; other keys are allowed."""

    id: str
    role: Required[Literal["user", "assistant", "system", "tool"]]
    content: Required[Any]
    tool_calls: list[MessageToolCall]
    tool_call_id: str
    tool_use: Any


class MessageNormalizer:
    """Repairs lists of flat messages: pairs tool calls with their results, and removes content that the provider refuses."""

    @staticmethod
    def sanitize_messages_for_provider(
        messages: Iterable[Any], provider: str, policy: RepairPolicy = PAIRS_ONLY
    ) -> list[JsonObject]:
        """Return flat messages that are valid for the provider.

        Args:
            messages: Objects with ``role`` and ``content``, optionally ``tool_calls``,
                ``tool_call_id``, ``tool_use``, ``thinking``; every other key is kept. Not changed.
            provider: A provider's name, or an enum whose value is the name. An unknown name gets OpenAI's rules, with a warning.
            policy: By default unanswered calls and orphan results are removed, as in seed 001.
        """
        row = _row(provider)
        target = msgspec.structs.replace(
            target_of(row, row.default_model, speaker="assistant"), system="anywhere"
        )
        given = list(messages)
        repaired = repair(read_history(read_flat(given)), target, policy)
        written = write_flat(repaired.turns, result_names=row.chat.result_names == "always")
        _log(given, written, repaired.notes, row.name)
        return written


def _row(provider: object) -> ProviderRow:
    name = getattr(provider, "value", provider)
    try:
        return provider_row(cast("str", provider))
    except UsageError:
        _LOGGER.warning("Unknown provider %r: its messages are repaired by OpenAI's rules", name)
        return provider_row("openai-chat")


#: The log level and seed 001's text for each rule of a note.
_LINES: Final = {
    "OAI-02": (logging.WARNING, "Removing incomplete tool_calls from assistant message for"),
    "OAI-01": (logging.DEBUG, "Skipping orphaned tool message for"),
}
_OTHER: Final = (logging.DEBUG, "Repairing a message for")


def _log(given: list[Any], written: list[JsonObject], notes: Iterable[Note], provider: str) -> None:
    """One line for each message and rule, and one with the totals."""
    done: dict[tuple[int | None, str], list[str]] = {}
    for note in notes:
        done.setdefault((note.turn, note.rule), []).append(note.message)
    for (turn, rule), changes in done.items():
        message = as_object(given[turn]) if turn is not None else None
        identifier = (message or {}).get("id")
        level, words = _LINES.get(rule, _OTHER)
        _LOGGER.log(
            level, "%s %s: %s (message %r)", words, provider, "; ".join(changes), identifier
        )
    _LOGGER.info(
        "Tool call pairing validation completed for %s: %d messages in, %d out; %d calls in, %d out",
        provider,
        len(given),
        len(written),
        _count_calls(given),
        _count_calls(written),
    )


def _count_calls(messages: Iterable[Any]) -> int:
    fields = [as_object(message) or {} for message in messages]
    return sum(
        len(as_list(each.get("tool_calls")) or []) + bool(each.get("tool_use")) for each in fields
    )
