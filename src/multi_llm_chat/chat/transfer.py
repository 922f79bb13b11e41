"""Export and import of conversations.

Rules:
1. Exporting, importing into an empty store and exporting again gives the same bytes.
2. ``import_conversations`` is one transaction: it writes everything that it could read, or nothing. ``import_in_batches`` reads in a thread
   and writes in many short transactions, for servers with other users. Both report the conversations that they could not read.
3. A conversation whose id exists already gets a new id: an import changes no conversation.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from multi_llm_chat.archive.document import ConversationDocument, Imported
from multi_llm_chat.archive.importer import read_conversations, read_files
from multi_llm_chat.archive.text_export import Format, write_conversations
from multi_llm_chat.errors import StoreError
from multi_llm_chat.store import (
    Store,
    Transaction,
    begin_document,
    continue_document,
    finish_document,
    list_conversations,
    read_document,
    write_document,
)
from multi_llm_chat.store.transaction import reading

_PAGE = 200

#: Turns that one transaction of an import writes: a few milliseconds, the longest that another user waits.
_BATCH = 20


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
        transaction: The transaction.
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
        transaction: The transaction.
        data: The file, or several by their paths.

    Raises:
        UsageError: The file does not contain conversations.
    """
    imported = _read(data)
    written = tuple(write_document(transaction, each) for each in imported.conversations)
    return ImportReport(written, imported.problems)


async def import_in_batches(
    store: Store, data: bytes | Sequence[tuple[str, bytes]]
) -> ImportReport:
    """Import a file without blocking other users: read it in a thread, write it in many short transactions.

    If the store fails in between, the conversations written before stay; the report says so.

    Raises:
        UsageError: The file does not contain conversations.
        StoreError: Nothing could be written.
    """
    imported = await asyncio.to_thread(_read, data)
    written: list[str] = []
    problems = list(imported.problems)
    for batch in _batches(imported.conversations):
        try:
            written += await _write_batch(store, batch)
        except StoreError as error:
            if not written:
                raise
            left = len(imported.conversations) - len(written)
            problems.insert(0, f"{left} conversations were not saved: {error}")
            break
    return ImportReport(tuple(written), tuple(problems))


def _read(data: bytes | Sequence[tuple[str, bytes]]) -> Imported:
    return read_conversations(data) if isinstance(data, bytes) else read_files(data)


async def _write_batch(store: Store, batch: Sequence[ConversationDocument]) -> list[str]:
    """Write conversations in one transaction, or a long one in several; others wait for at most one of them."""
    if len(batch) > 1 or len(batch[0].turns) <= _BATCH:
        return await store.arun(_write_together, batch)
    draft = await store.arun(begin_document, batch[0])
    for start in range(0, len(draft.turns), _BATCH):
        await store.arun(continue_document, draft, draft.turns[start : start + _BATCH])
    return [await store.arun(finish_document, draft)]


def _write_together(transaction: Transaction, batch: Sequence[ConversationDocument]) -> list[str]:
    return [write_document(transaction, each) for each in batch]


def _batches(
    conversations: Iterable[ConversationDocument],
) -> Iterator[list[ConversationDocument]]:
    """The conversations in order, in batches of about ``_BATCH`` turns."""
    batch: list[ConversationDocument] = []
    size = 0
    for each in conversations:
        if batch and len(each.turns) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.turns) + 1
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _all(transaction: Transaction) -> list[str]:
    found: list[str] = []
    after: tuple[int, int] | None = None
    while True:
        listing = list_conversations(transaction, which="both", limit=_PAGE, after=after)
        found += [each.id for each in listing.conversations]
        after = listing.after
        if after is None:
            return found[::-1]  # the oldest first
