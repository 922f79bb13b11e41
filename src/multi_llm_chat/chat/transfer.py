"""Export and import of conversations, each one transaction on the store.

Rules:
1. Exporting, importing into an empty store and exporting again gives the same bytes.
2. An import writes everything that it could read, or nothing; it reports what it could not read.
3. A conversation whose id exists already gets a new id: an import changes no conversation.
"""

from collections.abc import Sequence

from msgspec import Struct

from multi_llm_chat.archive.importer import read_conversations, read_files
from multi_llm_chat.archive.text_export import Format, write_conversations
from multi_llm_chat.store import Transaction, list_conversations, read_document, write_document
from multi_llm_chat.store.transaction import reading

_PAGE = 200


class ImportReport(Struct, frozen=True):
    """The ids of the imported conversations, and the problems of those that could not be read."""

    conversations: tuple[str, ...]
    problems: tuple[str, ...]


@reading
def export_conversations(
    transaction: Transaction, conversations: Sequence[str] | None = None, form: Format = "json"
) -> str:
    """Conversations as one file.

    Args:
        transaction: Within which it happens.
        conversations: Their ids; all of the user's, archived ones too, if None.
        form: ``json`` holds everything and can be imported; ``markdown`` and ``text`` are for people.
    """
    wanted = _all(transaction) if conversations is None else conversations
    return write_conversations((read_document(transaction, each) for each in wanted), form)


def import_conversations(
    transaction: Transaction, data: bytes | Sequence[tuple[str, bytes]]
) -> ImportReport:
    """Import a file: our own, ChatGPT's or Claude's export, the first system's, or a list of messages.

    Args:
        transaction: Within which it happens.
        data: The file, or several by their paths.

    Raises:
        UsageError: The file does not contain conversations.
    """
    imported = read_conversations(data) if isinstance(data, bytes) else read_files(data)
    written = tuple(write_document(transaction, each) for each in imported.conversations)
    return ImportReport(written, imported.problems)


def _all(transaction: Transaction) -> list[str]:
    found: list[str] = []
    after: tuple[int, int] | None = None
    while True:
        listing = list_conversations(transaction, which="both", limit=_PAGE, after=after)
        found += [each.id for each in listing.conversations]
        after = listing.after
        if after is None:
            return found[::-1]  # the oldest first
