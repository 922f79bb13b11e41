"""The files of this folder, and stores made from them."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from multi_llm_chat.store._tables import Step, statements
from multi_llm_chat.store.transaction import DatabaseName

FOLDER: Final = Path(__file__).parent


def text_of(name: str) -> str:
    """The text of a sample file."""
    return (FOLDER / name).read_text(encoding="utf-8")


def lines_of(name: str) -> list[str]:
    """The lines of a sample file; not ``splitlines``, which also splits at characters within a text."""
    return text_of(name).removesuffix("\n").split("\n")


def schema_of(connection: sqlite3.Connection) -> str:
    """The schema as SQL, one statement a line; without the tables that SQLite makes for itself."""
    rows = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        " AND name NOT LIKE 'search!_%' ESCAPE '!' ORDER BY rowid"
    )
    statements = [" ".join(sql.split()) for (sql,) in rows]
    ((mark,),) = connection.execute("PRAGMA application_id")
    return "".join(f"{each};\n" for each in [f"PRAGMA application_id = {mark}", *statements])


def steps_of(steps: Sequence[Step], database: DatabaseName) -> str:
    """The statements of migrations, one a line."""
    written = [" ".join(each.split()) for step in steps for each in statements(step, database)]
    return "".join(f"{each};\n" for each in written)


def make_old_store(place: Path) -> None:
    """A file as version 4 of the store has written it."""
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(text_of("schema_v4.sql"))
        connection.executescript(text_of("store_v4.sql"))
        connection.execute("PRAGMA journal_mode = WAL")
