"""Programs with functions and a provider object of their own, killed at random: ``resume`` continues their runs."""

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, closing
from pathlib import Path

import pytest
from tests.chat.stage import LOOP, Read, kinds, read_async, read_plainly
from tests.runs.conftest import FEWER, places
from tests.runs.killing_store import PHASES, Kill, open_killing
from tests.runs.refused import check_notes, note, note_event, notes_of
from tests.runs.scene import (
    CONVERSATION,
    WORDS,
    Scene,
    check,
    context,
    ended,
    registry,
    rounds,
    run_process,
    say_in_process,
    simulator,
    snapshot,
    text_of,
)
from tests.runs.single_runs import killed, only
from tests.store.processes import SLOW

from multi_llm_chat.agent.providers import LLMProvider
from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.config.settings import ContextSettings, Settings
from multi_llm_chat.errors import StoreError
from multi_llm_chat.events import (
    Event,
    HistoryCompressed,
    MessageFinished,
    RunFinished,
    RunResumed,
    RunStarted,
    TextDelta,
    TurnFinished,
)
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.runs.channel import EventSink
from multi_llm_chat.runs.event_stream import EventStream
from multi_llm_chat.store import Store, append, create, list_runs, open_store, path
from multi_llm_chat.testing.simulator import Gate, Say, Simulator
from multi_llm_chat.testing.simulator.request_log import RecordedRequest

KILLED = -signal.SIGKILL
POINTS = 100 if SLOW else 8
#: About the number of a run's transactions.
TRANSACTIONS = 20


class Robot(LLMProvider):
    """A program's own provider."""

    default_provider = "openai-chat"


def service_of(
    scene: Scene,
    store: Store | str,
    *,
    speaker: str = "robot",
    conversation: str | None = CONVERSATION,
    settings: Settings | None = None,
) -> ChatService:
    return ChatService(
        [Robot(api_key="key", base_url=scene.url, speaker=speaker)],
        store=store,
        tools=registry(scene.ledger, scene.tool_seconds),
        settings=settings,
        conversation=conversation,
    )


@pytest.fixture(params=FEWER)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    return places(request, tmp_path)


@pytest.fixture(params=[read_plainly, read_async], ids=["plain", "async"])
def read(request: pytest.FixtureRequest) -> Iterator[Read]:
    yield request.param
    LOOP.close()


def _ask(scene: Scene, kill: Kill | None) -> None:
    with open_killing(scene.place, kill) as store, service_of(scene, store, conversation=None) as service:  # fmt: skip
        service.conversation = CONVERSATION
        for event in service.process_message("Is everything in order?"):
            note_event(scene, event)


def _resume(scene: Scene, kill: Kill | None) -> None:
    """Resume, and read the events to the end; record their kinds."""
    with open_killing(scene.place, kill) as store, service_of(scene, store) as service:
        for event in service.resume():
            note_event(scene, event)
            if not isinstance(event, TextDelta):
                note(scene, f"resumed {type(event).__name__}")


@pytest.mark.fault
def test_a_program_killed_at_random_points_finishes_by_resume(new_scene: Callable[..., Scene]):
    chance = random.Random(11)
    resumed = 0
    for _ in range(POINTS):
        scene = new_scene()
        kill = Kill(chance.randint(1, TRANSACTIONS), chance.choice(PHASES))
        assert run_process(_ask, scene, kill) in {KILLED, 0}
        check_notes(scene)
        before = snapshot(scene)
        again = Kill(chance.randint(1, TRANSACTIONS), chance.choice(PHASES))
        if not _statuses(scene):
            # It was killed before the message was saved: there is no conversation to resume.
            check(scene, before)
            continue
        for attempt in (again, None):
            is_running, noted = _statuses(scene) == ["running"], len(notes_of(scene))
            code = run_process(_resume, scene, attempt)
            assert code == 0 or (code == KILLED and attempt is not None)
            check_notes(scene)
            if code == 0:
                _check_resumed(notes_of(scene)[noted:], is_running=is_running)
        assert _statuses(scene) == ["done"]
        turns = Counter(line for line in notes_of(scene) if line.startswith("saved"))
        assert set(turns.values()) <= {1}, "a turn was shown twice"
        resumed += check(scene, before).epoch > 1
    assert resumed


