"""A history as plain text, and simple questions about it: the first seed system's functions."""

from collections.abc import Iterable
from typing import Any

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_object, clean_json, compact_json
from multi_llm_chat.history.reader import read_history, read_parts, read_turn
from multi_llm_chat.history.values import JsonObject, Part, Text, ToolCall, ToolResult
from multi_llm_chat.history.writer import write_history, write_turn


def normalize_history_turns(turns: Iterable[Any]) -> list[JsonObject]:
    """Every turn in its strict form, aligned with the input by index.

    A turn that is not a dict becomes a placeholder with ``unreadable`` set; it can be stored and
    is never sent.
    """
    return write_history(read_history(turns))


def validate_history_entry(entry: object) -> JsonObject:
    """The entry in its strict form; ``UsageError`` (a ``ValueError``) says what is wrong with it."""
    if as_object(entry) is None:
        raise UsageError(f"A history entry must be a dict (actual type: {type(entry).__name__})")
    return write_turn(read_turn(entry, None, strict=True))


def content_to_text(content: object, include_tool_data: bool = False) -> str:
    """The words of a turn's content in order; with tool data also calls and results, as text."""
    parts = read_parts(content, None, strict=True)
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
    """A tool result's content as the text a model reads."""
    return content if isinstance(content, str) else compact_json(clean_json(content))


def _part_to_text(part: Part, include_tool_data: bool) -> str:
    match part:
        case Text():
            return part.content
        case ToolCall() if include_tool_data:
            return f"{part.name} {compact_json(clean_json(part.arguments))}"
        case ToolResult() if include_tool_data:
            return f"{part.name} {result_to_text(part.content)}"
        case _:
            return ""
