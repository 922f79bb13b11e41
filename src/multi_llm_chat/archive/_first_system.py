"""Reads conversations of the first system: one JSON file for each conversation, one folder for each user.

Rules:
1. A file has ``turns`` and ``system_prompt``, next to ``display_name`` and ``metadata``. A draft has the ``type``
   ``autosave_draft`` and no name: its title says whose draft it is.
2. A file with a prompt and no turns is a conversation that has only its prompt. A turn with ``null`` for content is empty.
3. Dates are those of ``metadata``. The user and the name of the file are kept in the settings, under ``imported_from``.
4. A user's turn begins with ``@gemini``, ``@chatgpt`` or ``@all``. The mention is removed from the text; ``meta`` keeps the text
   as typed, and the addressed speakers.
5. Calls without ids, and results under no id or under the tool's name, are paired by name and order: the result gets the
   id of its call.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from multi_llm_chat.archive.document import listed, member, read_ms, text
from multi_llm_chat.history.values import JsonObject, Part, Text, ToolCall, ToolResult, Turn

_DRAFT: Final = "autosave_draft"
_MENTION: Final = re.compile(r"\A\s*@(gemini|chatgpt|all)\b[,:;]?\s*", re.IGNORECASE)
_EVERYBODY: Final = ("gemini", "chatgpt")


def looks_like_first_system(document: object) -> bool:
    """Whether it is a file of the first system."""
    if not isinstance(member(document, "turns"), list):
        return False
    known = ("display_name", "system_prompt", "metadata")
    return member(document, "type") == _DRAFT or any(
        member(document, key) is not None for key in known
    )


def entries_of(document: object) -> list[Any]:
    """The turns as written in the file, with an empty list in place of ``null``."""
    entries = listed(member(document, "turns"))
    return [
        {**entry, "content": []}
        if isinstance(entry, dict) and "content" in entry and entry["content"] is None
        else entry
        for entry in entries
    ]


def title_of(document: object, user: str, file: str) -> str:
    """The title: the name under which it was saved, the owner of a draft, or the name of the file."""
    if member(document, "type") == _DRAFT:
        owner = text(member(document, "user_id")) or user
        return f"Draft of {owner}" if owner else "Draft"
    return text(member(document, "display_name")) or file


def created_at(document: object) -> int:
    """The time at which the conversation began."""
    dates = (member(document, "metadata", key) for key in ("created_at", "updated_at"))
    return next((found for date in dates if (found := read_ms(date)) is not None), 0)


def settings_of(document: object, user: str, file: str) -> JsonObject:
    """The conversation's own settings: its prompt, and its source."""
    prompt = text(member(document, "system_prompt"))
    user = text(member(document, "user_id")) or user
    source = {key: value for key, value in (("user", user), ("file", file)) if value}
    own: JsonObject = {"system_prompt": prompt} if prompt.strip() else {}
    return own | ({"imported_from": source} if source else {})


def settle(turns: Sequence[Turn]) -> list[Turn]:
    """Remove the mentions from the turns, and pair results with their calls."""
    return _paired([_without_mention(turn) for turn in turns])


def _without_mention(turn: Turn) -> Turn:
    first = turn.parts[0] if turn.parts else None
    if turn.role != "user" or not isinstance(first, Text):
        return turn
    found = _MENTION.match(first.content)
    rest = first.content[found.end() :] if found else ""
    if not found or not rest.strip():
        return turn
    name = found[1].lower()
    addressed = list(_EVERYBODY) if name == "all" else [name]
    meta = turn.meta | {"typed": first.content, "addressed": addressed}
    return replace(turn, parts=(Text(rest), *turn.parts[1:]), meta=meta)


def _paired(turns: Sequence[Turn]) -> list[Turn]:
    waiting: list[ToolCall] = []
    settled: list[Turn] = []
    for turn in turns:
        parts: list[Part] = []
        for part in turn.parts:
            if isinstance(part, ToolCall):
                waiting.append(part)
            elif isinstance(part, ToolResult):
                part = _answering(part, waiting)
            parts.append(part)
        settled.append(replace(turn, parts=tuple(parts)))
    return settled


def _answering(result: ToolResult, waiting: list[ToolCall]) -> ToolResult:
    """The result with the id of the call it answers; the call is removed from ``waiting``."""
    call = next((each for each in waiting if each.tool_call_id == result.tool_call_id), None)
    if call is None:
        name = result.name or result.tool_call_id
        call = next((each for each in waiting if each.name == name), None)
    if call is None:
        return result
    waiting.remove(call)
    return replace(result, tool_call_id=call.tool_call_id, name=result.name or call.name)
