"""Bring a store to the version this program knows.

Rules:
1. All missing steps are done in one transaction, under a lock: of several processes one does the work.
2. A store that is newer than the program is left alone.
3. Before a store that holds something is changed, ``keep`` is called to save what there is.
"""

from collections.abc import Callable, Sequence

from multi_llm_chat.errors import StoreError
from multi_llm_chat.store.tables import STEPS, Step, perform
from multi_llm_chat.store.transaction import DatabaseName, Link

_HAS_VERSION: dict[DatabaseName, str] = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'",
    # Not ``to_regclass``, which may still remember that there was none before we waited for the lock.
    "postgres": "SELECT 1 FROM pg_catalog.pg_class WHERE relname = 'meta' AND relkind = 'r'"
    " AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = current_schema())",
}

#: What is executed to be alone. The number is ours, and nobody else's in that database.
_BEGIN: dict[DatabaseName, tuple[str, ...]] = {
    "sqlite": ("BEGIN IMMEDIATE",),
    "postgres": ("BEGIN", "SELECT pg_advisory_xact_lock(7365190204483920018)"),
}


def version_of(link: Link) -> int:
    """The number of the last step that was done; 0 if there is no store yet."""
    if not link.execute(_HAS_VERSION[link.database]):
        return 0
    return int(link.execute("SELECT version FROM meta")[0][0])


def migrate(
    link: Link,
    place: str,
    *,
    keep: Callable[[int], None] | None = None,
    steps: Sequence[Step] = STEPS,
) -> None:
    """Do the steps that the store lacks.

    Args:
        link: an open connection outside any transaction.
        place: what to call the store in an error.
        keep: saves the store as it is; it is given the store's version.
        steps: all steps there are.

    Raises:
        StoreError: the store was made by a newer program.
    """
    if _is_current(version_of(link), place, steps):
        return
    try:
        for statement in _BEGIN[link.database]:
            link.execute(statement)
        version = version_of(link)  # another process may have been quicker
        if not _is_current(version, place, steps):
            if version and keep is not None:
                keep(version)
            _do(link, version, steps)
        link.execute("COMMIT")
    except BaseException:
        link.roll_back()
        raise


def _is_current(version: int, place: str, steps: Sequence[Step]) -> bool:
    if version > len(steps):
        raise StoreError(
            f"The conversations in {place} were written by a newer version of this program "
            f"(store version {version}, this program knows {len(steps)}). Upgrade multi_llm_chat, or "
            "choose another place.",
            reason="newer",
        )
    return version == len(steps)


def _do(link: Link, version: int, steps: Sequence[Step]) -> None:
    if not version:
        link.execute("CREATE TABLE meta(version INTEGER NOT NULL)")
        link.execute("INSERT INTO meta(version) VALUES (0)")
    for step in steps[version:]:
        perform(step, link)
    link.execute("UPDATE meta SET version = ?", (len(steps),))
