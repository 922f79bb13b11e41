"""Functions of the first seed system: a history as plain text, and simple queries of it."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, clean_json, compact_json
from multi_llm_chat.history.reader import read_history, read_parts, read_turn, wrong_content
from multi_llm_chat.history.values import JsonObject, Native, Part, Text, ToolCall, ToolResult
from multi_llm_chat.history.writer import write_history, write_turn

_LOGGER = logging.getLogger(__name__)


def normalize_history_turns(turns: Iterable[Any]) -> list[JsonObject]:
    """Every turn in its strict form, aligned with the input by index.

    A turn that is not a dict becomes a placeholder with ``unreadable`` set, with a warning in the log that names its index;
    the placeholder can be stored, but is never sent.
    """
    read = read_history(turns)
    for index, turn in enumerate(read):
        if turn.unreadable is not None:
            _LOGGER.warning(
                "The history entry at index %d is unreadable: %s", index, turn.unreadable
            )
    return write_history(read)


def validate_history_entry(entry: object) -> JsonObject:
    """The entry in its strict form; ``UsageError`` (a ``ValueError``) says what is wrong with it.

    As strict as the first system: content is required, and a tool's turn holds results, each with the id of its call.
    """
    fields = as_object(entry)
    if fields is None:
        raise UsageError(f"A history entry must be a dict (actual type: {type(entry).__name__})")
    content: object = fields.get("content")
    if not isinstance(content, (str, list, tuple)):
        raise wrong_content(content, None)
    turn = read_turn(entry, None, strict=True)
    if turn.role == "tool":
        _check_results(turn.parts, as_list(fields["content"]))
    return write_turn(turn)


def _check_results(parts: Sequence[Part], items: list[Any] | None) -> None:
    if not parts:
        raise UsageError("A tool's turn needs a result: its content is empty")
    if items is None:  # only a text: the form of the oldest files
        return
    for position, item in enumerate(items):
        kind = (as_object(item) or {}).get("type")
        if kind != "tool_result":
            raise UsageError(
                f"A tool's turn holds results only; part {position} is {kind or type(item).__name__!r}"
            )
        if not (as_object(item) or {}).get("tool_call_id"):
            raise UsageError(f"The result in part {position} needs the tool_call_id of its call")


def content_to_text(content: object, include_tool_data: bool = False) -> str:
    """The text of a turn's content in order; with tool data also calls, results and native items, as text.

    Null counts as an empty turn; an invalid element does not affect the others. Raises ``UsageError`` (a ``ValueError``) for content that
    is neither a string nor a list nor one part.
    """
    if content is None:
        return ""
    parts = read_parts(content, None, strict=as_list(content) is None)
    spoken = (_part_to_text(part, include_tool_data) for part in parts)
    return " ".join(text for text in spoken if text)


def history_contains_tools(history: Iterable[Any]) -> bool:
    """Whether any turn of the history calls a tool or carries a tool's result."""
    return any(
        isinstance(part, (ToolCall, ToolResult))
        for turn in read_history(history)
        for part in turn.parts
    )


def result_to_text(content: Any) -> str:
    """A tool result's content as the text that a model reads."""
    return content if isinstance(content, str) else compact_json(clean_json(content))


def _part_to_text(part: Part, include_tool_data: bool) -> str:
    match part:
        case Text():
            return part.content
        case ToolCall() if include_tool_data:
            return f"{part.name} {compact_json(clean_json(part.arguments))}"
        case ToolResult() if include_tool_data:
            return f"{part.name} {result_to_text(part.content)}"
        case Native() if include_tool_data:
            return part.text
        case _:
            return ""
