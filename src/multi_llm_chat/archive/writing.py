"""Conversations for people to read: Markdown and plain text.

Rules:
1. The branch that is shown is written, from its beginning to its end; nothing a person said is left out.
2. Thinking is left out unless it is asked for; calls and results are short but whole.
3. What somebody wrote cannot break out of its place: fences are longer than any fence inside.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias, assert_never

from multi_llm_chat.archive.document import MAIN, Conversation
from multi_llm_chat.archive.native import write_native
from multi_llm_chat.archive.times import write_time
from multi_llm_chat.history.json_values import compact_json
from multi_llm_chat.history.result_parts import split_result
from multi_llm_chat.history.values import Media, Part, Text, Thinking, ToolCall, ToolResult, Turn

Format: TypeAlias = Literal["json", "markdown", "text"]

_FENCE: Final = re.compile(r"`{3,}")


def write_conversations(conversations: Iterable[Conversation], form: Format) -> str:
    """The conversations in one file."""
    return _WRITERS[form](list(conversations))


def shown_turns(conversation: Conversation) -> list[Turn]:
    """The turns of the branch that is shown, oldest first."""
    placed = {each.turn.id: each for each in conversation.turns}
    turns: list[Turn] = []
    at: str | None = conversation.heads.get(MAIN)
    while at is not None and at in placed and len(turns) <= len(placed):
        turns.append(placed[at].turn)
        at = placed[at].parent
    return turns[::-1]


def _markdown(conversations: list[Conversation]) -> str:
    return "\n\n---\n\n".join(map(_markdown_of, conversations)) + "\n"


def _markdown_of(conversation: Conversation) -> str:
    blocks = [f"# {_one_line(conversation.title) or 'Conversation'}"]
    for turn in shown_turns(conversation):
        time = write_time(turn.created_at)
        heading = f"## {_one_line(turn.role)}" + (f" · {time}" if time else "")
        blocks.append("\n\n".join([heading, *filter(None, map(_markdown_part, turn.parts))]))
    return "\n\n".join(blocks)


def _markdown_part(part: Part) -> str:
    match part:
        case Text():
            return part.content
        case Thinking():
            return ""
        case ToolCall():
            return f"**{_one_line(part.name)}**\n\n{_fenced(compact_json(part.arguments), 'json')}"
        case ToolResult():
            words, media = split_result(part.content)
            failed = " failed" if part.is_error else ""
            told = "\n".join([words, *map(_media, media)]).strip()
            return f"**{_one_line(part.name)}**{failed}\n\n{_fenced(told)}"
        case Media():
            return _media(part)
        case _:
            assert_never(part)


def _plain(conversations: list[Conversation]) -> str:
    return ("\n\n" + "=" * 72 + "\n\n").join(map(_plain_of, conversations)) + "\n"


def _plain_of(conversation: Conversation) -> str:
    title = _one_line(conversation.title)
    blocks = [title] if title else []
    for turn in shown_turns(conversation):
        said = "\n".join(filter(None, map(_plain_part, turn.parts)))
        blocks.append(f"{_one_line(turn.role)}: {said}")
    return "\n\n".join(blocks)


def _plain_part(part: Part) -> str:
    match part:
        case Text():
            return part.content
        case Thinking():
            return ""
        case ToolCall():
            return f"[{part.name} {compact_json(part.arguments)}]"
        case ToolResult():
            words, media = split_result(part.content)
            failed = " failed" if part.is_error else ""
            return "\n".join([f"[{part.name}{failed}: {words}]", *map(_media, media)])
        case Media():
            return _media(part)
        case _:
            assert_never(part)


def _media(part: Media) -> str:
    return f"[{part.name or part.mime}{f': {part.url}' if part.url else ''}]"


def _fenced(content: str, language: str = "") -> str:
    longest = max(map(len, _FENCE.findall(content)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{content}\n{fence}"


def _one_line(words: str) -> str:
    return " ".join(words.split())


_WRITERS: Final[dict[Format, Callable[[list[Conversation]], str]]] = {
    "json": write_native,
    "markdown": _markdown,
    "text": _plain,
}
