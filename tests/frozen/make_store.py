"""Makes the files named ``*_v4.*`` of this folder: ``python -m tests.frozen.make_store``.

They were made by the program whose store has version 4; a later program cannot make them again. Real answers of simulated models fill the store: with tools,
branches, failures, and a run that is interrupted while it waits for the user's approval.
"""

import asyncio
import json
import os
import sqlite3
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from tests.frozen.reading import read_all
from tests.frozen.samples import FOLDER, make_old_store, schema_of, steps_of

from multi_llm_chat.client import create_provider
from multi_llm_chat.config.values import PriceSettings, RateSettings, Settings
from multi_llm_chat.durable.holding import Holder
from multi_llm_chat.exchange.retrying import RetryPolicy
from multi_llm_chat.history.values import Media, Text, Turn
from multi_llm_chat.service.chat import ChatService
from multi_llm_chat.service.deciding import deciding_in
from multi_llm_chat.service.tools import ScopedTools, scope_of
from multi_llm_chat.store import (
    Store,
    append,
    archive,
    begin_run,
    create,
    delete,
    move_head,
    open_store,
    read_standing,
    stop_run,
)
from multi_llm_chat.store.running import sign_of_life
from multi_llm_chat.store.schema import STEPS
from multi_llm_chat.store.search_index import texts_of
from multi_llm_chat.store.terms import terms_of
from multi_llm_chat.store.transaction import Transaction, reading
from multi_llm_chat.testing import Call, Say, Simulator
from multi_llm_chat.testing.simulator import Status
from multi_llm_chat.tools import ToolRegistry

VERSION = 4
LINE = 160
TALK = "trip"
#: Large enough to be kept apart from its part.
PICTURE = Media("image/png", data=b64encode(bytes(3072)).decode("ascii"), name="map.png")

ROBOT = [
    Say("Let me look.", calls=[Call("get_weather", {"city": "東京"}, id="call_1")]),
    Say("Sunny in 東京, 21 degrees."),
    Say("Rain in Osaka."),
    Status(503),
    Say(
        "First the weather, then the hotel.",
        calls=[
            Call("get_weather", {"city": "Kyoto"}, id="call_2"),
            Call("book_hotel", {"city": "Kyoto", "nights": 2}, id="call_3"),
        ],
    ),
]
CLAUDE = [Say("I agree: sunny.", thinking="The other one has looked it up.")]


def tools_of(store: Store) -> ScopedTools:
    registry = ToolRegistry(approve=deciding_in(lambda: store))

    @registry.tool(resume="retry")
    def get_weather(city: str) -> dict[str, Any]:
        """The weather in a city."""
        return {"city": city, "sky": "晴れ", "degrees": 21}

    @registry.tool(approval="ask", resume="never")
    def book_hotel(city: str, nights: int) -> str:
        """Book a hotel."""
        return f"booked: {nights} nights in {city}"

    del get_weather, book_hotel
    return ScopedTools(registry, scope_of(store.user, TALK))


@asynccontextmanager
async def conversation(store: Store) -> AsyncGenerator[ChatService]:
    once = RetryPolicy(attempts=1)
    settings = Settings(
        prices={"*": PriceSettings(input=2.0, output=10.0)},
        rates={"openai-chat": RateSettings(requests=600, tokens=100_000)},
    )
    with Simulator(ROBOT) as robot, Simulator(CLAUDE) as claude:
        speakers = {
            name: create_provider(
                row, api_key="key", base_url=server.base_url(row), speaker=name, retry=once
            )
            for name, row, server in (
                ("robot", "openai-chat", robot),
                ("claude", "anthropic", claude),
            )
        }
        service = ChatService(speakers, store=store, tools=tools_of(store), settings=settings)
        service.conversation = TALK
        async with service:
            yield service


async def wait_for(proceeding: Any) -> None:
    async for _ in proceeding:
        pass


async def talk(store: Store, snapshot: sqlite3.Connection) -> None:
    """Fill the store, and copy it while a run waits for an approval."""
    async with conversation(store) as service:
        service.configure(system_prompt="Be brief.", default_speaker="robot")
        await wait_for(
            service.process_message("@robot What is the weather in 東京?", media=[PICTURE])
        )
        await wait_for(service.process_message("@claude Do you agree?"))
        store.run(move_head, TALK, service.turns[-1].id or "", branch="both agree")
        await wait_for(service.edit(service.turns[-2].id or "", "@robot And in Osaka?"))
        await wait_for(service.process_message("@robot And tomorrow?"))  # fails: 503
        await wait_for(service.process_message("A note to myself.", to=()))
        others(store)
        waiting = asyncio.ensure_future(
            wait_for(service.process_message("@robot Book a hotel in Kyoto."))
        )
        while True:
            standing = await store.arun(read_standing, TALK)
            if standing is not None and standing.questions:
                break
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)  # what the run has emitted is written
        with closing(sqlite3.connect(store.file or "")) as connection:
            connection.backup(snapshot)
        service.stop()
        await waiting


