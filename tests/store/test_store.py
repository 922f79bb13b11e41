"""The guarantees of every store, with any database."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest
from tests.store.talking import say, talk, words_of

from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.store import (
    Appended,
    Conflict,
    Store,
    Transaction,
    append,
    create,
    list_conversations,
    open_store,
    path,
    rename,
)
from multi_llm_chat.store._database import POSTGRES_CONNECTIONS


def test_what_was_saved_is_there_after_opening_again(lasting_place: str):
    with open_store(lasting_place) as store:
        conversation = talk(store, "kept")
    with open_store(lasting_place) as store:
        assert words_of(store.run(path, conversation)) == ["kept"]


def test_a_closed_store_says_so(store: Store):
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed") as caught:
        store.run(list_conversations)
    assert caught.value.reason == "closed"


def test_the_same_operations_run_in_an_event_loop_side_by_side(store: Store):
    async def chat() -> list[str]:
        conversation = (await store.arun(create, "async")).id
        await asyncio.gather(
            *(store.arun(append, conversation, [say(f"n{number}")]) for number in range(100))
        )
        failing = (store.arun(append, conversation, [say("x")], parent="no") for _ in range(5))
        errors = await asyncio.gather(*failing, return_exceptions=True)
        assert all(isinstance(error, StoreError) for error in errors)
        return words_of(await store.arun(path, conversation))

    assert sorted(asyncio.run(chat())) == sorted(f"n{number}" for number in range(100))


def test_many_threads_lose_nothing(store: Store):
    conversation = talk(store)

    def write(name: str) -> None:
        for number in range(20):
            store.run(append, conversation, [say(f"{name}{number}")])

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = words_of(store.run(path, conversation))
    for name in "abcdef":
        assert [text for text in said if text[0] == name] == [f"{name}{n}" for n in range(20)]


def test_an_operation_that_fails_in_a_batch_affects_no_other(store: Store):
    conversation = talk(store)
    gate = threading.Event()

    def wait(transaction: Transaction) -> None:
        gate.wait(30)

    def say_and_perhaps_fail(transaction: Transaction, number: int) -> Appended | Conflict:
        outcome = append(transaction, conversation, [say(f"{number}")])
        if number % 3:
            raise RuntimeError("on purpose")
        return outcome

    async def crowd() -> list[Any]:
        held = asyncio.ensure_future(store.arun(wait))
        jobs = [store.arun(say_and_perhaps_fail, number) for number in range(30)]
        pending = asyncio.gather(*jobs, return_exceptions=True)
        await asyncio.sleep(0)  # now all of them wait behind the first
        gate.set()
        await held
        return await pending

    outcomes = asyncio.run(crowd())
    assert [isinstance(outcome, Appended) for outcome in outcomes] == [
        n % 3 == 0 for n in range(30)
    ]
    assert sorted(words_of(store.run(path, conversation)), key=int) == [
        f"{n}" for n in range(0, 30, 3)
    ]


def test_a_statement_that_fails_in_a_batch_affects_no_other(store: Store):
    conversation = talk(store)
    gate = threading.Event()

    def wait(transaction: Transaction) -> None:
        gate.wait(30)

    def nonsense(transaction: Transaction) -> None:
        append(transaction, conversation, [say("must not stay")])
        transaction.rows("SELECT secret FROM nowhere")

    async def crowd() -> list[Any]:
        held = asyncio.ensure_future(store.arun(wait))
        good = [store.arun(append, conversation, [say(f"{number}")]) for number in range(5)]
        pending = asyncio.gather(*good, store.arun(nonsense), return_exceptions=True)
        await asyncio.sleep(0)
        gate.set()
        await held
        return await pending

    *good, bad = asyncio.run(crowd())
    assert all(isinstance(outcome, Appended) for outcome in good)
    assert isinstance(bad, StoreError)
    assert "secret" not in str(bad)
    assert sorted(words_of(store.run(path, conversation))) == list("01234")


def test_calling_the_store_from_within_an_operation_is_an_error(store: Store):
    def nested(transaction: Transaction) -> None:
        store.run(rename, "x", "y")

    with pytest.raises(UsageError, match="call the operation itself"):
        store.run(nested)


def test_an_operation_cancelled_before_it_began_is_not_done(store: Store):
    # As many as can write at the same time, so that nothing else starts.
    holding = POSTGRES_CONNECTIONS if store.run(database_of) == "postgres" else 1
    begun, gate = threading.Barrier(holding + 1), threading.Event()

    def hold(transaction: Transaction) -> None:
        begun.wait(30)
        gate.wait(30)

    async def change_of_mind() -> None:
        held = [asyncio.ensure_future(store.arun(hold)) for _ in range(holding)]
        await asyncio.to_thread(begun.wait, 30)
        made = asyncio.ensure_future(store.arun(create, "never"))
        await asyncio.sleep(0)  # now it waits behind the others
        made.cancel()
        with pytest.raises(asyncio.CancelledError):
            await made
        gate.set()
        await asyncio.gather(*held)

    asyncio.run(change_of_mind())
    assert store.run(list_conversations).conversations == ()


def database_of(transaction: Transaction) -> str:
    return transaction.database


def test_places_that_are_none_are_refused():
    for place in ("mysql://x/y", "", "redis://a"):
        with pytest.raises(UsageError, match="Give a path"):
            open_store(place)
    with pytest.raises(UsageError, match="name of a user"):
        open_store(":memory:", user="a\0b")


def test_sqlite_stores_do_not_load_psycopg():
    program = (
        "from multi_llm_chat.store import open_store\nimport sys\n"
        "open_store(':memory:').close()\nprint('psycopg' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
