"""Reads ChatGPT's export: ``conversations.json``, in which each conversation is a tree called ``mapping``.

Rules:
1. ``current_node`` is the end of the shown branch; the other branches are kept.
2. A message whose ``recipient`` is not ``all`` is a tool call; a message with the role ``tool``
   is the result of the nearest call above it.
3. Thoughts become thinking without a signature: shown, never sent.
4. Hidden messages (custom instructions, empty system texts) are skipped; every message with text is kept.
"""

from typing import Any, Final

import msgspec

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
from multi_llm_chat.history.values import (
    JsonObject,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)

SPEAKER: Final = "chatgpt"
_ROLES: Final = {"user": "user", "assistant": SPEAKER, "system": "system", "tool": "tool"}


def looks_like_chatgpt(entry: object) -> bool:
    """Whether an entry of a list is a conversation of this export."""
    return isinstance(member(entry, "mapping"), dict)


def read_chatgpt(entry: object) -> tuple[ConversationDocument, list[str]]:
    """Read one conversation; return it with the problems that were found.

    Raises:
        UnreadableError: The entry is not a conversation.
    """
    mapping = as_object(member(entry, "mapping"))
    if mapping is None:
        raise UnreadableError("it has no messages")
    messages = _Messages(mapping)
    tree = grow(messages.nodes())
    end = tree.last.get(text(member(entry, "current_node")))
    if end is None and tree.turns:
        end = tree.turns[-1].turn.id
    conversation = ConversationDocument(
        identifier(member(entry, "conversation_id"), member(entry, "id")),
        text(member(entry, "title")),
        read_ms(member(entry, "create_time")) or 0,
        turns=tree.turns,
        heads={MAIN: end} if end else {},
    )
    return conversation, [*messages.problems, *tree.problems]


class _Messages:
    """The nodes of one conversation."""

    def __init__(self, mapping: JsonObject) -> None:
        self._mapping = mapping
        self.problems: list[str] = []

    def nodes(self) -> list[Node]:
        """All nodes; a node without text has no turns."""
        found: list[Node] = []
        for name, node in self._mapping.items():
            parent = text(member(node, "parent")) or None
            found.append(Node(name, parent, self._turns(name, node)))
        return found

    def _turns(self, name: str, node: object) -> tuple[Turn, ...]:
        message = member(node, "message")
        if message is None:
            return ()
        role = _ROLES.get(text(member(message, "author", "role")))
        if role is None:
            self.problems.append(f"the message {name!r} has no known author and is left out")
            return ()
        if member(message, "metadata", "is_visually_hidden_from_conversation") is True:
            return ()
        parts = self._parts(name, role, message, node)
        if not parts:
            return ()
        return (
            Turn(
                role,
                parts,
                created_at=read_ms(member(message, "create_time")),
                model=text(member(message, "metadata", "model_slug")) or None,
                meta={"speaker": SPEAKER} if role == "tool" else {},
            ),
        )

    def _parts(self, name: str, role: str, message: object, node: object) -> tuple[Part, ...]:
        content = member(message, "content")
        words = _words(content)
        recipient = text(member(message, "recipient")) or "all"
        if member(content, "content_type") in ("thoughts", "reasoning_recap"):
            return (Thinking(words),) if words.strip() else ()
        if role == SPEAKER and recipient != "all":
            arguments = _arguments(words)
            return (ToolCall(recipient, arguments, name),)
        if role == "tool":
            tool = text(member(message, "author", "name")) or "tool"
            return (ToolResult(tool, words, self._call_above(node, tool)),)
        return (Text(words),) if words.strip() else ()

    def _call_above(self, node: object, tool: str) -> str:
        """The id of the call that a tool's message answers: the nearest call of that tool above it."""
        seen: set[str] = set()
        name = text(member(node, "parent"))
        while name and name not in seen:
            seen.add(name)
            above = self._mapping.get(name)
            recipient = text(member(above, "message", "recipient"))
            if recipient not in ("", "all") and recipient.split(".")[0] == tool.split(".")[0]:
                return name
            if member(above, "message", "author", "role") == "user":
                return ""
            name = text(member(above, "parent"))
        return ""


def _arguments(words: str) -> JsonObject:
    try:
        return as_object(msgspec.json.decode(words)) or {"input": words}
    except (msgspec.DecodeError, UnicodeError):
        return {"input": words}


def _words(content: object) -> str:
    """The text of any kind of content, with a note for each image or file."""
    kind = text(member(content, "content_type"))
    if kind == "thoughts":
        return joined(
            text(member(thought, key))
            for thought in listed(member(content, "thoughts"))
            for key in ("summary", "content")
        )
    pieces = [_piece(piece) for piece in listed(member(content, "parts"))]
    pieces += [text(member(content, key)) for key in ("text", "result", "content", "url", "title")]
    return joined(dict.fromkeys(pieces)) if kind != "text" else "\n".join(filter(None, pieces))


def _piece(piece: Any) -> str:
    if isinstance(piece, str):
        return piece
    kind = text(member(piece, "content_type"))
    words = text(member(piece, "text"))  # the transcript of an audio piece
    if words:
        return words
    where = text(member(piece, "asset_pointer")) or text(member(piece, "name"))
    label = kind.removesuffix("_asset_pointer").replace("_", " ") or "file"
    return f"[{label}: {where}]" if where else ""
