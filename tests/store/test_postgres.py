"""Faults that only a database server can cause."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from tests.store.postgres_server import binaries, server
from tests.store.processes import SLOW

from multi_llm_chat.archive.document import ConversationDocument
from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import (
    Transaction,
    append,
    create,
    list_conversations,
    open_store,
    path,
    read_document,
    write_document,
)

SECRET = "hunter2-password"


def test_lost_connections_are_replaced(postgres: str):
    with open_store(postgres) as store, psycopg.connect(postgres, autocommit=True) as other:
        conversation = store.run(create, "t").id
        for number in range(12):
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND query LIKE '%COMMIT%'"
            )
            store.run(append, conversation, [Turn("user", (Text("x"),), id=f"{number}")])
        assert [turn.id for turn in store.run(path, conversation)] == [f"{n}" for n in range(12)]


def test_a_connection_lost_in_the_middle_is_tried_again_and_nothing_is_doubled(postgres: str):
    tries: list[str] = []

    def interrupted(transaction: Transaction, conversation: str) -> None:
        outcome = append(transaction, conversation, [Turn("user", (Text("once"),))])
        tries.append(str(outcome))
        if len(tries) == 1:
            with psycopg.connect(postgres, autocommit=True) as other:
                pid = transaction.rows("SELECT pg_backend_pid()")[0][0]
                other.execute("SELECT pg_terminate_backend(%s)", (pid,))

    with open_store(postgres) as store:
        conversation = store.run(create, "t").id
        store.run(interrupted, conversation)
        assert len(store.run(path, conversation)) == 1
    assert len(tries) == 2
    assert tries[0] == tries[1]


def test_an_operation_that_landed_unnoticed_is_not_done_twice(postgres: str):
    tries: list[str] = []

    def landed(transaction: Transaction, document: ConversationDocument) -> str:
        append(transaction, "talk", [Turn("user", (Text("once"),))])
        made = write_document(transaction, document)
        tries.append(made)
        if len(tries) == 1:
            # Committed, but the connection breaks before the reply arrives.
            transaction.rows("COMMIT")
            transaction.rows("SELECT pg_terminate_backend(pg_backend_pid())")
        return made

    with open_store(postgres) as store:
        store.run(create, "t", identifier="talk")
        document = store.run(read_document, "talk")
        made = store.run(landed, document)
        assert len(store.run(path, "talk")) == 1
        listed = {item.id for item in store.run(list_conversations).conversations}
        assert listed == {"talk", made}
    assert tries == [made, made]


ADDRESSES = {
    "no server listens": f"postgresql://ann:{SECRET}@127.0.0.1:1/chats",
    "no such host": f"postgresql://ann:{SECRET}@no-such-host.invalid/chats",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES.keys())
def test_a_missing_server_is_reported_at_once_and_without_the_password(address: str):
    with pytest.raises(StoreError, match=r"chats on .* cannot be reached") as caught:
        open_store(address)
    assert caught.value.reason == "unreachable"
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_an_address_that_cannot_be_read_is_not_repeated():
    with pytest.raises(UsageError, match="address of the database") as caught:
        open_store(f"postgresql://ann:%zz{SECRET}@host/chats")
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_wrong_database_is_reported(postgres_server: str):
    with pytest.raises(StoreError, match="nowhere on"):
        open_store(postgres_server.replace("/postgres?", "/nowhere?"))


def test_a_user_without_rights_is_reported(postgres_server: str, postgres: str):
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
    with pytest.raises(StoreError, match="does not allow this user to write") as caught:
        open_store(postgres.replace("tester@", "reader@"))
    assert caught.value.reason == "read-only"


def test_words_of_the_database_are_not_repeated(postgres: str):
    def refused(transaction: Transaction) -> None:
        transaction.rows(
            "INSERT INTO conversations(user_id, id, made_by, title, settings, created_ms, changed_ms)"
            " VALUES ('u', NULL, 'm', 'secret title', '{}', 1, 1)"
        )

    with open_store(postgres) as store:
        with pytest.raises(StoreError, match=r"\[23502\]") as caught:
            store.run(refused)
        assert "secret" not in str(caught.value)
        assert store.run(list_conversations).conversations == ()


@pytest.mark.skipif(not SLOW, reason="takes long: make faults")
@pytest.mark.skipif(binaries() is None, reason="no Postgres on this machine (initdb was not found)")
def test_a_server_that_went_away_is_reported_after_some_retries():
    with server() as address:
        store = open_store(address)
        store.run(create, "t")
    with store, pytest.raises(StoreError, match="cannot be reached"):
        store.run(create, "t")


def test_many_who_open_an_empty_database_at_once_find_it_made(postgres: str):
    together = threading.Barrier(8)

    def count() -> int:
        together.wait()
        with open_store(postgres) as store:
            return len(store.run(list_conversations).conversations)

    with ThreadPoolExecutor(8) as pool:
        assert [each.result() for each in [pool.submit(count) for _ in range(8)]] == [0] * 8
