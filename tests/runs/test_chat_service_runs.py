"""Conversations whose runs belong to other processes, earlier programs, or workers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chat.stage import Read, read_async, read_plainly
from tests.runs.conftest import FEWER, places
from tests.runs.killing_store import Kill
from tests.runs.scene import (
    CONVERSATION,
    WORDS,
    Scene,
    check,
    context,
    ended,
    provider,
    registry,
    rounds,
    run_process,
    say_in_process,
    simulator,
    snapshot,
    text_of,
)
from tests.runs.worker_processes import new_engine, workers

from multi_llm_chat.chat.chat_service import ChatService
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.settings import Settings, SpeakerSettings
from multi_llm_chat.events import (
    MessageFinished,
    RunFinished,
    RunResumed,
    TextDelta,
    TurnFinished,
)
from multi_llm_chat.runs.dbos_queue import DbosQueue
from multi_llm_chat.runs.leases import UNFRAMED_RUNS, Lease, RunHost
from multi_llm_chat.store import Fence, RunInfo, list_runs, open_store
from multi_llm_chat.testing.simulator import Gate, Simulator

NewScene = Callable[..., Scene]


@pytest.fixture(params=FEWER)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    return places(request, tmp_path)


@pytest.fixture(params=[read_plainly, read_async], ids=["plain", "async"])
def read(request: pytest.FixtureRequest) -> Read:
    return request.param


def service_of(
    scene: Scene, store: Any, conversation: str | None = None, host: RunHost | None = None
) -> ChatService:
    tools = registry(scene.ledger, scene.tool_seconds)
    return ChatService(
        [provider(scene)], store=store, tools=tools, conversation=conversation, host=host
    )


def test_a_second_process_attaches_to_an_answer(new_scene: NewScene, read: Read):
    scene = new_scene(tool_seconds=0.1)
    process = context().Process(target=say_in_process, args=(scene, None))
    process.start()
    with open_store(scene.place) as store:
        while not store.run(list_runs, None):
            process.join(0.005)
        with service_of(scene, store, CONVERSATION) as service:
            events = read(service.attach())
            assert ended(process) == 0
            service.load()
            words = [text_of(turn) for turn in service.turns if turn.role == "robot"]
    assert words == list(WORDS)
    assert isinstance(events[-1], MessageFinished)
    if len(events) > 1:  # it may have ended before we came
        assert isinstance(events[-2], RunFinished)
        assert [text_of(each.turn) for each in events if isinstance(each, TurnFinished)][
            -1
        ] == WORDS[2]


def workspace_of(scene: Scene, folder: Path) -> Workspace:
    speaker = SpeakerSettings("openai-chat", base_url=scene.url)
    folders = Folders(folder / "config", folder / "data", folder / "state")
    return Workspace(
        folders,
        keys=Keys(folders=folders, environment={"OPENAI_API_KEY": "key"}),
        settings=Settings(speakers={"robot": speaker}),
        place=scene.place,
    )


def test_a_workspace_resumes_interrupted_runs(new_scene: NewScene, tmp_path: Path):
    scene = new_scene()
    assert run_process(say_in_process, scene, Kill(6, "inside")) != 0
    before = snapshot(scene)
    found: list[RunInfo] = []
    with workspace_of(scene, tmp_path) as workspace:
        tools = registry(scene.ledger, 0)
        workspace.__dict__["tools"] = tools
        workspace.resume_in_background(on_found=found.append).join()
    assert [info.speaker for info in found] == ["robot"]
    check(scene, before)


def test_closing_a_workspace_leaves_the_rest_for_the_next_start(
    new_place: Callable[[], str], tmp_path: Path
):
    gate = Gate(after_frames=2)

    armed: list[Gate] = []

    def held(request: Any) -> Any:
        return rounds(request).having(faults=[armed.pop()] if armed else [])

    with simulator(held) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "ledger"))
        assert run_process(say_in_process, scene, Kill(1, "after")) != 0
        before = snapshot(scene)
        armed.append(gate)
        with workspace_of(scene, tmp_path) as workspace:
            workspace.__dict__["tools"] = registry(scene.ledger, 0)
            workspace.resume_in_background()
            gate.wait_reached()
        gate.open()
        with open_store(scene.place) as store:
            assert store.run(list_runs)[0].is_free
        check(scene, before)


def test_a_process_with_many_runs_loses_no_words(model: Simulator, tmp_path: Path, read: Read):
    """Each run then reads its reply once per frame, and merges the deltas of a frame."""
    scene = Scene(str(tmp_path / "c.db"), model.base_url("openai-chat"), str(tmp_path / "l"))
    with open_store(scene.place) as store:
        host = RunHost(store)
        others = [Lease(host, Fence(f"other {number}", 1)) for number in range(UNFRAMED_RUNS + 1)]
        for lease in others:
            lease.hold()
        assert host.frame() > 0
        with service_of(scene, store, host=host) as service:
            events = read(service.process_message("Is everything in order?"))
            turns = [text_of(turn) for turn in service.turns if turn.role == "robot"]
        for lease in others:
            lease.release()
    assert turns == list(WORDS)
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == "".join(WORDS)


@pytest.fixture
def queue(postgres_server: str) -> Iterator[tuple[str, DbosQueue]]:
    address = new_engine(postgres_server)
    engine = DbosQueue(address)
    yield address, engine
    engine.close()


def test_workers_answer_in_place_of_the_service(
    postgres: str, model: Simulator, tmp_path: Path, queue: tuple[str, DbosQueue], read: Read
):
    address, engine = queue
    scene = Scene(postgres, model.base_url("openai-chat"), str(tmp_path / "l"), lease=1.0)
    with workers(1, scene, address), open_store(postgres) as store:
        host = RunHost(store, queue=engine)
        with service_of(scene, store, host=host) as service:
            events = read(service.process_message("Is everything in order?"))
            assert [text_of(turn) for turn in service.turns if turn.role == "robot"] == list(WORDS)
    assert isinstance(events[-2], RunFinished)
    assert events[-2].usage.output_tokens > 0
    kinds = {type(event) for event in events}
    assert TextDelta in kinds
    assert RunResumed not in kinds


def test_an_answer_of_a_worker_is_stopped_and_kept(
    postgres: str, tmp_path: Path, queue: tuple[str, DbosQueue]
):
    address, engine = queue
    gate = Gate(after_frames=3)
    with simulator(lambda request: rounds(request).having(faults=[gate])) as server:
        scene = Scene(postgres, server.base_url("openai-chat"), str(tmp_path / "l"), lease=0.5)
        with workers(1, scene, address), open_store(postgres) as store:
            host = RunHost(store, queue=engine)
            with service_of(scene, store, host=host) as service:
                events: list[Any] = []
                for event in service.process_message("Is everything in order?"):
                    events.append(event)
                    if isinstance(event, TextDelta):
                        service.stop()
        gate.open()
    assert isinstance(events[-2], RunFinished)
    assert events[-2].stop_reason == "cancelled"
