"""How a wait for the store ends: the store accepts again, the user stops, the program ends, or the timeout is over."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.chat.stage import LOOP, Read, kinds, read_async, read_plainly
from tests.runs.killing_store import open_interrupted
from tests.runs.refusing import Refusal, Refusing
from tests.runs.scene import (
    CONVERSATION,
    NAMES,
    WORDS,
    Scene,
    executions,
    provider,
    registry,
    rounds,
    simulator,
    text_of,
)

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.errors import StoreError
from multi_llm_chat.events import (
    Event,
    MessageFinished,
    RunFailed,
    RunFinished,
    RunWaiting,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.store import RunInfo, calls, list_runs, open_store, path
from multi_llm_chat.testing.simulator import Say
from multi_llm_chat.testing.simulator.request_log import RecordedRequest

#: A short timeout in seconds.
SHORT = 0.2


@pytest.fixture(params=[read_plainly, read_async], ids=["plain", "async"])
def read(request: pytest.FixtureRequest) -> Iterator[Read]:
    yield request.param
    LOOP.close()


class Trouble:
    """A conversation whose store refuses to write from a chosen moment on."""

    def __init__(self, scene: Scene, refusing: Refusing, patience: float | None) -> None:
        self.scene = scene
        self.refusing = refusing
        self.store = open_interrupted(scene.place, refusing)
        self.service = ChatService(
            [provider(scene)],
            store=self.store,
            tools=registry(scene.ledger, 0),
            store_patience=patience,
        )
        self.service.conversation = CONVERSATION

    def ask(
        self, read: Read, on_event: Callable[[Event], object] = lambda _event: None
    ) -> list[Event]:
        """Send a message; ``on_event`` gets each event before its reader does."""
        return read(_observed(self.service.process_message("In order?"), on_event))

    def run(self) -> RunInfo:
        (info,) = self.store.run(list_runs, None)
        return info

    def words(self) -> list[str]:
        turns = self.store.run(path, CONVERSATION)
        return [text_of(turn) for turn in turns if turn.role == "robot"]

    def tool_states(self) -> list[str]:
        journal = self.store.run(calls, self.run().id)
        return [call.state for call in journal if call.kind == "tool"]


def _observed(stream: EventStream, on_event: Callable[[Event], object]) -> EventStream:
    async def produce(sink: EventSink) -> None:
        async for event in stream:
            on_event(event)
            sink.put([event])

    return EventStream(produce, lambda: None)


@contextmanager
def trouble(
    tmp_path: Path,
    *,
    request: int,
    seconds: float | None = None,
    patience: float | None = None,
) -> Generator[Trouble]:
    """Let the store refuse from the model's receipt of this request on, for so many seconds; None means for ever."""
    place = str(tmp_path / "c.db")
    refusing = Refusing(place, None)

    def rule(asked: RecordedRequest) -> Say:
        if asked.number == request:
            refusing.refuse(Refusal(0, "before", seconds))
        return rounds(asked)

    with simulator(rule) as server:
        scene = Scene(place, server.base_url("openai-chat"), str(tmp_path / "ledger"))
        made = Trouble(scene, refusing, patience)
        try:
            yield made
        finally:
            refusing.allow()
            made.store.close()


def _is_wait(event: Event) -> bool:
    return isinstance(event, RunWaiting) and event.reason == "store"


def _background_writes() -> None:
    """Wait until the threads of this process that write for runs have nothing left to write."""
    for thread in threading.enumerate():
        if thread.name == "multi_llm_chat runs":
            thread.join()


@pytest.mark.parametrize("request_number", [0, 1, 2])
def test_patience_ends_and_no_further_tool_runs(tmp_path: Path, read: Read, request_number: int):
    with trouble(tmp_path, request=request_number, patience=SHORT) as made:
        events = made.ask(read)
        assert any(map(_is_wait, events))
        *_, failed, last = events
        assert isinstance(failed, RunFailed)
        assert failed.error.kind == "StoreError"
        assert "disk is full" in failed.error.message
        assert "Free space" in failed.error.message
        assert "--no-store" in failed.error.message
        assert isinstance(last, MessageFinished)
        assert last.failed == ("robot",)
        # All earlier text was shown; nothing unsaved is shown as saved.
        deltas = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert deltas == "".join(WORDS[: request_number + 1])
        finished = [event for event in events if isinstance(event, TurnFinished)]
        assert [event.is_saved for event in finished] == [True] * (2 * request_number) + [False]
        assert sum(executions(made.scene).values()) == len(NAMES) * min(request_number, 2)
        assert not made.service.is_saved
        assert made.service.answering == ()
        # The store accepts again: the remaining writes happen in the background.
        made.refusing.allow()
        _background_writes()
        assert made.service.is_saved
        assert made.run().status == "failed"
        assert made.words() == list(WORDS[: request_number + 1])
        made.service.close()


def test_a_result_that_cannot_be_saved_starts_no_other_tool(tmp_path: Path, read: Read):
    with trouble(tmp_path, request=-1, patience=SHORT) as made:
        refused = Refusal(0, "before", None)

        def refuse(event: Event) -> None:
            if isinstance(event, ToolStarted):
                made.refusing.refuse(refused)

        gate = made.service
        events = made.ask(read, refuse)
        assert isinstance(events[-2], RunFailed)
        assert sum(executions(made.scene).values()) <= len(NAMES)
        shown = {event.call.name for event in events if isinstance(event, ToolFinished)}
        made.refusing.allow()
        gate.close()
        assert made.run().status == "failed"
        assert made.tool_states().count("done") >= len(shown)


