"""The store on SQLite: saving, searching 100,000 messages, opening a conversation of 10,000 turns.

Times are wall times (medians), including the disk: ``synchronous=FULL``. The plans are the output of SQLite's
``EXPLAIN QUERY PLAN``.
"""

import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import accumulate, count
from pathlib import Path
from typing import Any, cast

from bench.measuring import Result
from multi_llm_chat.archive.document import ConversationDocument, TreeTurn
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import (
    Store,
    Transaction,
    append,
    create,
    list_conversations,
    open_store,
    page,
    path,
    search,
    write_document,
)

MESSAGES = 100_000
LONG = 10_000
SEARCH_MS = 50.0
PAGE_MS = 20.0
ROUNDS = 15

SYLLABLES = (
    "ka",
    "to",
    "mi",
    "ra",
    "sen",
    "lo",
    "vi",
    "dur",
    "pel",
    "gan",
    "the",
    "ing",
    "ex",
    "or",
)
KANJI = "日本東京都天気今明何時人大小中国語学生先行来見食話電車駅道山川海空雨雪風花木金土水火月"
KANA = "のはをにがでとものかしてるたなれすあいうえおきくけこさ"
SEARCHES = {
    "a word in most messages": "the",
    "a word in few": "zanzibar",
    "two words": "the zanzibar",
    "the beginning of a word": "zanz",
    "one letter": "t",
    "a phrase": '"{two words}"',
    "one character, Japanese": "の",
    "two characters": "天気",
    "six characters": "東京の天気は",
    "nothing to be found": "nothinglikeit",
}


class Author:
    """Writes messages of about 60 words: frequent words are frequent, and some are in Japanese."""

    def __init__(self) -> None:
        self._chance = random.Random(7)
        chance = self._chance
        self._words = ["the", *("".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(20_000))]  # fmt: skip
        ranks = range(1, len(self._words) + 1)
        self._weights = list(accumulate(1 / rank for rank in ranks))
        self._count = count()

    def message(self) -> str:
        """Return the next message."""
        number, chance = next(self._count), self._chance
        if number % 4 == 0:
            text = "".join(chance.choices(KANJI + KANA * 2, k=150))
        else:
            text = " ".join(chance.choices(self._words, cum_weights=self._weights, k=60))
        if number % 1999 == 0:
            text += " zanzibar 東京の天気は晴れ"
        return text


def fill(store: Store, author: Author) -> tuple[str, float]:
    """Write all messages; return the id of the long conversation, and the store's seconds for all."""
    sizes = [LONG] + [1000] * ((MESSAGES - LONG) // 1000)
    seconds, names = 0.0, list[str]()
    for number, size in enumerate(sizes):
        document = _document(f"c{number}", size, author)
        began = time.perf_counter()
        names.append(store.run(write_document, document))
        seconds += time.perf_counter() - began
    return names[0], seconds


def _document(name: str, size: int, author: Author) -> ConversationDocument:
    turns = tuple(
        TreeTurn(Turn(("user", "claude")[at % 2], (Text(author.message()),), id=f"t{at}"), f"t{at - 1}" if at else None)
        for at in range(size)
    )  # fmt: skip
    return ConversationDocument(name, name, turns=turns, heads={"main": f"t{size - 1}"})


def milliseconds(task: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the task's median time."""
    taken: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        task()
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


class Explaining:
    """A transaction that records SQLite's plan for every statement."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.plans: dict[str, str] = {}

    def rows(self, statement: str, *parameters: Any) -> list[Any]:
        plan = self._transaction.rows(f"EXPLAIN QUERY PLAN {statement}", *parameters)
        self.plans[statement] = " / ".join(row[3] for row in plan)
        return self._transaction.rows(statement, *parameters)

    def row(self, statement: str, *parameters: Any) -> Any:
        return next(iter(self.rows(statement, *parameters)), None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)


def plan_of(transaction: Transaction, operation: Callable[..., Any], *arguments: Any) -> str:
    """Return the plan of the operation's longest statement, which does most of the work."""
    explaining = Explaining(transaction)
    operation(cast("Transaction", explaining), *arguments)
    return explaining.plans[max(explaining.plans, key=len)]


def bare_insert(folder: Path) -> float:
    """Measure inserting and committing one row in bare ``sqlite3``."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE t(a TEXT)",
    ):
        connection.execute(statement)

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (?)", ("word " * 60,))
        connection.execute("COMMIT")

    taken = milliseconds(insert, 200)
    connection.close()
    return taken


def run() -> Result:
    """Measure a store in a temporary folder."""
    author = Author()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open_store(folder / "chats.db") as store:
            long, filled = fill(store, author)
            small = store.run(create, "small").id
            turns = iter([Turn("user", (Text(author.message()),)) for _ in range(200)])
            figures = {
                "append one turn": milliseconds(lambda: store.run(append, small, [next(turns)]), 200),
                "one row into bare sqlite3 (limit)": bare_insert(folder),
                f"last page of {LONG:,} turns": milliseconds(lambda: store.run(page, long)),
                f"all {LONG:,} turns": milliseconds(lambda: store.run(path, long), 3),
                "list of conversations": milliseconds(lambda: store.run(list_conversations)),
            }  # fmt: skip
            figures |= _searches(store)
            plans = {
                "plan of a search": store.run(plan_of, search, "the zanzibar"),
                "plan of a page": store.run(plan_of, page, long),
            }
        size = (folder / "chats.db").stat().st_size / 1e6
    rows = {name: f"{value:8.2f} ms" for name, value in figures.items()}
    rows[f"importing {MESSAGES:,} messages"] = f"{filled:8.1f} s, {size:.0f} MB"
    slow = [
        f"{name} took {value:.0f} ms, {limit:.0f} are allowed"
        for name, value in figures.items()
        for beginning, limit in (("search", SEARCH_MS), ("last page", PAGE_MS))
        if name.startswith(beginning) and value > limit
    ]
    title = (
        f"Store on SQLite, {MESSAGES:,} messages (search {SEARCH_MS:.0f} ms, page {PAGE_MS:.0f} ms)"
    )
    return Result(title, rows | plans, figures | {"import": filled, "megabytes": size}, slow)


def _searches(store: Store) -> dict[str, float]:
    (hit,) = store.run(search, "the", limit=1)
    words = hit.snippet[hit.marks[0][0] :].split(" ")[:2]
    figures: dict[str, float] = {}
    for name, query in SEARCHES.items():
        query = query.replace("{two words}", " ".join(words))
        found = len(store.run(search, query))
        figures[f"search: {name} ({found} hits)"] = milliseconds(lambda query=query: store.run(search, query))  # fmt: skip
    return figures
