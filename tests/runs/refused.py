"""Runs whose store refuses to write for a while, in separate processes, with notes of what their readers saw.

A reader records what it receives in a file at once, so that the notes survive its process.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from tests.chat.stage import LOOP
from tests.runs.killing_store import open_interrupted
from tests.runs.refusing import Refusal, Refusing
from tests.runs.scene import CONVERSATION, NAMES, Scene, provider, registry

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.errors import StoreError
from multi_llm_chat.events import (
    Event,
    MessageSaved,
    RunFailed,
    RunFinished,
    RunWaiting,
    ToolFinished,
    TurnFinished,
)
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.store import Store, calls, list_runs, open_store, path

#: The ways in which a program reads its events.
Way: TypeAlias = Literal["plain", "async"]
WAYS: tuple[Way, ...] = ("plain", "async")

REFUSED = "refused"
WAITED = "waited"
#: The message was saved, but the store reported a failure to the program, which ended: the run has no owner.
LEFT = "left"


def notes_of(scene: Scene) -> list[str]:
    """Return what the readers of the conversation saw."""
    file = Path(f"{scene.ledger}.notes")
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def note(scene: Scene, line: str) -> None:
    descriptor = os.open(f"{scene.ledger}.notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def note_event(scene: Scene, event: Event) -> None:
    """Record an event that makes a statement about the store."""
    match event:
        case MessageSaved():
            note(scene, f"saved {event.turn.id}")
        case TurnFinished() if event.is_saved:
            note(scene, f"saved {event.turn.id}")
        case ToolFinished():
            note(scene, f"tool {event.call.tool_call_id}")
        case RunWaiting(reason="store"):
            note(scene, WAITED)
        case RunFinished() | RunFailed():
            note(scene, "over")
        case _:
            pass


def service_of(scene: Scene, store: Store, conversation: str | None = None) -> ChatService:
    """Return a program's own conversation."""
    service = ChatService(
        [provider(scene)],
        store=store,
        tools=registry(scene.ledger, scene.tool_seconds),
        conversation=conversation,
        host=RunHost(store, lease=scene.lease),
    )
    service.conversation = CONVERSATION
    return service


def ask_while_refused(scene: Scene, refusal: Refusal | None, way: Way) -> None:
    """Send a message, and read its events to the end; send a refused message again."""
    refusing = Refusing(scene.place, refusal)
    with open_interrupted(scene.place, refusing) as store, service_of(scene, store) as service:
        while True:
            try:
                stream = service.process_message("Is everything in order?")
                read_events(stream, way, lambda event: note_event(scene, event))
                break
            except StoreError as error:
                if error.reason != "full":
                    raise
                assert not notes_of(scene) or set(notes_of(scene)) == {REFUSED}
                note(scene, REFUSED)
                if store.run(list_runs, None):
                    note(scene, LEFT)  # only the store's reply was lost
                    break
    if refusing.refused:
        note(scene, "met")


def resume_while_refused(scene: Scene, refusal: Refusal | None, way: Way) -> None:
    """Resume the interrupted runs, and read their events to the end."""
    refusing = Refusing(scene.place, refusal)
    with open_interrupted(scene.place, refusing) as store, service_of(scene, store) as service:
        try:
            read_events(service.resume(), way, lambda event: note_event(scene, event))
        except StoreError as error:
            if error.reason != "full":  # the run was not acquired; the next process acquires it
                raise
    if refusing.refused:
        note(scene, "met")


def read_events(
    stream: EventStream, way: Way, on_event: Callable[[Event], object] = lambda _event: None
) -> list[Event]:
    """Read a stream to its end; ``on_event`` gets each event when it arrives."""
    events: list[Event] = []

    async def read() -> None:
        async for event in stream:
            on_event(event)
            events.append(event)

    if way == "async":
        LOOP.run(read())
        return events
    for event in stream:
        on_event(event)
        events.append(event)
    return events


def check_notes(scene: Scene) -> None:
    """Check that everything a reader saw as saved is in the store, before any run is resumed."""
    notes = notes_of(scene)
    with open_store(scene.place) as store:
        found = store.run(list_runs, None)
        if not found:
            assert not [each for each in notes if each not in {REFUSED, "met"}]
            return
        (info,) = found
        turns = {turn.id for turn in store.run(path, CONVERSATION)}
        done = {
            f"{call.name}-{call.number // (len(NAMES) + 1)}"
            for call in store.run(calls, info.id)
            if call.kind == "tool" and call.state in {"done", "unknown"}
        }
    for line in notes:
        word, _, what = line.partition(" ")
        if word == "saved":
            assert what in turns, "a turn was shown as saved, and is lost"
        elif word == "tool":
            assert what in done, "a result was shown, and is lost"
        elif word == "over":
            assert info.status != "running", "the end was shown, and is lost"
