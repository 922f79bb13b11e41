"""Reads conversations from a file of any known format.

Rules:
1. The content of a file decides its format, not its name. A zip is opened: ChatGPT and Claude export one, and it may contain
   a folder of the first system.
2. The result has everything that can be read, and one line for each problem; a broken conversation does not affect others.
3. A file of an unknown format raises a ``UsageError`` that names the known ones.
4. Reading is limited: bytes, JSON values (counted before they are decoded), nesting, the number of files in a zip, and the
   ratio of their size to that of the zip. Sizes are counted, not taken from the zip's directory. A zip within a zip is not
   opened.

A plain history (the first system's files, and lists of messages as many programs write them):
5. A list of turns, or an object that has one under ``turns``, ``history``, ``messages`` or ``conversation``.
6. ``history.reader`` reads the turns; one that it cannot read is reported as a problem and left out.
7. A system prompt next to the list becomes the conversation's system prompt.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from multi_llm_chat.archive._chatgpt import looks_like_chatgpt, read_chatgpt
from multi_llm_chat.archive._claude import looks_like_claude, read_claude
from multi_llm_chat.archive._first_system import (
    created_at,
    entries_of,
    looks_like_first_system,
    settings_of,
    settle,
    title_of,
)
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
from multi_llm_chat.data_limits import (
    ARCHIVE_LIMITS,
    MEGABYTE,
    Limits,
    OverLimit,
    check_json,
    in_megabytes,
)
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.reader import read_history, read_turn
from multi_llm_chat.history.values import JsonObject, Turn

# A plain history.

_LISTS: Final = ("turns", "history", "messages", "conversation")
_TITLES: Final = ("title", "display_name", "name")


def looks_like_history(document: object) -> bool:
    """Whether the document is a list of turns, or contains one."""
    turns = _turns_of(document)
    return bool(turns) and any(isinstance(member(turn, "role"), str) for turn in turns)


def read_plain(
    document: object, user: str = "", file: str = ""
) -> tuple[ConversationDocument, list[str]]:
    """Read a plain history as a conversation; return it with the problems that were found.

    Args:
        document: The list of turns, or the object that contains it.
        user: The name of the file's folder.
        file: The name of the file, without its extension.

    Raises:
        UnreadableError: No turn could be read.
    """
    problems: list[str] = []
    turns: list[Turn] = []
    is_first = looks_like_first_system(document)
    entries = entries_of(document) if is_first else _turns_of(document)
    for number, entry in enumerate(entries, 1):
        try:
            turn = read_turn(entry, None, strict=True)
        except UsageError as error:
            problems.append(f"turn {number} is left out: {error}")
            continue
        if turn.unreadable is not None:
            problems.append(f"turn {number} is left out: it is no turn")
            continue
        turns.append(replace(turn, created_at=read_ms(turn.created_at)))
    settings = settings_of(document, user, file) if is_first else _settings(document)
    if not turns and (problems or "system_prompt" not in settings):
        raise UnreadableError("; ".join(problems[:3]) or "it has no turns")
    read: Sequence[Turn] = read_history(turns)
    tree = grow(_in_a_row(settle(read) if is_first else read))
    title = next((title for key in _TITLES if (title := text(member(document, key)))), "")
    conversation = ConversationDocument(
        identifier(member(document, "id")),
        title_of(document, user, file) if is_first else title,
        created_at(document) if is_first else read_ms(member(document, "created_at")) or 0,
        turns=tree.turns,
        heads={MAIN: tree.turns[-1].turn.id or ""} if tree.turns else {},
        settings=settings,
    )
    return conversation, problems


def _turns_of(document: object) -> list[Any]:
    candidates = [listed(document), *(listed(member(document, key)) for key in _LISTS)]
    return next((found for found in candidates if found), list[Any]())


def _in_a_row(turns: Sequence[Turn]) -> list[Node]:
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


# Files of any format.

#: The largest ratio of the unpacked size to the zip's size; text written by people does not compress better. It applies
#: above ``_SMALL`` bytes.
MOST_RATIO: Final = 100
_SMALL: Final = 16 * MEGABYTE
_PIECE: Final = 2**20

Reader: TypeAlias = Callable[[object], tuple[ConversationDocument, list[str]]]

_KINDS: Final[tuple[tuple[Callable[[object], bool], Reader], ...]] = (
    (looks_like_chatgpt, read_chatgpt),
    (looks_like_claude, read_claude),
    (looks_like_history, read_plain),
)


def read_conversations(data: bytes, path: str = "", *, limits: Limits = ARCHIVE_LIMITS) -> Imported:
    """The conversations in a file.

    Args:
        data: The content of the file.
        path: The path of the file: in the first system, a file has the name of its conversation, its folder that of the user.
        limits: How much is read.

    Raises:
        UsageError: The file contains no conversations, or is larger than allowed.
    """
    if data.startswith(b"PK"):
        return _read_each(
            _unpacked(data, limits), lambda path, data: _read_document(data, path, limits)
        )
    return _read_document(data, path, limits)


def read_files(files: Iterable[tuple[str, bytes]], *, limits: Limits = ARCHIVE_LIMITS) -> Imported:
    """The conversations in several files, given by path; a file without conversations is reported as a problem.

    Raises:
        UsageError: There is only one file, and it contains no conversations.
    """
    return _read_each(files, lambda path, data: read_conversations(data, path, limits=limits))


def _read_each(
    files: Iterable[tuple[str, bytes]], read: Callable[[str, bytes], Imported]
) -> Imported:
    found: list[Imported] = []
    refusal: UsageError | None = None
    for path, data in files:
        try:
            found.append(read(path, data))
        except UsageError as error:
            refusal = error
            found.append(Imported(problems=(f"{path}: {error}",)))
    together = _together(found)
    if refusal is not None and len(found) == 1:
        raise refusal
    return together


def _read_document(data: bytes, path: str, limits: Limits) -> Imported:
    try:
        if len(data) > limits.item_bytes:
            raise OverLimit(f"more than {in_megabytes(limits.item_bytes)}")
        check_json(data, values=limits.values, depth=limits.depth)
        document: Any = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except OverLimit as excess:
        raise UsageError(f"The file holds {excess}; it is not read") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UsageError(
            f"The file is not JSON ({error}). Give an export of multi_llm_chat, ChatGPT or Claude, or a "
            "list of messages"
        ) from None
    if member(document, "format") == FORMAT:
        return read_native(document)
    if looks_like_history(document) or looks_like_first_system(document):
        parts = PurePosixPath(path.replace("\\", "/"))
        try:
            conversation, odd = read_plain(document, parts.parent.name, parts.stem)
        except UnreadableError as error:
            return Imported(problems=(f"{path}: {error}" if path else str(error),))
        place = f"{path}: " if path else ""
        return Imported((conversation,), tuple(f"{place}{problem}" for problem in odd))
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


def _unpacked(data: bytes, limits: Limits) -> Iterator[tuple[str, bytes]]:
    """The files in a zip that contain conversations: those of an export, or all files of the first system."""
    most = min(limits.total_bytes, max(_SMALL, MOST_RATIO * len(data)))
    has_any = False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > limits.parts:
                raise UsageError(
                    f"The zip has more than {limits.parts:,} files; unpack it yourself"
                )
            files = [each for each in entries if each.filename.endswith(".json")]
            exported = [
                each
                for each in files
                if each.filename.rpartition("/")[2].startswith("conversations")
            ]
            for entry in exported or files:
                has_any = True
                content = _read_member(archive, entry, most)
                most -= len(content)
                yield entry.filename, content
    except (
        zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, ValueError, OSError,
    ) as error:  # fmt: skip
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"The zip cannot be read: {error}") from None
    if not has_any:
        raise UsageError(
            "The zip holds no conversations: no conversations.json of ChatGPT or Claude, and no file of the first system"
        )


def _read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most: int) -> bytes:
    """Read one file of a zip; count its actual bytes, whatever size the zip claims."""
    pieces: list[bytes] = []
    with archive.open(entry) as file:
        while piece := file.read(_PIECE):
            most -= len(piece)
            if most < 0:
                raise UsageError("The conversations in this zip are too large; unpack it yourself")
            pieces.append(piece)
    return b"".join(pieces)