@pytest.mark.parametrize("request_number", [0, 1, 2])
def test_stop_ends_the_wait(tmp_path: Path, read: Read, request_number: int):
    with trouble(tmp_path, request=request_number) as made:
        events = made.ask(read, lambda event: made.service.stop() if _is_wait(event) else None)
        finished = [event for event in events if isinstance(event, TurnFinished)]
        assert not finished[-1].is_saved
        ended = events[-2]
        assert isinstance(ended, RunFinished)
        if request_number < 2:
            assert ended.stop_reason == "cancelled"
        assert kinds(events)[-1] == "MessageFinished"
        assert sum(executions(made.scene).values()) == len(NAMES) * min(request_number, 2)
        assert not made.service.is_saved
        assert (
            text_of(made.service.turns[-1 if request_number == 2 else -2])
            == (WORDS[request_number])
        )
        made.refusing.allow()
        made.service.close()
        assert made.service.is_saved
        assert made.run().status == ("cancelled" if request_number < 2 else "done")
        assert made.words() == list(WORDS[: request_number + 1])
        assert made.store.run(path, CONVERSATION) == list(made.service.turns)


def test_a_run_continues_when_the_store_accepts_again(tmp_path: Path, read: Read):
    with trouble(tmp_path, request=1, seconds=SHORT) as made:
        events = made.ask(read)
        assert any(map(_is_wait, events))
        assert isinstance(events[-2], RunFinished)
        assert made.words() == list(WORDS)
        assert made.service.is_saved
        assert all(event.is_saved for event in events if isinstance(event, TurnFinished))
        made.service.close()


@pytest.mark.judge
def test_closing_reports_what_is_not_saved(tmp_path: Path):
    with trouble(tmp_path, request=1) as made:
        made.ask(read_plainly, lambda event: made.service.stop() if _is_wait(event) else None)
        with pytest.raises(StoreError, match="not saved") as caught:
            made.service.close()
        assert caught.value.reason == "unsaved"


def test_closing_saves_what_the_store_accepts_meanwhile(tmp_path: Path):
    with trouble(tmp_path, request=1, seconds=1.0) as made:
        made.ask(read_plainly, lambda event: made.service.stop() if _is_wait(event) else None)
        assert not made.service.is_saved
        asyncio.run(made.service.aclose())
        assert made.run().status == "cancelled"
        assert made.words() == list(WORDS[:2])


def test_closing_while_a_run_waits_stops_it_and_reports_what_is_not_saved(tmp_path: Path):
    with trouble(tmp_path, request=1) as made:
        waiting = threading.Event()
        events: list[Event] = []

        def read() -> None:
            events.extend(
                made.ask(read_plainly, lambda event: waiting.set() if _is_wait(event) else None)
            )

        reader = threading.Thread(target=read)
        reader.start()
        waiting.wait()
        with pytest.raises(StoreError, match="not saved"):
            made.service.close()
        reader.join()
        assert isinstance(events[-2], RunFinished)


def test_a_message_that_cannot_be_saved_is_refused_and_can_be_sent_again(
    tmp_path: Path, read: Read
):
    with trouble(tmp_path, request=-1) as made:
        made.refusing.refuse(Refusal(0, "before", None))
        with pytest.raises(StoreError) as caught:
            made.ask(read)
        assert caught.value.reason == "full"
        assert made.service.turns == ()
        assert made.service.run_ids == frozenset()
        made.refusing.allow()
        assert isinstance(made.ask(read)[-2], RunFinished)
        assert made.words() == list(WORDS)
        made.service.close()


def _is_cancelled(events: list[Event]) -> bool:
    ended = events[-2]
    was_asked = any(isinstance(event, TextDelta) for event in events)
    return isinstance(ended, RunFinished) and ended.stop_reason == "cancelled" and not was_asked


def test_stop_works_while_the_message_is_being_saved(tmp_path: Path):
    with trouble(tmp_path, request=-1) as made:
        made.ask(read_plainly)
        events: list[Event] = []
        reader = threading.Thread(target=lambda: events.extend(made.ask(read_plainly)))
        with closing(sqlite3.connect(made.scene.place, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # another program writes: the message waits for it
            reader.start()
            while not made.service.run_ids:
                reader.join(0.005)
            made.service.stop()
            other.execute("ROLLBACK")
        reader.join()
        assert _is_cancelled(events)
        made.service.close()


async def _all(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


@pytest.mark.parametrize("steps", range(2, 12))
def test_stop_works_from_the_first_step_of_an_action(tmp_path: Path, steps: int):
    """While the conversation is loaded, while the message is saved, and afterwards."""

    async def ask_and_stop(service: ChatService) -> list[Event]:
        reading = asyncio.create_task(_all(service.process_message("Go.")))
        for _ in range(steps):
            await asyncio.sleep(0)
        service.stop()
        return await reading

    with trouble(tmp_path, request=-1) as made:
        assert _is_cancelled(asyncio.run(ask_and_stop(made.service)))
        made.service.close()


def test_a_killed_program_leaves_what_it_had_not_saved(tmp_path: Path):
    """The end of a run that was never saved is not known to the next process: it resumes the run."""
    with trouble(tmp_path, request=1, patience=SHORT) as made:
        made.ask(read_plainly)
        assert made.run().status == "running"
        with open_store(made.scene.place) as other:
            assert other.run(list_runs)[0].owner == made.run().owner
