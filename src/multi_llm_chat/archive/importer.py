"""Any file that holds conversations.

Rules:
1. The content decides what a file is, not its name; a zip is opened (ChatGPT and Claude send one).
2. What can be read is given, and a line about each thing that cannot; one broken conversation spoils no other.
3. A file of no known form is a ``UsageError`` that says what would be right.

A history alone (the first system's files, and lists of messages as many programs write them):
4. A list of turns, or an object that has one under ``turns``, ``history``, ``messages`` or ``conversation``.
5. Turns are read as liberally as everywhere (``history.reader``); one that cannot be read is a problem and left out.
6. A system prompt next to the list becomes the conversation's own.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from multi_llm_chat.archive._chatgpt import looks_like_chatgpt, read_chatgpt
from multi_llm_chat.archive._claude import looks_like_claude, read_claude
from multi_llm_chat.archive._native import FORMAT, read_native
from multi_llm_chat.archive._turn_tree import Node, grow
from multi_llm_chat.archive.document import (
    MAIN,
    ConversationDocument,
    Imported,
    UnreadableError,
    identifier,
    listed,
    member,
    read_ms,
    text,
)
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.reader import read_history, read_turn
from multi_llm_chat.history.values import JsonObject, Turn

# A history alone.

_LISTS: Final = ("turns", "history", "messages", "conversation")
_TITLES: Final = ("title", "display_name", "name")


def looks_like_history(document: object) -> bool:
    """Whether it is a list of turns, or has one."""
    turns = _turns_of(document)
    return bool(turns) and any(isinstance(member(turn, "role"), str) for turn in turns)


def read_plain(document: object) -> tuple[ConversationDocument, list[str]]:
    """The conversation, and what was odd about it.

    Raises:
        UnreadableError: Nothing of it could be read.
    """
    problems: list[str] = []
    turns: list[Turn] = []
    for number, entry in enumerate(_turns_of(document), 1):
        try:
            turn = read_turn(entry, None, strict=True)
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
    conversation = ConversationDocument(
        identifier(member(document, "id")),
        next((title for key in _TITLES if (title := text(member(document, key)))), ""),
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


# Any file.

#: A file inside of a zip that would unpack to more is not unpacked.
MAX_UNPACKED: Final = 2**30

Reader: TypeAlias = Callable[[object], tuple[ConversationDocument, list[str]]]

_KINDS: Final[tuple[tuple[Callable[[object], bool], Reader], ...]] = (
    (looks_like_chatgpt, read_chatgpt),
    (looks_like_claude, read_claude),
    (looks_like_history, read_plain),
)


def read_conversations(data: bytes) -> Imported:
    """The conversations in a file.

    Raises:
        UsageError: It is no file of conversations.
    """
    if data.startswith(b"PK"):
        return _together(_read_document(content) for content in _unpacked(data))
    return _read_document(data)


def _read_document(data: bytes) -> Imported:
    try:
        document: Any = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(
            f"The file is not JSON ({error}). Give an export of multi_llm_chat, ChatGPT or Claude, or a "
            "list of messages"
        ) from None
    if member(document, "format") == FORMAT:
        return read_native(document)
    if looks_like_history(document):
        return _together([_read_one(document, "")])
    entries = listed(document) or listed(member(document, "conversations")) or [document]
    if not any(recognises(entry) for entry in entries for recognises, _ in _KINDS):
        raise UsageError(
            "The file holds no conversations that are known here: give an export of multi_llm_chat, "
            "ChatGPT or Claude, or a list of messages"
        )
    return _together(
        _read_one(entry, f"conversation {number}: ") for number, entry in enumerate(entries, 1)
    )


def _read_one(entry: object, place: str) -> Imported:
    reader = next((read for recognises, read in _KINDS if recognises(entry)), None)
    if reader is None:
        return Imported(problems=(f"{place}it is no conversation",))
    try:
        conversation, odd = reader(entry)
    except UnreadableError as error:
        return Imported(problems=(f"{place}{error}",))
    return Imported((conversation,), tuple(f"{place}{problem}" for problem in odd))


def _together(found: Iterable[Imported]) -> Imported:
    all_found = list(found)
    return Imported(
        tuple(conversation for each in all_found for conversation in each.conversations),
        tuple(problem for each in all_found for problem in each.problems),
    )


def _unpacked(data: bytes) -> list[bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            wanted = [
                entry
                for entry in archive.infolist()
                if entry.filename.rpartition("/")[2].startswith("conversations")
                and entry.filename.endswith(".json")
            ]
            if sum(entry.file_size for entry in wanted) > MAX_UNPACKED:
                raise UsageError("The conversations in this zip are too large; unpack it yourself")
            contents = [archive.read(entry) for entry in wanted]
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
        raise UsageError(f"The zip cannot be read: {error}") from None
    if not contents:
        raise UsageError(
            "The zip holds no conversations.json; is it an export of ChatGPT or Claude?"
        )
    return contents
