"""Queued messages, as a program and its user handle them."""

from pathlib import Path

import pytest
from tests.chat.stage import LOOP, Read, kinds, read_async, stage, words_of

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.errors import UsageError
from multi_llm_chat.events import MessageSaved
from multi_llm_chat.history.values import Media
from multi_llm_chat.store import QueuedMessage
from multi_llm_chat.testing.simulator import Gate, Say

DOT = Media("image/png", "iVBORw0KGgo=")


def texts(service: ChatService, read: Read) -> list[str]:
    """Return the texts of the queued messages, read with or without ``async`` like the rest of the test."""
    waiting = LOOP.run(service.aoutbox()) if read is read_async else service.outbox()
    return [message.text for message in waiting]


def queued(service: ChatService, read: Read, text: str, **others: object) -> QueuedMessage:
    if read is read_async:
        return LOOP.run(service.aqueue(text, **others))  # pyright: ignore[reportArgumentType]
    return service.queue(text, **others)  # pyright: ignore[reportArgumentType]


def test_messages_are_queued_edited_withdrawn_and_sent(read: Read) -> None:
    with stage(claude=["Hello.", "One.", "Two."]) as scene:
        service = scene.service
        assert texts(service, read) == []
        read(service.process_message("Hi"))
        first, second, third = (queued(service, read, text) for text in ("one", "two", "three"))
        assert texts(service, read) == ["one", "two", "three"]
        assert len(service.turns) == 2
        service.edit_queued(second.id, "two, please")
        service.withdraw(third.id)
        for late in (
            lambda: service.withdraw(third.id),
            lambda: service.edit_queued(third.id, "x"),
        ):
            with pytest.raises(UsageError, match="is not in the outbox"):
                late()
        events = read(service.send_queued(service.outbox()[0]))
        assert kinds(events)[0] == "MessageSaved"
        assert texts(service, read) == ["two, please"]
        with pytest.raises(UsageError, match="is not in the outbox"):
            read(service.send_queued(first))
        assert service.run_ids == frozenset()
        read(service.send_queued(service.outbox()[0]))
        assert texts(service, read) == []
        assert [words_of(turn) for turn in service.turns] == [
            "Hi", "Hello.", "one", "One.", "two, please", "Two."
        ]  # fmt: skip


def test_a_queued_message_has_its_files_and_its_addressees(read: Read) -> None:
    with stage(claude=["Hello.", "A dot."], gemini=["Hello."]) as scene:
        service = scene.service
        read(service.process_message("@all Hi"))
        queued(service, read, "What is it?", media=[DOT], to=["claude"])
        (message,) = service.outbox()
        saved = next(
            event for event in read(service.send_queued(message)) if isinstance(event, MessageSaved)
        )
        assert saved.addressed == ("claude",)
        assert [part for part in saved.turn.parts if isinstance(part, Media)] == [DOT]
        assert "iVBORw0KGgo=" in str(scene.body("claude"))


def test_what_cannot_be_sent_is_not_queued(read: Read) -> None:
    with stage(claude=["Hello."]) as scene:
        with pytest.raises(UsageError, match="no message yet"):
            queued(scene.service, read, "too early")
        read(scene.service.process_message("Hi"))
        with pytest.raises(UsageError, match="There is no speaker"):
            queued(scene.service, read, "hello", to=["nobody"])
        assert texts(scene.service, read) == []


def test_a_message_is_queued_while_an_answer_streams_and_another_program_sends_it(
    tmp_path: Path, read: Read
) -> None:
    gate = Gate(after_frames=3)
    place = tmp_path / "c.db"
    with stage(store=place, claude=[Say("Hello to you.", delta_size=2, faults=[gate])]) as scene:

        async def talk() -> None:
            events = aiter(scene.service.process_message("Hi"))
            assert isinstance(await anext(events), MessageSaved)
            await scene.service.aqueue("And then?")
            gate.open()
            async for _ in events:
                pass

        LOOP.run(talk())
        conversation = scene.service.conversation
    with stage(store=place, conversation=conversation, claude=["Then."]) as scene:
        (message,) = scene.service.outbox()
        read(scene.service.send_queued(message))
        assert scene.words()[-2:] == [("user", "And then?"), ("claude", "Then.")]
        assert len(scene.words()) == 4
