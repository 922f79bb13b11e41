"""A run when something goes wrong: its model, its tools, its store, its program."""

import asyncio
import random
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.runs.conftest import FEWER, places
from tests.runs.scene import (
    CONVERSATION,
    WORDS,
    Scene,
    context,
    ended,
    finish,
    provider,
    resolver,
    rounds,
    run_process,
    say,
    say_in_process,
    simulator,
    stream_of,
    text_of,
    words_by_turn,
)
from tests.runs.single_runs import begun, die_in_a_tool, driven, killed, only

from multi_llm_chat.event_codec import read_row
from multi_llm_chat.events import Event, RunFinished
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.http._network_settings import Timeouts
from multi_llm_chat.runs.leases import RunHost
from multi_llm_chat.runs.recovery import MOST_ATTEMPTS, drive_run
from multi_llm_chat.store import (
    Store,
    append,
    calls,
    children,
    heads,
    list_runs,
    move_head,
    open_store,
    path,
    read_events,
    reopen_run,
    run_info,
    stop_run,
)
from multi_llm_chat.store.transaction import read_json
from multi_llm_chat.testing.simulator import Disconnect, Gate, Hang, Say, Simulator, Status
from multi_llm_chat.testing.simulator.request_log import RecordedRequest
from multi_llm_chat.tools import ToolRegistry

NewScene = Callable[..., Scene]
#: How often a page is loaded again within one stream.
RELOADS = 100
#: The delay that a provider asks for, in seconds; our own delay would be shorter.
WAIT = 0.3


@pytest.fixture(params=FEWER)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    return places(request, tmp_path)


def test_a_run_that_kills_its_process_each_time_is_given_up(new_scene: NewScene):
    scene = new_scene()
    info = killed(scene, 2)
    with open_store(scene.place) as store:
        kills = 0
        while run_process(die_in_a_tool, scene):
            kills += 1
        # One more if the request to the model had to be repeated.
        assert kills in {MOST_ATTEMPTS, MOST_ATTEMPTS + 1}
        assert only(store).status == "failed"
        error = only(store).error
        assert error is not None
        assert "given up" in error.message
        assert store.run(reopen_run, info.id)
        assert asyncio.run(driven(scene, store, info.id)) == "done"


@pytest.mark.parametrize(
    ("spec", "speaker", "reason"),
    [
        ({"version": 99}, "robot", "another version"),
        ({"version": None}, "robot", "an older version"),
        ({}, "somebody", "There is no speaker"),
    ],
)
def test_a_run_that_cannot_be_resumed_says_why(
    new_scene: NewScene, spec: dict[str, Any], speaker: str, reason: str
):
    scene = new_scene()
    with open_store(scene.place) as store:
        run_id = begun(store, speaker, **spec)
        assert asyncio.run(driven(scene, store, run_id)) == "failed"
        error = only(store).error
        assert error is not None
        assert reason in error.message


def test_a_run_resumes_without_tools_that_no_longer_exist(new_scene: NewScene):
    scene = new_scene()
    info = killed(scene, 5)
    with open_store(scene.place) as store:
        status = asyncio.run(driven(scene, store, info.id, ToolRegistry(), dead=info.owner))
        assert status == "done"
        assert text_of(store.run(path, CONVERSATION)[-1]) == WORDS[2]


def test_a_stream_that_is_loaded_again_a_hundred_times_is_whole_each_time(
    new_place: Callable[[], str], tmp_path: Path
):
    chance, reloads, after = random.Random(3), 0, 0
    events: list[Event | None] = []
    gate = Gate(after_frames=4)

    def held(request: RecordedRequest) -> Say:
        """Answer slowly; the last words wait until the page has been loaded often enough."""
        said = rounds(request, delay=0.01)
        return said.having(faults=[*said.faults, gate]) if said.text == WORDS[2] else said

    with simulator(held) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "ledger"))
        process = context().Process(target=say_in_process, args=(scene, None))
        process.start()
        with open_store(scene.place) as store:
            while not store.run(list_runs, None):
                process.join(0.005)
            run_id = only(store).id
            while not (events and isinstance(events[-1], RunFinished)):
                reloads += only(store).status == "running"
                if reloads == RELOADS:
                    gate.open()
                new = store.run(read_events, run_id, after, limit=chance.randint(1, 3)).events
                events += [read_row(read_json(payload)) for _, payload in new]
                after = new[-1][0] if new else after
                # A new follower that reads from the beginning gets the same events.
                whole = store.run(read_events, run_id, limit=max(1, after)).events[:after]
                assert events == [read_row(read_json(payload)) for _, payload in whole]
            assert ended(process) == 0
            words = [text_of(turn) for turn in store.run(path, CONVERSATION) if turn.role == "robot"]  # fmt: skip
    assert reloads >= RELOADS
    words_of = words_by_turn([event for event in events if event is not None])
    assert [words_of[key] for key in words_of if not key.endswith(".tools")] == words == list(WORDS)


