"""What the readers of provider-native messages share."""

import re
from collections.abc import Iterable, Sequence

from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import as_list, as_object, as_text
from multi_llm_chat.history.values import JsonObject, Media, Part, Text, ToolResult, Turn

#: The role that native formats give to whichever model spoke.
MODEL = "assistant"

_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,(.*)", re.DOTALL)


def read_messages_list(messages: object) -> Sequence[JsonObject]:
    """The messages, each known to be an object; ``UsageError`` says which is not."""
    items = as_list(messages)
    if items is None:
        raise UsageError(f"Messages must be a list (actual type: {type(messages).__name__})")
    read: list[JsonObject] = []
    for index, item in enumerate(items):
        message = as_object(item)
        if message is None:
            raise UsageError(
                f"A message must be an object (found: {type(item).__name__})", turn=index
            )
        read.append(message)
    return read


def content_parts(content: object, index: int) -> Iterable[JsonObject]:
    """Content as a list of part objects: a string is one text, nothing is none."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    items = as_list(content)
    if items is None:
        raise UsageError(
            f"History content must be a list or string (actual type: {type(content).__name__})",
            turn=index,
        )
    return [
        part if (part := as_object(item)) is not None else {"type": "text", "text": as_text(item)}
        for item in items
    ]


def media_from_url(url: str, mime: str = "image/png", name: str | None = None) -> Media:
    """Media from an address; a data URL is taken apart."""
    found = _DATA_URL.fullmatch(url)
    if found is None:
        return Media(mime, url=url, name=name)
    return Media(found[1] or mime, data=found[2], name=name)


def left_out(kind: object) -> Text:
    """Words in place of a part that only its own server understands."""
    return Text(f"[left out: {kind}]")


def turns_of(role: str, parts: Iterable[Part]) -> list[Turn]:
    """The parts as turns: results in tool turns, everything else under the role, order kept."""
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
