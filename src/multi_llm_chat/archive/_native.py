"""Our own file format: writes and reads everything that a conversation has.

Rules:
1. A file that is read and written again is the same, byte for byte.
2. A turn has the form of every history (``history.writer``), with ``parent`` added.
3. A conversation that cannot be read is reported and left out. So is an unreadable turn; its children move up to its parent.
4. A file of a newer version is refused.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from multi_llm_chat.archive._turn_tree import Node, grow
from multi_llm_chat.archive.document import (
    MAIN,
    ConversationDocument,
    Imported,
    TreeTurn,
    UnreadableError,
    identifier,
    listed,
    member,
    text,
)
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.json_values import MAX_DEPTH, as_object, clean_json, compact_json
from multi_llm_chat.history.reader import read_turn
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.history.writer import write_turn

FORMAT: Final = "multi_llm_chat"
VERSION: Final = 1


def write_native(conversations: Iterable[ConversationDocument]) -> str:
    """The conversations as a JSON file."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "conversations": [_write(conversation) for conversation in conversations],
    }
    # NaN and lone surrogates are replaced, because JSON does not allow them; the limit of the depth is doubled for a file.
    return msgspec.json.format(compact_json(clean_json(document, -MAX_DEPTH)), indent=1) + "\n"


def read_native(document: object) -> Imported:
    """The conversations of a file in our own format.

    Raises:
        UsageError: A newer version has written the file.
    """
    version = member(document, "version")
    if not isinstance(version, int) or version > VERSION:
        raise UsageError(
            f"This file has version {version!r} and needs a newer multi_llm_chat; update and try again"
        )
    conversations: list[ConversationDocument] = []
    problems: list[str] = []
    for number, entry in enumerate(listed(member(document, "conversations")), 1):
        try:
            conversation, odd = _read(entry)
        except UnreadableError as error:
            problems.append(f"conversation {number}: {error}")
            continue
        conversations.append(conversation)
        problems += [f"conversation {number}: {problem}" for problem in odd]
    return Imported(tuple(conversations), tuple(problems))


def _write(conversation: ConversationDocument) -> JsonObject:
    written: JsonObject = {
        "id": conversation.id,
        "title": conversation.title,
        "created_ms": conversation.created_ms,
    }
    if conversation.archived_ms is not None:
        written["archived_ms"] = conversation.archived_ms
    if conversation.settings:
        written["settings"] = conversation.settings
    written["heads"] = conversation.heads
    written["turns"] = [_write_turn(placed) for placed in conversation.turns]
    return written


def _write_turn(placed: TreeTurn) -> JsonObject:
    run = {} if placed.run is None else {"run": placed.run}
    return {"parent": placed.parent, **run, **write_turn(placed.turn)}


def _read(entry: object) -> tuple[ConversationDocument, list[str]]:
    name = identifier(member(entry, "id"))
    if not name and not listed(member(entry, "turns")):
        raise UnreadableError("it is no conversation, or has neither an id nor turns")
    problems: list[str] = []
    nodes: list[Node] = []
    for number, written in enumerate(listed(member(entry, "turns")), 1):
        try:
            nodes.append(_read_node(written))
        except (UsageError, UnreadableError) as error:
            problems.append(f"turn {number} is left out: {error}")
            nodes += _gap(written)
    tree = grow(nodes)
    heads = {branch: tree.last.get(text(turn)) for branch, turn in _heads(entry).items()}
    kept = {branch: turn for branch, turn in heads.items() if turn is not None}
    if tree.turns and MAIN not in kept:
        kept[MAIN] = tree.turns[-1].turn.id or ""
    archived, created = member(entry, "archived_ms"), member(entry, "created_ms")
    conversation = ConversationDocument(
        name,
        text(member(entry, "title")),
        created if isinstance(created, int) else 0,
        archived if isinstance(archived, int) else None,
        tree.turns,
        kept,
        as_object(member(entry, "settings")) or {},
    )
    return conversation, [*problems, *tree.problems]


def _heads(entry: object) -> dict[str, Any]:
    return as_object(member(entry, "heads")) or {}


def _read_node(written: object) -> Node:
    name = identifier(member(written, "id"))
    if not name:
        raise UnreadableError("it has no id")
    turn = read_turn(written, None, strict=True)
    turn = replace(turn, id=name, created_at=member(written, "created_at"))
    parent, run = identifier(member(written, "parent")), identifier(member(written, "run"))
    return Node(name, parent or None, (turn,), run or None)


def _gap(written: object) -> list[Node]:
    """A node without a turn in place of an unreadable turn, so that its children are not lost."""
    name = identifier(member(written, "id"))
    return [Node(name, identifier(member(written, "parent")) or None)] if name else []
