"""The longest string that OpenAI's dialects take in any text field (OAI-24)."""

from collections.abc import Sequence

from msgspec.structs import replace

from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import Part, Text, ToolResult, Turn
from multi_llm_chat.protocol.request_draft import RequestDraft

LONGEST_TEXT = 10_485_760

_MARK = "\n[cut: the text is longer than this server takes]"


def cut_long_texts(draft: RequestDraft) -> Sequence[Turn]:
    """The turns with every text and result cut to the limit; what is cut says so, and is noted."""
    turns, characters = draft.turns, draft.characters
    if (characters is not None and characters <= LONGEST_TEXT) or not _has_long_texts(turns):
        return turns
    draft.note("OAI-24", f"cut texts to {LONGEST_TEXT} characters")
    return [replace(turn, parts=tuple(map(_cut_part, turn.parts))) for turn in turns]


def _has_long_texts(turns: Sequence[Turn]) -> bool:
    for turn in turns:  # every part of every request: no call for what is a short string
        for part in turn.parts:
            if type(part) is Text:
                if len(part.content) > LONGEST_TEXT:
                    return True
            elif type(part) is ToolResult and _is_long_value(part.content):
                return True
    return False


def _is_long(part: Part) -> bool:
    if type(part) is Text:
        return len(part.content) > LONGEST_TEXT
    return type(part) is ToolResult and _is_long_value(part.content)


def _is_long_value(content: object) -> bool:
    if isinstance(content, str):
        return len(content) > LONGEST_TEXT
    is_structure = isinstance(content, list | tuple | dict)
    return is_structure and len(split_result(content)[0]) > LONGEST_TEXT


def _cut_part(part: Part) -> Part:
    if not _is_long(part):
        return part
    assert isinstance(part, (Text, ToolResult))
    if isinstance(part, Text):
        return replace(part, content=_cut(part.content))
    return replace(part, content=_cut(split_result(part.content)[0]), extras=None)


def _cut(text: str) -> str:
    return text[: LONGEST_TEXT - len(_MARK)] + _MARK
