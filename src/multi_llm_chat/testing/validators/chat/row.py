"""What a Chat Completions row is made of.

A *fault* is a named way to be wrong; a row's ``wordings`` say with which rule and in which words
it answers a fault. A fault without a wording is tolerated by that row. ``checks`` are run in order,
and that order is the order in which the provider would report.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from multi_llm_chat.testing.validators.typed_views import as_array, as_object
from multi_llm_chat.testing.validators.violation import Violation, Wording


class ChatRow(msgspec.Struct, frozen=True):
    """One Chat Completions server: what it knows, what it refuses, and how it says so."""

    name: str
    wordings: Mapping[str, Wording]
    checks: tuple["Check", ...]
    roles: tuple[str, ...]
    part_types: Mapping[str, frozenset[str]]
    request_keys: frozenset[str] | None = None
    message_keys: Mapping[str, frozenset[str]] | None = None
    part_keys: Mapping[str, frozenset[str]] | None = None
    call_keys: frozenset[str] | None = None
    tool_keys: frozenset[str] | None = None
    function_keys: frozenset[str] | None = None
    tool_types: tuple[str, ...] = ("function",)
    tool_choices: tuple[str, ...] = ("none", "auto", "required")
    identifier_limit: int | None = None
    #: The form of ids that Mistral's chat template asks for on this server.
    mistral_identifier: re.Pattern[str] = re.compile(r"[a-zA-Z0-9]{9}")
    name_pattern: re.Pattern[str] | None = None
    name_limit: int = 64
    tool_limit: int = 128
    #: Models that take lists of parts where the others take strings.
    lists: re.Pattern[str] | None = None
    image_types: frozenset[str] = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
    image_url_may_be_string: bool = False
    audio_may_be_string: bool = False
    files_by_address: bool = False
    #: Null ``tools`` and ``tool_choice`` are absent (OAI-15).
    nulls_are_absent: bool = False
    #: How the types of tools begin that the server runs itself (ORT-07).
    server_tools: str | None = None


class ChatCall(msgspec.Struct, frozen=True):
    """One request under judgement."""

    row: ChatRow
    body: dict[str, Any]
    model: str

    def say(self, fault: str, **values: object) -> Iterator[Violation]:
        """Report a fault, if this row has words for it."""
        wording = self.row.wordings.get(fault)
        if wording is not None:
            yield wording.fill(**values)

    def messages(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The messages that are objects, with their indices."""
        for index, item in enumerate(as_array(self.body.get("messages")) or []):
            message = as_object(item)
            if message is not None:
                yield index, message

    def tools(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The tools that are objects, with their indices."""
        for index, item in enumerate(as_array(self.body.get("tools")) or []):
            tool = as_object(item)
            if tool is not None:
                yield index, tool


Check = Callable[[ChatCall], Iterator[Violation]]


def calls_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool calls of an assistant message that are objects."""
    if message.get("role") != "assistant":
        return []
    items = as_array(message.get("tool_calls")) or []
    return [item for item in map(as_object, items) if item is not None]
