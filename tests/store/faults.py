"""Processes that write and are killed, and many that write at once.

    python -m tests.store.faults

prints the results of the long run. Rules:

1. An announced turn is in the store, whatever happens to its writer afterwards; no turn is there twice.
2. Turns that were appended together are there together or not at all.
3. Every writer gets its turn, and none gets an error that the store is locked.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.store.postgres_server import binaries, server
from tests.store.processes import context

from multi_llm_chat.history.values import Media, Text, Turn
from multi_llm_chat.store import append, create, open_store, path, search

#: The longest life of a writer, in seconds.
LONGEST_LIFE = 0.15
PICTURE = "QUJD" * 2000


class Kills(Struct):
    """The results of killing writers."""

    kills: int = 0
    before_the_first_turn: int = 0
    announced: int = 0
    landed_unannounced: int = 0
    faults: list[str] = []


class Crowd(Struct):
    """The results of many writers; waits are in milliseconds."""

    turns: int
    seconds: float
    turns_of_each: list[int]
    median_wait: float
    longest_wait: float
    faults: list[str] = []


def write_pairs(place: str, conversation: str, begin: int, announce: Connection) -> None:
    """Append pairs of turns for ever, and announce each pair when it is saved."""
    with open_store(place) as store:
        announce.send(-1)
        number = begin
        while True:
            parts = (Text(f"question {number}"), Media("image/png", data=PICTURE))
            pair = [Turn("user", parts, id=f"q{number}"), Turn("claude", (Text(f"a{number}"),), id=f"a{number}")]  # fmt: skip
            store.run(append, conversation, pair)
            announce.send(number)
            number += 1


def kill_writers(place: str, kills: int, seed: int) -> Kills:
    """Kill writers, one after the other, each at a random moment of its life."""
    chance = random.Random(seed)
    report = Kills()
    with open_store(place) as store:
        conversation = store.run(create, "Talk").id
    begin = 0
    for _ in range(kills):
        announced = _kill_one(place, conversation, begin, chance.uniform(0.0, LONGEST_LIFE))
        report.kills += 1
        report.announced += len(announced)
        report.before_the_first_turn += not announced
        with open_store(place) as store:
            there = [turn.id for turn in store.run(path, conversation)]
            pairs, odd = divmod(len(there), 2)
            wanted = [f"{kind}{number}" for number in range(pairs) for kind in "qa"]
            if odd or there != wanted:
                report.faults.append(f"after kill {report.kills}: half a pair, or one twice")
            if announced and pairs <= announced[-1]:
                report.faults.append(f"after kill {report.kills}: {announced[-1]} was lost")
            if pairs and len(store.run(search, f'"question {pairs - 1}"')) != 1:
                report.faults.append(f"after kill {report.kills}: the index is behind")
        landed = pairs - begin
        report.landed_unannounced += landed - len(announced)
        begin = pairs
    return report


def _kill_one(place: str, conversation: str, begin: int, life: float) -> list[int]:
    """Kill a writer after it has had the store open for so long; return the pairs that it announced."""
    receiver, sender = context().Pipe(duplex=False)
    writer = context().Process(target=write_pairs, args=(place, conversation, begin, sender))
    writer.start()
    sender.close()
    assert receiver.recv() == -1
    writer.join(life)
    writer.kill()
    writer.join()
    announced: list[int] = []
    with suppress(EOFError):
        while True:
            announced.append(receiver.recv())
    receiver.close()
    return announced


def write_turns(
    place: str, conversation: str, name: str, turns: int, pace: float, report: Connection
) -> None:
    """Append so many turns, one every ``pace`` seconds; report how long each took."""
    waits: list[float] = []
    fault = ""
    with open_store(place) as store:
        report.send("ready")
        report.recv()
        began = time.monotonic()
        for number in range(turns):
            if (early := began + number * pace - time.monotonic()) > 0:
                time.sleep(early)
            before = time.monotonic()
            try:
                store.run(append, conversation, [Turn("user", (Text(f"{name} {number}"),), id=f"{name}-{number}")])  # fmt: skip
            except Exception as error:  # noqa: BLE001 whatever it is, the report tells it
                fault = f"{name}: {type(error).__name__}: {error}"
                break
            waits.append(time.monotonic() - before)
    report.send((waits, fault))


def write_at_once(place: str, writers: int, turns: int, pace: float = 0.0) -> Crowd:
    """Let many processes append to one conversation at the same time."""
    with open_store(place) as store:
        conversation = store.run(create, "Talk").id
    processes: list[tuple[Any, Any]] = []
    for number in range(writers):
        mine, theirs = context().Pipe()
        arguments = (place, conversation, f"w{number}", turns, pace, theirs)
        process = context().Process(target=write_turns, args=arguments)
        process.start()
        processes.append((process, mine))
    for _, connection in processes:
        assert connection.recv() == "ready"
    began = time.monotonic()
    for _, connection in processes:
        connection.send("go")
    reports: list[tuple[list[float], str]] = [connection.recv() for _, connection in processes]
    seconds = time.monotonic() - began
    for process, _ in processes:
        process.join()
    waits = sorted(wait * 1000 for each, _ in reports for wait in each)
    crowd = Crowd(
        len(waits), seconds, [len(each) for each, _ in reports], waits[len(waits) // 2], waits[-1],
        [fault for _, fault in reports if fault],
    )  # fmt: skip
    crowd.faults += _lost(place, conversation, writers, turns)
    return crowd


def _lost(place: str, conversation: str, writers: int, turns: int) -> list[str]:
    with open_store(place) as store:
        there = [turn.id or "" for turn in store.run(path, conversation)]
    faults: list[str] = []
    for number in range(writers):
        own = [name for name in there if name.startswith(f"w{number}-")]
        if own != [f"w{number}-{turn}" for turn in range(turns)]:
            faults.append(f"w{number}: turns are missing, doubled or out of order")
    return faults


#: The long run: SQLite at the documented load, Postgres at full speed.
LONG: dict[str, tuple[str, Callable[[str], Kills | Crowd]]] = {
    "200 kills on SQLite": ("sqlite", lambda place: kill_writers(place, 200, seed=1)),
    "60 kills on Postgres": ("postgres", lambda place: kill_writers(place, 60, seed=2)),
    "4 processes, 20 turns/s, 20 s, on SQLite": ("sqlite", lambda place: write_at_once(place, 4, 400, 0.05)),
    "4 processes at full speed on SQLite": ("sqlite", lambda place: write_at_once(place, 4, 1000)),
    "8 processes at full speed on Postgres": ("postgres", lambda place: write_at_once(place, 8, 1000)),
}  # fmt: skip


def long_run(names: Sequence[str] = tuple(LONG)) -> dict[str, Kills | Crowd]:
    """Run all tests, each on a new store."""
    reports: dict[str, Kills | Crowd] = {}
    for name in names:
        kind, task = LONG[name]
        if kind == "postgres":
            if binaries() is None:
                continue
            with server() as address:
                reports[name] = task(address)
        else:
            with tempfile.TemporaryDirectory() as folder:
                reports[name] = task(str(Path(folder) / "chats.db"))
    return reports


def main() -> int:
    """Print the results of the long run."""
    wrong = False
    for name in LONG:
        for report in long_run([name]).values():
            sys.stdout.write(f"{name}\n  {report}\n")
            sys.stdout.flush()
            wrong = wrong or bool(report.faults)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
