"""Clean every part, and split turns so that each contains parts of one kind.

Rules:
1. Afterwards a ``tool`` turn contains only results, a ``user`` or ``system`` turn only text and media,
   and a model's turn anything but results.
2. No text is blank, JSON parsers accept every string and number, and no turn is empty.
3. Arguments are an object; if a model wrote anything else, its text is kept under ``_raw``.
4. A turn that already follows these rules is passed on as it is.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, TypeAlias

from msgspec.structs import replace

from multi_llm_chat.history.json_values import as_object, clean_json, clean_text, compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import (
    RESERVED_ROLES,
    JsonObject,
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from multi_llm_chat.repair.policy import Note

EMPTY_RESULT = "(no output)"

#: The key for the unusable text of a call's arguments: every server requires an object.
RAW_ARGUMENTS = "_raw"


#: A turn, and the index of the history's turn it came from (None if it was added). A plain tuple for
#: speed: every step of the repair of a long history creates thousands of them.
Placed: TypeAlias = tuple[int | None, Turn]


def sort_turns(
    turns: Iterable[Turn], notes: list[Note], *, keeps_blanks: bool = False
) -> list[Placed]:
    """Clean and sort all turns of a history; with ``keeps_blanks``, blank texts next to native items are kept (ANT-06)."""
    placed: list[Placed] = []
    for index, turn in enumerate(turns):
        parts = turn.parts
        if len(parts) == 1 and turn.role != "tool" and turn.unreadable is None:
            part = parts[0]
            if type(part) is Text:
                text = part.content
                if text and not text.isspace() and clean_text(text) is text:
                    placed.append((index, turn))
                    continue
        blanks = keeps_blanks and turn.role not in RESERVED_ROLES and _has_native(turn)
        placed.extend(_sort_turn(index, turn, notes, blanks=blanks))
    return placed


def with_parts(turn: Turn, parts: Iterable[Part], role: str | None = None) -> Turn:
    """The turn with other parts (and another role)."""
    return Turn(
        turn.role if role is None else role,
        tuple(parts),
        turn.id,
        turn.created_at,
        turn.model,
        turn.meta,
    )


def _has_native(turn: Turn) -> bool:
    return any(type(part) is Native for part in turn.parts)


def _is_blank(part: Part) -> bool:
    return type(part) is Text and not part.content.strip()


def _sort_turn(index: int, turn: Turn, notes: list[Note], *, blanks: bool = False) -> list[Placed]:
    if turn.unreadable is not None:
        notes.append(
            Note("OAI-10", index, f"left out a turn that cannot be read: {turn.unreadable}")
        )
        return []
    role = turn.role
    cleaned: list[Part] = []
    results, same = 0, True
    for part in turn.parts:
        is_kept = blanks and _is_blank(part)
        new = part if is_kept else CLEANERS[type(part)](part, role, index, notes)
        if new is not part:
            same = False
        if new is not None:
            cleaned.append(new)
            results += type(new) is ToolResult
    if not cleaned:
        notes.append(Note("ANT-07", index, f"left out an empty {role} turn"))
        return []
    if results == (len(cleaned) if role == "tool" else 0):
        return [(index, turn if same else with_parts(turn, cleaned))]
    notes.append(Note("GEM-10", index, "gave tool results a turn of their own"))
    words_role = "user" if role == "tool" else role
    return [
        (index, with_parts(turn, parts, "tool" if is_result else words_role))
        for is_result, parts in groupby(cleaned, key=lambda part: type(part) is ToolResult)
    ]


def _clean_media(part: Media, _role: str, _index: int, _notes: list[Note]) -> Media:
    """Clean the strings that describe the media; the encoder checks the data itself."""
    mime = clean_text(part.mime)
    url, name = (clean_text(text) if text else text for text in (part.url, part.name))
    if mime == part.mime and url == part.url and name == part.name:
        return part
    return replace(part, mime=mime, url=url, name=name)


def _clean_words(part: Text, role: str, index: int, notes: list[Note]) -> Part | None:
    text = clean_text(part.content)
    if text is not part.content and text != part.content:
        notes.append(Note("ANT-22", index, "replaced characters that are not valid in JSON"))
    if not text or text.isspace():
        notes.append(Note("ANT-06", index, "left out a blank text"))
        return None
    if role == "tool":
        return ToolResult(name="", content=text)
    return part if text == part.content else Text(text)


def _clean_thinking(part: Thinking, role: str, index: int, notes: list[Note]) -> Part | None:
    if role in ("user", "system", "tool"):
        notes.append(Note("ANT-14", index, f"left out thinking in a {role} turn"))
        return None
    content = clean_text(part.content)
    opaque = clean_json(part.opaque)
    if content == part.content and opaque is part.opaque:
        return part
    # A signature covers the exact text: a block whose text changes cannot be replayed.
    notes.append(Note("ANT-11", index, "left out thinking that is not valid JSON text"))
    return None


def _clean_call(part: ToolCall, role: str, index: int, notes: list[Note]) -> Part:
    name = clean_text(part.name)
    arguments = _usable_arguments(part, index, notes)
    if role in ("user", "system", "tool"):
        notes.append(Note("OAI-18", index, f"wrote a tool call in a {role} turn as text"))
        return Text(f"[call of {name or 'a tool'} {compact_json(arguments)}]")
    identifier = clean_text(part.tool_call_id)
    if arguments is part.arguments and name == part.name and identifier == part.tool_call_id:
        return part
    raw = part.raw_arguments if arguments is part.arguments else None
    return ToolCall(name, arguments, identifier, raw, extras=part.extras)


def _usable_arguments(part: ToolCall, index: int, notes: list[Note]) -> JsonObject:
    if part.error is not None:
        notes.append(Note("VLL-01", index, f"sent the unusable arguments of {part.name} as text"))
        raw = clean_text(part.raw_arguments or "")
        return {RAW_ARGUMENTS: raw} if raw else {}
    arguments = clean_json(part.arguments)
    if arguments is part.arguments:
        return part.arguments
    notes.append(Note("ANT-22", index, f"cleaned the arguments of {part.name}"))
    return as_object(arguments) or {}


def _clean_result(part: ToolResult, _role: str, index: int, notes: list[Note]) -> Part:
    content = clean_json(part.content)
    if _says_nothing(content):
        notes.append(Note("ANT-26", index, "said in words that a tool had no output"))
        content = EMPTY_RESULT
    elif content is not part.content and content != part.content:
        notes.append(Note("ANT-22", index, "cleaned a tool result"))
    name = clean_text(part.name)
    identifier = clean_text(part.tool_call_id)
    if content is part.content and name == part.name and identifier == part.tool_call_id:
        return part
    return ToolResult(name, content, identifier, part.is_error, part.synthetic, part.extras)


def _says_nothing(content: Any) -> bool:
    if isinstance(content, str):
        return not content or content.isspace()
    if not content:
        return content is None or content in ({}, [])
    if not isinstance(content, list):
        return False
    text, media = split_result(content)
    return not media and not text.strip()


def _clean_native(part: Native, role: str, index: int, notes: list[Note]) -> Part | None:
    """The item unchanged; as text if its JSON has to be changed, because its provider would not accept a changed item."""
    raw, text = clean_json(part.raw), clean_text(part.text)
    if raw is part.raw and text == part.text and role != "tool":
        return part
    notes.append(
        Note("ANT-22", index, f"wrote an item that is not valid JSON as text: {part.kind}")
    )
    return _clean_words(Text(f"[{text or part.kind}]"), role, index, notes)


#: Functions that return the part as it may be sent, None if it may not be sent, or the same object if nothing changes.
CLEANERS: dict[type[Part], Callable[[Any, str, int, list[Note]], Part | None]] = {
    Text: _clean_words,
    ToolCall: _clean_call,
    ToolResult: _clean_result,
    Thinking: _clean_thinking,
    Media: _clean_media,
    Native: _clean_native,
}
