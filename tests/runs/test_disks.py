"""Disks that are full or read-only during an answer."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pytest
from tests.runs.disks import (
    break_disk,
    files_no_larger_than,
    fill,
    make_image,
    mount_image,
    mount_small,
    own_mounts,
    why_not,
)
from tests.runs.refused import WAYS, Way, check_notes, note_event, read_events
from tests.runs.scene import (
    CONVERSATION,
    Scene,
    check,
    context,
    ended,
    executions,
    provider,
    registry,
    resume,
    rounds,
    run_process,
    simulator,
    snapshot,
)
from tests.runs.single_runs import begun, driven, killed, only

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.errors import StoreError
from multi_llm_chat.events import Event, RunFinished, RunWaiting, TurnFinished
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.store import open_store, path
from multi_llm_chat.testing.simulator import Say, Simulator
from multi_llm_chat.testing.simulator.request_log import RecordedRequest
from multi_llm_chat.tools import ToolRegistry

pytestmark = pytest.mark.fault

DISK: Final = "disk"
#: Room for a store and an answer, and not much more.
SMALL: Final = 2 * 2**20


class Spoiling:
    """The usual tools; ``spoil`` runs when the first of them is done."""

    def __init__(self, tools: ToolRegistry, spoil: Callable[[], None]) -> None:
        self._tools = tools
        self._spoils = [spoil]
        self.definitions = tools.definitions
        self.submit = tools.submit
        self.resume = tools.resume

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        result = await self._tools.execute(call, conversation=conversation)
        while self._spoils:
            self._spoils.pop()()
        return result


@pytest.fixture
def scene(model: Simulator, tmp_path: Path) -> Scene:
    place = tmp_path / DISK / "c.db"
    return Scene(str(place), model.base_url("openai-chat"), str(tmp_path / "ledger"))


def _fill_a_small_disk(scene: Scene) -> None:
    """Let the disk be full from the end of the first tool until the run reports it."""
    folder = Path(scene.place).parent
    ballast = folder / "ballast"
    troubles: list[str] = []
    own_mounts()
    mount_small(folder, SMALL)

    def trouble(text: str) -> None:
        troubles.append(text)
        ballast.unlink(missing_ok=True)

    with open_store(scene.place) as store:
        tools = Spoiling(registry(scene.ledger, 0), lambda: fill(ballast))
        run_id = begun(store)
        assert asyncio.run(driven(scene, store, run_id, tools, on_trouble=trouble)) == "done"
    assert len(troubles) == 1
    assert "disk is full" in troubles[0]
    check(scene, snapshot(scene))


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_a_run_waits_for_space_on_a_full_disk_and_does_nothing_twice(scene: Scene):
    assert run_process(_fill_a_small_disk, scene) == 0


def _break_the_disk(scene: Scene, connection: "Connection") -> None:
    """Make the disk read-only at the end of the first tool: the run waits, and reports it."""
    folder = Path(scene.place).parent
    own_mounts()
    mount_image(folder.with_name("image"), folder)

    def trouble(text: str) -> None:
        connection.send(text)

    with open_store(scene.place) as store:
        tools = Spoiling(registry(scene.ledger, 0), lambda: break_disk(folder))
        asyncio.run(driven(scene, store, begun(store), tools, on_trouble=trouble))


def _look_at_the_disk(scene: Scene) -> None:
    """Check that the run resumes after the disk is mounted again."""
    folder = Path(scene.place).parent
    own_mounts()
    mount_image(folder.with_name("image"), folder)
    before = snapshot(scene)
    assert sum(before.executed.values()) == 3
    assert check(scene, before).epoch == 2


@pytest.mark.skipif(why_not("mkfs.ext4") is not None, reason=str(why_not("mkfs.ext4")))
def test_a_run_waits_while_its_disk_is_read_only_and_resumes_when_it_is_mounted_again(
    scene: Scene, tmp_path: Path
):
    make_image(tmp_path / "image")
    receiver, sender = context().Pipe(duplex=False)
    process = context().Process(target=_break_the_disk, args=(scene, sender))
    process.start()
    # The first failed write may not know the cause yet; the process waits until it is killed.
    while "read-only" not in receiver.recv():
        pass
    process.kill()
    ended(process)
    assert run_process(_look_at_the_disk, scene) == 0


@pytest.mark.skipif(why_not() is None, reason="a full disk can be had here")
def test_a_run_waits_until_files_may_grow_again(tmp_path: Path):
    place = tmp_path / "chats.db"
    limits: list[AbstractContextManager[Callable[[], None]]] = []
    lifts: list[Callable[[], None]] = []
    troubles: list[str] = []

    def full(request: RecordedRequest) -> Say:
        """The disk is full from the second question on."""
        said = rounds(request)
        if request.number == 1:
            limits.append(files_no_larger_than(4096))
            lifts.append(limits[0].__enter__())
        return said

    def trouble(text: str) -> None:
        troubles.append(text)
        lifts[0]()

    with simulator(full) as server:
        scene = Scene(str(place), server.base_url("openai-chat"), str(tmp_path / "ledger"))
        with open_store(scene.place) as store:
            run_id = begun(store)
            assert asyncio.run(driven(scene, store, run_id, on_trouble=trouble)) == "done"
        assert all("disk is full" in text for text in troubles)
        check(scene, snapshot(scene))


def test_a_full_disk_at_the_start_is_reported_and_the_run_stays(tmp_path: Path, model: Simulator):
    scene = Scene(str(tmp_path / "c.db"), model.base_url("openai-chat"), str(tmp_path / "ledger"))
    killed(scene, 4)
    with open_store(scene.place) as store:
        with files_no_larger_than(1024), pytest.raises(StoreError) as caught:
            asyncio.run(resume(scene, store))
        assert caught.value.reason == "full"
        assert only(store).status == "running"
    check(scene, snapshot(scene))


def _ask_on_a_small_disk(scene: Scene, way: Way, result: "Connection") -> None:
    """Let the disk be full from the end of the first tool until the reader knows of it."""
    folder = Path(scene.place).parent
    ballast = folder / "ballast"
    own_mounts()
    mount_small(folder, SMALL)
    with open_store(scene.place) as store:
        tools = Spoiling(registry(scene.ledger, 0), lambda: fill(ballast))
        service = ChatService([provider(scene)], store=store, tools=tools)
        service.conversation = CONVERSATION
        waits: list[str] = []

        def watch(event: Event) -> None:
            note_event(scene, event)
            if isinstance(event, RunWaiting):
                waits.append(event.text)
                check_notes(scene)  # while the disk is full, nothing is shown as saved that is not
                ballast.unlink(missing_ok=True)

        with service:
            events = read_events(service.process_message("Is everything in order?"), way, watch)
        assert isinstance(events[-2], RunFinished)
        assert waits
        assert all("disk is full" in text for text in waits)
    check_notes(scene)
    check(scene, snapshot(scene))
    result.send(len(waits))


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_somebody_watches_waits_for_space_and_nothing_shown_is_lost(
    scene: Scene, way: Way
):
    receiver, sender = context().Pipe(duplex=False)
    assert run_process(_ask_on_a_small_disk, scene, way, sender) == 0
    assert receiver.recv() >= 1


def _stop_on_a_small_disk(scene: Scene) -> None:
    """Keep the disk full: the user stops the answer, and an event says what is not saved."""
    folder = Path(scene.place).parent
    own_mounts()
    mount_small(folder, SMALL)
    store = open_store(scene.place)
    tools = Spoiling(registry(scene.ledger, 0), lambda: fill(folder / "ballast"))
    service = ChatService([provider(scene)], store=store, tools=tools)
    service.conversation = CONVERSATION

    def stop(event: Event) -> None:
        if isinstance(event, RunWaiting):
            service.stop()

    events = read_events(service.process_message("Is everything in order?"), "plain", stop)
    finished = events[-2]
    assert isinstance(finished, RunFinished)
    assert finished.stop_reason == "cancelled"
    turns = [event for event in events if isinstance(event, TurnFinished)]
    assert [event.is_saved for event in turns] == [True, False]
    with pytest.raises(StoreError, match="not saved"):
        service.close()
    (folder / "ballast").unlink()
    assert service.host.close() == 0  # there is space: the rest is saved
    assert only(store).status == "cancelled"
    assert store.run(path, CONVERSATION) == list(service.turns)
    store.close()


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_stop_works_on_a_full_disk_and_closing_reports_what_is_not_saved(scene: Scene):
    assert run_process(_stop_on_a_small_disk, scene) == 0
    assert max(executions(scene).values()) == 1
