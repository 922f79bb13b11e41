"""Queued messages, in every store."""

import os
import signal
from multiprocessing.connection import Connection

import pytest
from tests.store.processes import context
from tests.store.talking import say, talk, words_of

from multi_llm_chat.chat._message_writes import Said, save_round
from multi_llm_chat.errors import StoreError, UsageError
from multi_llm_chat.store import (
    QueuedMessage,
    Store,
    delete,
    edit_queued,
    list_outbox,
    open_store,
    path,
    queue_message,
    take_queued,
    waiting_conversations,
)
from multi_llm_chat.store._outbox import WaitingConversation


def message(number: int) -> QueuedMessage:
    return QueuedMessage(f"m{number}", f"words {number}", {"to": ["robot"], "media": []})


def texts(store: Store, conversation: str) -> list[str]:
    return [each.text for each in store.run(list_outbox, conversation)]


def test_messages_wait_in_the_order_in_which_they_were_queued(store: Store):
    conversation, other = talk(store, "hello"), talk(store, "hello")
    for number in (3, 1, 2):
        store.run(queue_message, conversation, message(number))
    store.run(queue_message, conversation, message(1))  # a second time does nothing
    first, *_ = store.run(list_outbox, conversation)
    assert (first.id, first.request) == ("m3", {"to": ["robot"], "media": []})
    assert first.created_ms > 0
    assert texts(store, conversation) == ["words 3", "words 1", "words 2"]
    assert texts(store, other) == []
    assert len(store.run(path, conversation)) == 1
    with pytest.raises(StoreError, match="no conversation"):
        store.run(queue_message, "missing", message(1))


def test_a_waiting_message_is_edited_and_withdrawn(store: Store):
    conversation = talk(store, "hello")
    for number in (1, 2):
        store.run(queue_message, conversation, message(number))
    store.run(edit_queued, conversation, "m1", "better words")
    assert texts(store, conversation) == ["better words", "words 2"]
    assert store.run(list_outbox, conversation)[0].request == message(1).request
    store.run(take_queued, conversation, "m1")
    assert texts(store, conversation) == ["words 2"]
    for late in (
        lambda: store.run(take_queued, conversation, "m1"),
        lambda: store.run(edit_queued, conversation, "m1", "too late"),
    ):
        with pytest.raises(UsageError, match="is not in the outbox"):
            late()


def test_a_message_leaves_the_outbox_with_the_transaction_that_saves_it(store: Store):
    conversation = talk(store, "hello")
    store.run(queue_message, conversation, message(1))
    said = (Said(say("words 1", identifier="sent")),)
    store.run(save_round, conversation, (said, None, {}), [], "m1")
    assert texts(store, conversation) == []
    assert words_of(store.run(path, conversation)) == ["hello", "words 1"]
    # A message that another process sent is refused here;
    # one that this process sent is accepted: its transaction was retried.
    other = (Said(say("words 1", identifier="again")),)
    with pytest.raises(UsageError, match="is not in the outbox"):
        store.run(save_round, conversation, (other, None, {}), [], "m1")
    store.run(save_round, conversation, (said, None, {}), [], "m1")
    assert words_of(store.run(path, conversation)) == ["hello", "words 1"]


def test_only_the_owner_sees_what_waits_and_a_deleted_conversation_sends_nothing(store: Store):
    anna = store.as_user("anna")
    conversation = talk(anna, "hello")
    anna.run(queue_message, conversation, message(1))
    with pytest.raises(StoreError, match="no conversation"):
        store.run(list_outbox, conversation)
    assert store.run(waiting_conversations) == (WaitingConversation("anna", conversation),)
    anna.run(delete, conversation)
    assert store.run(waiting_conversations) == ()


def _send_all(place: str, conversation: str, name: str, begin: Connection) -> None:
    """Send queued messages until there are none; another process does the same."""
    with open_store(place) as store:
        begin.recv()
        while waiting := store.run(list_outbox, conversation):
            said = (Said(say(waiting[0].text, identifier=f"{name}-{waiting[0].id}")),)
            try:
                store.run(save_round, conversation, (said, None, {}), [], waiting[0].id)
            except UsageError:
                continue  # the other process was first


@pytest.mark.fault
def test_of_two_processes_one_sends_a_message(lasting_place: str):
    with open_store(lasting_place) as store:
        conversation = talk(store, "hello")
        for number in range(30):
            store.run(queue_message, conversation, message(number))
        pipes = [context().Pipe(duplex=False) for _ in range(2)]
        processes = [
            context().Process(target=_send_all, args=(lasting_place, conversation, name, receiver))
            for name, (receiver, _) in zip("ab", pipes, strict=True)
        ]
        for process in processes:
            process.start()
        for _, sender in pipes:
            sender.send("begin")
        for process in processes:
            process.join()
            assert process.exitcode == 0
        sent = words_of(store.run(path, conversation))[1:]
        assert sorted(sent) == sorted(f"words {number}" for number in range(30))


def _queue_and_die(place: str, conversation: str) -> None:
    with open_store(place) as store:
        store.run(queue_message, conversation, message(1))
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.fault
def test_what_was_queued_survives_kill_9(lasting_place: str):
    with open_store(lasting_place) as store:
        conversation = talk(store, "hello")
    process = context().Process(target=_queue_and_die, args=(lasting_place, conversation))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with open_store(lasting_place) as store:
        assert texts(store, conversation) == ["words 1"]
