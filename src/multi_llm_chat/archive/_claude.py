"""Reads Claude's export: ``conversations.json``, in which each conversation is a list called ``chat_messages``.

Rules:
1. Messages follow each other, unless they name their parents (``parent_message_uuid``): then they are a tree.
2. A message of the export contains calls and results; it is split into the original turns: call, result, text.
3. The texts of attachments become part of the user's text; of other files, only the name is noted.
4. Thinking has no signature in an export: it is shown, never sent.
"""

from collections.abc import Iterable
from typing import Any, Final

from multi_llm_chat.archive._turn_tree import Node, grow
from multi_llm_chat.archive.document import (
    MAIN,
    ConversationDocument,
    UnreadableError,
    identifier,
    joined,
    listed,
    member,
    read_ms,
    text,
)
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.values import Part, Text, Thinking, ToolCall, ToolResult, Turn

SPEAKER: Final = "claude"
_ROLES: Final = {"human": "user", "user": "user", "assistant": SPEAKER}


def looks_like_claude(entry: object) -> bool:
    """Whether an entry of a list is a conversation of this export."""
    return isinstance(member(entry, "chat_messages"), list)


def read_claude(entry: object) -> tuple[ConversationDocument, list[str]]:
    """Read one conversation; return it with the problems that were found.

    Raises:
        UnreadableError: The entry is not a conversation.
    """
    if not looks_like_claude(entry):
        raise UnreadableError("it has no messages")
    problems: list[str] = []
    nodes = list(_nodes(listed(member(entry, "chat_messages")), problems))
    tree = grow(nodes)
    end = tree.last.get(text(member(entry, "current_leaf_message_uuid")))
    if end is None and tree.turns:
        end = tree.turns[-1].turn.id
    conversation = ConversationDocument(
        identifier(member(entry, "uuid"), member(entry, "id")),
        text(member(entry, "name")),
        read_ms(member(entry, "created_at")) or 0,
        turns=tree.turns,
        heads={MAIN: end} if end else {},
    )
    return conversation, [*problems, *tree.problems]


def _nodes(messages: list[Any], problems: list[str]) -> Iterable[Node]:
    known = {identifier(member(message, "uuid")) for message in messages}
    above: str | None = None
    for number, message in enumerate(messages, 1):
        role = _ROLES.get(text(member(message, "sender")))
        if role is None:
            problems.append(f"message {number} has no known sender and is left out")
            continue
        name = identifier(member(message, "uuid")) or f"message-{number}"
        named_parent = text(member(message, "parent_message_uuid"))
        # The parent of the first message is a placeholder id that means "none".
        parent = named_parent if named_parent in known else (None if named_parent else above)
        yield Node(name, parent, _turns(name, role, message))
        above = name


def _turns(name: str, role: str, message: object) -> tuple[Turn, ...]:
    created_at = read_ms(member(message, "created_at"))
    parts = list(_parts(name, message))
    if role == "user":
        words = _attached(message)
        return (Turn(role, (*parts, *words), created_at=created_at),) if parts or words else ()
    turns: list[Turn] = []
    for group, is_tool in _grouped(parts):
        meta = {"speaker": SPEAKER} if is_tool else {}
        turns.append(Turn("tool" if is_tool else role, group, created_at=created_at, meta=meta))
    return tuple(turns)


def _grouped(parts: Iterable[Part]) -> Iterable[tuple[tuple[Part, ...], bool]]:
    """Split the parts into groups that contain only results or none; yield each with whether it contains results."""
    group: list[Part] = []
    in_results = False
    for part in parts:
        is_result = isinstance(part, ToolResult)
        if group and is_result != in_results:
            yield tuple(group), in_results
            group = []
        in_results = is_result
        group.append(part)
    if group:
        yield tuple(group), in_results


def _parts(name: str, message: object) -> Iterable[Part]:
    blocks = listed(member(message, "content"))
    spoken = False
    waiting: list[tuple[str, str]] = []
    for number, block in enumerate(blocks):
        match member(block, "type"):
            case "text":
                words = text(member(block, "text"))
                spoken = True
                if words.strip():
                    yield Text(words)
            case "thinking":
                yield Thinking(text(member(block, "thinking")))
            case "tool_use":
                call_id = identifier(member(block, "id")) or f"{name}-{number}"
                tool = text(member(block, "name")) or "tool"
                waiting.append((call_id, tool))
                yield ToolCall(tool, as_object(member(block, "input")) or {}, call_id)
            case "tool_result":
                yield _result(block, waiting)
            case _:
                pass
    words = text(member(message, "text"))
    if not spoken and words.strip():
        yield Text(words)


def _result(block: object, waiting: list[tuple[str, str]]) -> ToolResult:
    """Read a result; if the export does not name its call, it belongs to the first call without a result."""
    named_call = identifier(member(block, "tool_use_id"))
    name = text(member(block, "name"))
    found = next(
        (
            call
            for call in waiting
            if (call[0] == named_call if named_call else name in ("", call[1]))
        ),
        None,
    )
    if found is not None:
        waiting.remove(found)
    call_id, tool = found or (named_call, name or "tool")
    content = member(block, "content")
    words = (
        content
        if isinstance(content, str)
        else joined(text(member(piece, "text")) for piece in listed(content))
    )
    return ToolResult(tool, words, call_id, is_error=member(block, "is_error") is True)


def _attached(message: object) -> tuple[Part, ...]:
    texts = [
        f"[Attachment: {text(member(item, 'file_name')) or 'file'}]\n{words}"
        for item in listed(member(message, "attachments"))
        if (words := text(member(item, "extracted_content"))).strip()
    ]
    names = [text(member(item, "file_name")) for item in listed(member(message, "files"))]
    texts += [f"[File: {name}]" for name in names if name]
    return tuple(Text(words) for words in texts)
