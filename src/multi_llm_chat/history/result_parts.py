"""What a tool result consists of: text a model reads, and media it may look at."""

from typing import Any

from multi_llm_chat.history.json_values import as_list, as_object, compact_json
from multi_llm_chat.history.reader import read_part
from multi_llm_chat.history.values import Media, Text


def split_result(content: Any) -> tuple[str, tuple[Media, ...]]:
    """The result's text and its media.

    A list of our own text and media parts is taken apart; any other value is told as JSON.
    """
    if isinstance(content, str):
        return content, ()
    items = as_list(content)
    if not items or not all(_is_part(item) for item in items):
        return compact_json(content), ()
    parts = [read_part(item, 0, position) for position, item in enumerate(items)]
    texts = [part.content for part in parts if isinstance(part, Text)]
    media = tuple(part for part in parts if isinstance(part, Media))
    return "\n".join(texts), media


def _is_part(item: object) -> bool:
    part = as_object(item)
    if part is None:
        return False
    kind = part.get("type")
    if kind == "text":
        return isinstance(part.get("content", part.get("text")), str)
    return kind == "media" and (
        isinstance(part.get("data"), str) or isinstance(part.get("url"), str)
    )