def test_an_operator_stops_a_run_wherever_it_is(new_place: Callable[[], str], tmp_path: Path):
    gate = Gate(after_frames=2)
    with simulator(lambda request: rounds(request).having(faults=[gate])) as server:
        scene = Scene(
            new_place(), server.base_url("openai-chat"), str(tmp_path / "ledger"), lease=2
        )
        process = context().Process(target=say_in_process, args=(scene, None))
        process.start()
        gate.wait_reached()
        with open_store(scene.place) as store:
            assert store.run(stop_run, only(store).id) == "asked"
            assert ended(process) == 0
            assert only(store).status == "cancelled"
            gate.open()
            assert text_of(store.run(path, CONVERSATION)[-1]).strip() in WORDS[0]


def test_a_stop_that_comes_before_anybody_has_the_run_ends_it(new_scene: NewScene):
    scene = new_scene()
    with open_store(scene.place) as store:
        run_id = begun(store)
        host = RunHost(store, lease=30)
        assert store.run(stop_run, run_id) == "stopped"
        assert asyncio.run(driven(scene, store, run_id)) is None
        assert host.runs == ()


def test_a_model_that_breaks_off_ends_the_run_with_what_it_said(
    new_place: Callable[[], str], tmp_path: Path
):
    with Simulator(
        [Say("Half of", delta_size=1, faults=[Disconnect(after_frames=5)]), Say("All.")]
    ) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "l"))
        with open_store(scene.place) as store:
            run_id = begun(store)
            assert asyncio.run(driven(scene, store, run_id)) == "failed"
            (half,) = store.run(path, CONVERSATION)[1:]
            assert half.meta["partial"] is True
            assert only(store).error is not None
            assert store.run(reopen_run, run_id)
            assert asyncio.run(driven(scene, store, run_id)) == "done"
            assert [text_of(turn) for turn in store.run(path, CONVERSATION)[2:]] == ["All."]
            first, *_ = store.run(calls, run_id)
            assert (first.state, first.attempts) == ("done", 2)


def test_a_model_that_wants_us_to_wait_is_asked_again_not_sooner(
    new_place: Callable[[], str], tmp_path: Path
):
    asked: list[float] = []

    def busy(_request: RecordedRequest) -> Say | Status:
        asked.append(time.monotonic())
        later = Status(429, headers={"retry-after": str(WAIT)})
        return later if len(asked) < 3 else Say("Here.")

    with simulator(busy) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "l"))
        with open_store(scene.place) as store:
            assert asyncio.run(driven(scene, store, begun(store), attempts=4)) == "done"
    assert [later - sooner >= WAIT for sooner, later in pairwise(asked)] == [True, True]


def test_a_drive_that_is_cancelled_gives_the_run_back(new_place: Callable[[], str], tmp_path: Path):
    async def leave(scene: Scene, store: Store, run_id: str, request: Gate) -> None:
        task = asyncio.create_task(driven(scene, store, run_id))
        await asyncio.to_thread(request.wait_reached)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    gate = Gate(after_frames=1)
    replies = [Say("Half of it", delta_size=1, faults=[gate]), Say("All.")]
    with Simulator(replies) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "l"))
        with open_store(scene.place) as store:
            run_id = begun(store)
            asyncio.run(leave(scene, store, run_id, gate))
            info = store.run(run_info, run_id)
            assert info.is_free
            assert info.attempts == 0
            assert asyncio.run(driven(scene, store, run_id)) == "done"
            events = asyncio.run(stream_of(store, run_id))
            assert "".join(words_by_turn(events).values()) == "All."
            gate.open()


def test_an_answer_on_an_abandoned_branch_continues_beside_the_new_one(new_scene: NewScene):
    scene = new_scene()
    info = killed(scene, 9)
    with open_store(scene.place) as store:
        question = store.run(path, CONVERSATION)[0].id or ""
        store.run(
            append, CONVERSATION, [Turn("user", (Text("Never mind"),), id="new")], parent=None
        )
        assert asyncio.run(driven(scene, store, info.id, dead=info.owner)) == "done"
        assert [turn.id for turn in store.run(path, CONVERSATION)] == ["new"]
        branch = store.run(heads, CONVERSATION)[f"run {info.id}"]
        store.run(move_head, CONVERSATION, branch)
        assert [text_of(turn) for turn in store.run(path, CONVERSATION) if turn.role == "robot"] == list(WORDS)  # fmt: skip
        assert len(store.run(children, CONVERSATION, question)) == 1


def test_a_stalled_model_is_given_up_when_its_time_is_over(
    new_place: Callable[[], str], tmp_path: Path
):
    with Simulator([Say("Half", faults=[Hang(after_frames=2)]), Say("x")]) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "l"))

        async def go(store: Store, run_id: str) -> Any:
            async with provider(scene, timeouts=Timeouts(read=0.1)) as speaker:
                return await drive_run(RunHost(store), run_id, resolver(scene, speaker))

        with open_store(scene.place) as store:
            assert asyncio.run(go(store, begun(store))) == "failed"
            error = only(store).error
            assert error is not None
            assert error.kind == "StreamBroken"
            assert text_of(store.run(path, CONVERSATION)[-1]) == "Half"


def test_an_answer_of_the_service_is_followed_by_another_process(new_scene: NewScene):
    scene = new_scene()
    with open_store(scene.place) as store, open_store(scene.place) as other:
        asyncio.run(say(scene, store))
        info = only(other)
        events = asyncio.run(stream_of(other, info.id))
    assert "".join(words_by_turn(events).values()) == "".join(WORDS)
    assert finish(scene).status == "done"
