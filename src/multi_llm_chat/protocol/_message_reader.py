"""Helpers of the readers of provider-native messages."""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, type_of
from multi_llm_chat.history.reader import ReadHistory, UsualContents, unknown_part
from multi_llm_chat.history.values import (
    JsonObject,
    Media,
    Native,
    Part,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

#: The role that native formats give to every model.
MODEL = "assistant"

#: The kind of the ``Native`` part for a value that is not a part or message.
UNREADABLE = "unreadable"

_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.DOTALL)


def read_messages_list(messages: object) -> Sequence[JsonObject]:
    """The messages as objects; a value that is not an object becomes a user message with an unreadable part.

    Raises:
        UsageError: The messages are not a list.
    """
    items = as_list(messages)
    if items is None:
        raise UsageError(f"Messages must be a list (actual type: {type(messages).__name__})")
    return [item if type_of(item) is dict else _as_message(item) for item in items]


def _as_message(item: Any) -> JsonObject:
    message = as_object(item)
    if message is not None:
        return message
    unreadable = [{"type": UNREADABLE, "value": item}]
    return {"role": "user", "content": unreadable, "parts": unreadable}


def content_parts(content: object, _index: int = 0) -> Iterable[JsonObject]:
    """Content as a list of part objects: a string becomes one text, None an empty list."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    alone = as_object(content)
    items = as_list(content) if alone is None else [alone]
    if items is None:
        return [{"type": UNREADABLE, "value": content}]
    return [item if type_of(item) is dict else _as_part(item) for item in items]


def _as_part(item: Any) -> JsonObject:
    part = as_object(item)
    if part is not None:
        return part
    is_text = isinstance(item, str)
    return {"type": "text", "text": item} if is_text else {"type": UNREADABLE, "value": item}


def media_from_url(url: str, mime: str = "image/png", name: str | None = None) -> Media:
    """Media from a URL; a data URL is decoded."""
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return Media(mime, url=url, name=name)
    return Media(found[1] or mime, data=found[2], name=name)


def turns_of(role: str, parts: Iterable[Part]) -> list[Turn]:
    """The parts as turns in the same order: results in tool turns, all other parts in turns of the role."""
    parts = tuple(parts)
    kinds = set(map(type, parts))
    if ToolResult not in kinds:  # the usual case
        return [Turn(role, parts)] if parts else []
    if len(kinds) == 1:
        return [Turn("tool", parts)]
    turns: list[Turn] = []
    pending: list[Part] = []
    results = False
    for part in parts:
        is_result = isinstance(part, ToolResult)
        if pending and is_result != results:
            turns.append(Turn("tool" if results else role, tuple(pending)))
            pending = []
        results = is_result
        pending.append(part)
    if pending:
        turns.append(Turn("tool" if results else role, tuple(pending)))
    return turns


def read_usual_turns(turns: Iterable[Turn], *, wants_calls: bool) -> ReadHistory | None:
    """Turns in the usual form as a history; None if a call has no id, or if there are no calls but they are wanted."""
    read = ReadHistory(turns)
    lists: list[Sequence[Part]] = [turn.parts for turn in read]
    parts = list(chain.from_iterable(lists))
    calls = [part for part in parts if type(part) is ToolCall]
    if "" in [call.tool_call_id for call in calls] or (wants_calls and not calls):
        return None
    read.contents = UsualContents(
        [part.content for part in parts if type(part) is Text],
        calls,
        [part for part in parts if type(part) is ToolResult],
        [at for at, some in enumerate(lists) if len(some) > 1 or type_of(some[0]) is not Text],
    )
    return read


def without_unreadable(turns: Iterable[Turn]) -> list[Turn]:
    """The turns, with the placeholders of unreadable values marked as parts that no provider has issued."""
    turns = list(turns)
    if Native not in set(map(type, chain.from_iterable(map(attrgetter("parts"), turns)))):
        return turns
    return [
        replace(turn, parts=tuple(map(_unissued, turn.parts)))
        if any(_is_unreadable(part) for part in turn.parts)
        else turn
        for turn in turns
    ]


def _is_unreadable(part: Part) -> bool:
    return isinstance(part, Native) and part.raw.get("type") == UNREADABLE


def _unissued(part: Part) -> Part:
    if not isinstance(part, Native) or not _is_unreadable(part):
        return part
    return unknown_part(part.raw.get("value"), UNREADABLE)