def _statuses(scene: Scene) -> list[str]:
    with open_store(scene.place) as store:
        return [info.status for info in store.run(list_runs, None)]


def _check_resumed(notes: list[str], *, is_running: bool) -> None:
    """Check the notes of a program that resumed: it resumed an unfinished run, or nothing."""
    kept = [line.removeprefix("resumed ") for line in notes if line.startswith("resumed")]
    assert kept[-1] == "MessageFinished"
    if is_running:
        assert kept[-2] == "RunFinished"
        assert "RunResumed" in kept or "RunStarted" in kept
    else:
        assert kept == ["MessageFinished"]


@pytest.mark.fault
def test_resume_continues_and_every_turn_comes_once(new_scene: Callable[..., Scene], read: Read):
    scene = new_scene()
    killed(scene, 9)
    before = snapshot(scene)
    with open_store(scene.place) as store, service_of(scene, store) as service:
        kept = [turn.id for turn in store.run(path, CONVERSATION)]
        events = read(service.resume())
        assert [text_of(turn) for turn in service.turns if turn.role == "robot"] == list(WORDS)
        assert service.answering == ()
    assert isinstance(events[0], RunResumed)
    assert isinstance(events[-2], RunFinished)
    assert isinstance(events[-1], MessageFinished)
    assert events[-1].answered == ("robot",)
    new = [event.turn.id for event in events if isinstance(event, TurnFinished)]
    assert not set(kept) & set(new)
    assert len(kept) + len(new) == 6
    assert check(scene, before).epoch == 2


@pytest.mark.fault
def test_attach_returns_at_once_for_an_interrupted_run(new_scene: Callable[..., Scene], read: Read):
    scene = new_scene()
    info = killed(scene, 6)
    with open_store(scene.place) as store, service_of(scene, store) as service:
        (event,) = read(service.attach())
        assert isinstance(event, MessageFinished)
        assert (event.answered, event.failed) == ((), ())
        assert only(store).epoch == info.epoch
    check(scene, snapshot(scene))


@pytest.mark.fault
def test_attach_ends_when_the_process_that_answers_is_killed(
    new_place: Callable[[], str], tmp_path: Path, read: Read
):
    gate = Gate(after_frames=4)
    gates = [gate]

    def held(request: RecordedRequest) -> Say:
        return rounds(request).having(faults=[gates.pop()] if gates else [])

    with simulator(held) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "ledger"))
        process = context().Process(target=say_in_process, args=(scene, None))
        process.start()
        gate.wait_reached()
        with open_store(scene.place) as store, service_of(scene, store) as service:
            process.kill()
            ended(process)
            gate.open()
            with pytest.raises(StoreError, match=r"resume\(\)") as caught:
                read(service.follow(only(store).id, "robot"))
            assert caught.value.reason == "interrupted"
            assert service.answering == ()
            assert isinstance(read(service.resume())[-2], RunFinished)
        check(scene, snapshot(scene))


async def _first(stream: EventStream) -> Event:
    async with aclosing(aiter(stream)) as events:
        return await anext(events)


@pytest.mark.fault
@pytest.mark.parametrize("way", ["plain", "async"])
def test_who_leaves_an_answer_of_another_process_does_not_wait_for_it(
    new_place: Callable[[], str], tmp_path: Path, way: str
):
    gate = Gate(after_frames=4)
    gates = [gate]

    def held(request: RecordedRequest) -> Say:
        return rounds(request).having(faults=[gates.pop()] if gates else [])

    with simulator(held) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "ledger"))
        process = context().Process(target=say_in_process, args=(scene, None))
        process.start()
        gate.wait_reached()
        with open_store(scene.place) as store, service_of(scene, store) as service:
            for stream in (service.attach(), service.follow(only(store).id, "robot")):
                if way == "async":
                    assert isinstance(LOOP.run(_first(stream)), RunStarted)
                else:
                    with closing(iter(stream)) as events:
                        assert isinstance(next(events), RunStarted)
                assert service.answering == ()
        LOOP.close()
        gate.open()
        assert ended(process) == 0
        assert check(scene, snapshot(scene)).epoch == 1


