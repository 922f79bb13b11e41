"""A history alone: the first system's files, and lists of messages as many programs write them.

Rules:
1. A list of turns, or an object that has one under ``turns``, ``history``, ``messages`` or ``conversation``.
2. Turns are read as liberally as everywhere (``history.reader``); one that cannot be read is told and left out.
3. A system prompt beside the list becomes the conversation's own.
"""

from typing import Any, Final

from msgspec.structs import replace

from multi_llm_chat.archive.document import MAIN, Conversation
from multi_llm_chat.archive.import_result import UnreadableError, identifier, listed, member, text
from multi_llm_chat.archive.times import read_ms
from multi_llm_chat.archive.turn_tree import Node, grow
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.reader import read_history, read_turn
from multi_llm_chat.history.values import JsonObject, Turn

_LISTS: Final = ("turns", "history", "messages", "conversation")
_TITLES: Final = ("title", "display_name", "name")


def looks_like_history(document: object) -> bool:
    """Tell whether it is a list of turns, or has one."""
    turns = _turns_of(document)
    return bool(turns) and any(isinstance(member(turn, "role"), str) for turn in turns)


def read_plain(document: object) -> tuple[Conversation, list[str]]:
    """The conversation, and what was odd about it.

    Raises:
        UnreadableError: Nothing of it could be read.
    """
    problems: list[str] = []
    turns: list[Turn] = []
    for number, entry in enumerate(_turns_of(document), 1):
        try:
            turn = read_turn(entry, None)
        except UsageError as error:
            problems.append(f"turn {number} is left out: {error}")
            continue
        if turn.unreadable is not None:
            problems.append(f"turn {number} is left out: it is no turn")
            continue
        turns.append(replace(turn, created_at=read_ms(turn.created_at)))
    if not turns:
        raise UnreadableError("; ".join(problems[:3]) or "it has no turns")
    tree = grow(_in_a_row(read_history(turns)))
    conversation = Conversation(
        identifier(member(document, "id")),
        next((told for key in _TITLES if (told := text(member(document, key)))), ""),
        read_ms(member(document, "created_at")) or 0,
        turns=tree.turns,
        heads={MAIN: tree.turns[-1].turn.id or ""},
        settings=_settings(document),
    )
    return conversation, problems


def _turns_of(document: object) -> list[Any]:
    candidates = [listed(document), *(listed(member(document, key)) for key in _LISTS)]
    return next((found for found in candidates if found), list[Any]())


def _in_a_row(turns: tuple[Turn, ...]) -> list[Node]:
    nodes: list[Node] = []
    taken: set[str] = set()
    for number, turn in enumerate(turns, 1):
        name = turn.id or f"turn-{number}"
        while name in taken:
            name += f"-{number}"
        taken.add(name)
        nodes.append(Node(name, nodes[-1].id if nodes else None, (turn,)))
    return nodes


def _settings(document: object) -> JsonObject:
    prompt = text(member(document, "system_prompt"))
    return {"system_prompt": prompt} if prompt.strip() else {}
