"""Any file that holds conversations.

Rules:
1. The content tells what a file is, not its name; a zip is looked into (ChatGPT and Claude send one).
2. What can be read is given, the rest is told; one broken conversation spoils no other.
3. A file that is nothing we know is a ``UsageError`` that says what would be right.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from multi_llm_chat.archive.chatgpt import looks_like_chatgpt, read_chatgpt
from multi_llm_chat.archive.claude import looks_like_claude, read_claude
from multi_llm_chat.archive.document import Conversation
from multi_llm_chat.archive.import_result import Imported, UnreadableError, listed, member
from multi_llm_chat.archive.native import FORMAT, read_native
from multi_llm_chat.archive.plain import looks_like_history, read_plain
from multi_llm_chat.errors import UsageError

#: A file inside of a zip that would unpack to more is not unpacked.
MAX_UNPACKED: Final = 2**30

Reader: TypeAlias = Callable[[object], tuple[Conversation, list[str]]]

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