@pytest.mark.fault
def test_retry_continues_an_interrupted_answer(
    new_place: Callable[[], str], tmp_path: Path, read: Read
):
    with simulator() as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "ledger"))
        killed(scene, 9)
        asked, before = len(server.requests), snapshot(scene)
        with open_store(scene.place) as store, service_of(scene, store) as service:
            done = sum(turn.role == "robot" for turn in store.run(path, CONVERSATION))
            assert done
            events = read(service.retry())
            assert kinds(events)[0] == "RunResumed"
            # The interrupted call runs again, a finished one does not.
            assert len(server.requests) - asked == len(WORDS) - done
        assert check(scene, before).epoch == 2


@pytest.mark.fault
def test_resume_leaves_the_runs_of_others_alone(new_scene: Callable[..., Scene], read: Read):
    scene = new_scene()
    info = killed(scene, 6)
    with open_store(scene.place) as store:
        with service_of(scene, store, speaker="somebody") as service:
            (event,) = read(service.resume())
            assert isinstance(event, MessageFinished)
        with service_of(scene, store) as service:
            (event,) = read(service.resume("another conversation"))
            assert isinstance(event, MessageFinished)
        assert (only(store).status, only(store).epoch) == ("running", info.epoch)
        with service_of(scene, store) as service:
            assert isinstance(read(service.resume(CONVERSATION))[-2], RunFinished)
    check(scene, snapshot(scene))


SMALL = Settings(context=ContextSettings(windows={"*": 6_000}))


def _long(store: Store) -> None:
    """Return a conversation that does not fit the window."""
    store.run(create, identifier=CONVERSATION)
    for number in range(12):
        words = f"number {number} " + "word " * 600
        store.run(append, CONVERSATION, [Turn("user", (Text(words),)), Turn("robot", (Text("ok"),))])  # fmt: skip


def _cuts(events: Sequence[Event]) -> list[HistoryCompressed]:
    return [event for event in events if isinstance(event, HistoryCompressed)]


def _opened(stream: EventStream, gate: Gate) -> EventStream:
    """Read the stream; open the gate when the run is followed."""

    async def produce(sink: EventSink) -> None:
        async for event in stream:
            gate.open()
            sink.put([event])

    return EventStream(produce, lambda: None)


@pytest.mark.parametrize("attaches", [True, False], ids=["attach", "follow"])
def test_a_followed_run_reports_how_it_was_compressed_and_the_next_request_starts_there(
    new_place: Callable[[], str], tmp_path: Path, read: Read, attaches: bool
):
    gate = Gate(after_frames=2)
    says = [Say("One two three four.", delta_size=4, faults=[gate]), Say("Short."), Say("Short.")]
    with Simulator({"openai-chat": says}) as server, open_store(new_place()) as store:
        scene = Scene("", server.base_url("openai-chat"), str(tmp_path / "ledger"))
        _long(store)
        with (
            service_of(scene, store, settings=SMALL) as driving,
            service_of(scene, store, settings=SMALL) as following,
            service_of(scene, store, settings=SMALL) as forgetful,
        ):
            driven: list[Event] = []
            thread = threading.Thread(
                target=lambda: driven.extend(driving.process_message("And now?"))
            )
            thread.start()
            gate.wait_reached()
            stream = following.attach() if attaches else following.follow(only(store).id, "robot")
            attached = _cuts(read(_opened(stream, gate)))
            thread.join()
            assert attached == _cuts(driven)
            assert len(following.turns) == 26
            assert attached[0].note.cut.gone > 0
            assert _cuts(read(following.process_message("In short?"))) == []
            sent = str(server.requests[-1].body)
            assert "number 0 " not in sent
            assert "number 11 " in sent
            assert _cuts(read(forgetful.process_message("In short?")))


def _ask_at_length(scene: Scene, kill: Kill) -> None:
    with open_killing(scene.place, kill) as store, service_of(scene, store, settings=SMALL) as service:  # fmt: skip
        list(service.process_message("And now?"))


@pytest.mark.fault
def test_a_resumed_run_reports_how_it_was_compressed_and_the_next_request_starts_there(
    new_scene: Callable[..., Scene], read: Read
):
    scene = new_scene()
    with open_store(scene.place) as store:
        _long(store)
    assert run_process(_ask_at_length, scene, Kill(1, "after")) == KILLED
    with open_store(scene.place) as store, service_of(scene, store, settings=SMALL) as service:
        assert _cuts(read(service.resume()))
        assert _cuts(read(service.process_message("In short?"))) == []
