"""Exports conversations for people to read: Markdown and plain text.

Rules:
1. The shown branch is written from its beginning to its end; no text of a person is left out.
2. Thinking is left out; calls and results are short but complete.
3. Text cannot break the format: code fences are longer than any fence inside.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias, assert_never

from msgspec import Struct

from multi_llm_chat.archive._native import write_native
from multi_llm_chat.archive.document import MAIN, ConversationDocument, write_time
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import (
    Media,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

Format: TypeAlias = Literal["json", "markdown", "text"]

_FENCE: Final = re.compile(r"`{3,}")


def write_conversations(conversations: Iterable[ConversationDocument], form: Format) -> str:
    """The conversations as the text of one file."""
    return _WRITERS[form](list(conversations))


def shown_turns(conversation: ConversationDocument) -> list[Turn]:
    """The turns of the shown branch, oldest first."""
    placed = {each.turn.id: each for each in conversation.turns}
    turns: list[Turn] = []
    at: str | None = conversation.heads.get(MAIN)
    while at is not None and at in placed and len(turns) <= len(placed):
        turns.append(placed[at].turn)
        at = placed[at].parent
    return turns[::-1]


class _Style(Struct, frozen=True):
    """The functions with which one format writes the parts of a conversation."""

    title: Callable[[str], str]
    turn: Callable[[Turn, list[str]], str]
    call: Callable[[ToolCall, str], str]
    result: Callable[[ToolResult, str], str]
    separator: str


def _written(conversations: list[ConversationDocument], style: _Style) -> str:
    return style.separator.join(_one(each, style) for each in conversations) + "\n"


def _one(conversation: ConversationDocument, style: _Style) -> str:
    blocks = [style.title(_one_line(conversation.title))]
    blocks += [
        style.turn(turn, [_part(part, style) for part in turn.parts])
        for turn in shown_turns(conversation)
    ]
    return "\n\n".join(filter(None, blocks))


def _part(part: Part, style: _Style) -> str:
    match part:
        case Text():
            return part.content
        case Thinking():
            return ""
        case ToolCall():
            return style.call(part, compact_json(part.arguments))
        case ToolResult():
            words, media = split_result(part.content)
            return style.result(part, "\n".join([words, *map(_media, media)]).strip())
        case Media():
            return _media(part)
        case Native():
            return part.text
        case _:
            assert_never(part)


def _section(turn: Turn, parts: list[str]) -> str:
    time = write_time(turn.created_at)
    heading = f"## {_one_line(turn.role)}" + (f" · {time}" if time else "")
    return "\n\n".join([heading, *filter(None, parts)])


def _failed(result: ToolResult) -> str:
    return " failed" if result.is_error else ""


_MARKDOWN: Final = _Style(
    title=lambda title: f"# {title or 'Conversation'}",
    turn=_section,
    call=lambda call, text: f"**{_one_line(call.name)}**\n\n{_fenced(text, 'json')}",
    result=lambda each, text: f"**{_one_line(each.name)}**{_failed(each)}\n\n{_fenced(text)}",
    separator="\n\n---\n\n",
)

_PLAIN: Final = _Style(
    title=lambda title: title,
    turn=lambda turn, parts: f"{_one_line(turn.role)}: " + "\n".join(filter(None, parts)),
    call=lambda call, text: f"[{call.name} {text}]",
    result=lambda each, text: f"[{each.name}{_failed(each)}: {text}]",
    separator="\n\n" + "=" * 72 + "\n\n",
)


def _media(part: Media) -> str:
    return f"[{part.name or part.mime}{f': {part.url}' if part.url else ''}]"


def _fenced(content: str, language: str = "") -> str:
    longest = max(map(len, _FENCE.findall(content)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _one_line(words: str) -> str:
    return " ".join(words.split())


_WRITERS: Final[dict[Format, Callable[[list[ConversationDocument]], str]]] = {
    "json": write_native,
    "markdown": lambda conversations: _written(conversations, _MARKDOWN),
    "text": lambda conversations: _written(conversations, _PLAIN),
}