def others(store: Store) -> None:
    """Conversations that are archived, deleted, somebody else's; a run that was stopped; a worker."""
    for name in ("archived", "deleted"):
        store.run(create, name.title(), identifier=name)
        store.run(append, name, [Turn("user", (Text(f"{name}: weather"),), id="0")])
    store.run(archive, "archived")
    stopped = store.run(begin_run, "archived", "robot", base="0", spec={"version": 1})
    store.run(stop_run, stopped)
    store.run(delete, "deleted")
    somebody = store.as_user("somebody")
    somebody.run(create, "Somebody's", identifier=TALK)
    somebody.run(append, TALK, [Turn("user", (Text("weather"),), id="0")])
    store.run(sign_of_life, "worker-1")


def rows_of(connection: sqlite3.Connection, terms: dict[int, str]) -> Iterator[str]:
    """The rows of all tables as SQL; the search index as the terms that it was given."""
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
        " AND name NOT LIKE 'search%' ORDER BY rowid"
    ).fetchall()
    for (table,) in names:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        quoted = ", ".join(f"quote({name})" for name in columns)
        for row in connection.execute(f"SELECT {quoted} FROM {table} ORDER BY rowid"):
            values = ", ".join(map(short, row))
            yield f"INSERT INTO {table}({', '.join(columns)}) VALUES ({values});\n"
    for turn, text in terms.items():
        yield f"INSERT INTO search(rowid, terms) VALUES ({turn}, '{text}');\n"


def short(literal: str) -> str:
    """A blob of zeros in few characters."""
    digits = literal[2:-1] if literal.startswith("X'") else ""
    return f"zeroblob({len(digits) // 2})" if digits.strip("0") == "" and digits else literal


def in_lines(value: Any, margin: str = "") -> str:
    """JSON of which everything short is on one line."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= LINE or not isinstance(value, (dict, list)):
        return text
    inner = f"{margin} "
    if isinstance(value, list):
        lines = [in_lines(each, inner) for each in cast("list[Any]", value)]
        return f"[\n{inner}" + f",\n{inner}".join(lines) + f"\n{margin}]"
    items = cast("dict[str, Any]", value).items()
    lines = [
        f"{json.dumps(name, ensure_ascii=False)}: {in_lines(each, inner)}" for name, each in items
    ]
    return f"{{\n{inner}" + f",\n{inner}".join(lines) + f"\n{margin}}}"


@reading
def terms_by_turn(transaction: Transaction) -> dict[int, str]:
    turns = [key for (key,) in transaction.rows("SELECT key FROM turns ORDER BY key")]
    texts = texts_of(transaction, turns)
    return {turn: " ".join(terms_of(texts[turn])) for turn in turns if turn in texts}


def main() -> None:
    assert len(STEPS) == VERSION, "another version of the store needs files of its own"
    with TemporaryDirectory() as folder, closing(sqlite3.connect(":memory:")) as snapshot:
        with open_store(Path(folder) / "chats.db") as store:
            asyncio.run(talk(store, snapshot))
            terms = store.run(terms_by_turn)
        made = {key for (key,) in snapshot.execute("SELECT key FROM turns")}
        kept = {turn: text for turn, text in terms.items() if turn in made}
        dump = "".join(rows_of(snapshot, kept)).replace(
            f"{Holder.host()}:{os.getpid()}:", "host:1:"
        )
        (FOLDER / "schema_v4.sql").write_text(schema_of(snapshot), encoding="utf-8")
        (FOLDER / "store_v4.sql").write_text(f"BEGIN;\n{dump}COMMIT;\n", encoding="utf-8")
        (FOLDER / "postgres_v4.sql").write_text(steps_of(STEPS, "postgres"), encoding="utf-8")
        make_old_store(Path(folder) / "old.db")
        with open_store(Path(folder) / "old.db") as store:
            found = in_lines(read_all(store))
        (FOLDER / "store_v4.json").write_text(f"{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
