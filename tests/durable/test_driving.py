"""What becomes of a run when something goes wrong: its model, its tools, its store, its program."""

import asyncio
import os
import random
import resource
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.durable.acting import (
    CONVERSATION,
    NAMES,
    WORDS,
    Scene,
    check,
    context,
    ended,
    finish,
    provider,
    registry,
    resume,
    reviver,
    rounds,
    run_process,
    say,
    say_in_process,
    simulator,
    snapshot,
    text_of,
)
from tests.durable.conftest import FEWER, places
from tests.durable.killing import Kill

from multi_llm_chat.client import create_provider
from multi_llm_chat.config.values import Settings
from multi_llm_chat.durable.driving import MOST_ATTEMPTS, drive
from multi_llm_chat.durable.following import Following, follow_plainly
from multi_llm_chat.durable.holding import Holder, holder_of
from multi_llm_chat.durable.stream import Ended, StreamEvent, told_text
from multi_llm_chat.errors import StoreError
from multi_llm_chat.exchange.retrying import RetryPolicy
from multi_llm_chat.history.values import Text, ToolResult, Turn
from multi_llm_chat.service.planning import Planner
from multi_llm_chat.service.resuming import Reviver
from multi_llm_chat.service.speakers import given_speakers
from multi_llm_chat.store import (
    RunInfo,
    Store,
    append,
    begin_run,
    calls,
    children,
    create,
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
from multi_llm_chat.testing.simulator import Cut, Gate, Hang, Say, Simulator, Status
from multi_llm_chat.testing.simulator.recording import RecordedRequest
from multi_llm_chat.tools import ToolContext, ToolRegistry
from multi_llm_chat.transport.settings import Timeouts

NewScene = Callable[..., Scene]


@pytest.fixture(params=FEWER)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    return places(request, tmp_path)


def killed(scene: Scene, number: int) -> RunInfo:
    """A run whose process was killed behind its Nth transaction."""
    assert run_process(say_in_process, scene, Kill(number, "after")) == -signal.SIGKILL
    with open_store(scene.place) as store:
        return store.run(list_runs)[0]


def only(store: Store) -> RunInfo:
    (info,) = store.run(list_runs, None)
    return info


async def driven(
    scene: Scene,
    store: Store,
    run_id: str,
    tools: ToolRegistry | None = None,
    attempts: int = 1,
    **settings: Any,
) -> Any:
    speaker = create_provider(
        "openai-chat", api_key="key", base_url=scene.url, speaker="robot",
        retry=RetryPolicy(attempts=attempts, first_wait=0.01),
    )  # fmt: skip
    planner = Planner(
        Settings(), given_speakers({"robot": speaker}), tools or registry(scene.ledger, 0)
    )
    async with speaker:
        return await drive(store, holder_of(store), run_id, Reviver(planner), **settings)


def begun(store: Store, speaker: str = "robot", **spec: Any) -> str:
    """A run that nobody has begun to work on."""
    store.run(create, identifier=CONVERSATION)
    store.run(append, CONVERSATION, [Turn("user", (Text("Is everything in order?"),), id="q")])
    return store.run(begin_run, CONVERSATION, speaker, base="q", spec={"version": 1, **spec})


def test_a_run_that_kills_its_process_each_time_is_given_up(new_scene: NewScene):
    scene = new_scene()
    info = killed(scene, 2)
    with open_store(scene.place) as store:
        kills = 0
        while run_process(_die_in_a_tool, scene):
            kills += 1
        # One more where the model had to be asked again before.
        assert kills in {MOST_ATTEMPTS, MOST_ATTEMPTS + 1}
        assert only(store).status == "failed"
        error = only(store).error
        assert error is not None
        assert "given up" in error.message
        assert store.run(reopen_run, info.id)
        assert asyncio.run(driven(scene, store, info.id)) == "done"


def _die_in_a_tool(scene: Scene) -> None:
    tools = ToolRegistry()

    @tools.tool(resume="retry")
    def look(number: int) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return str(number)

    with open_store(scene.place) as store:
        (info,) = store.run(list_runs)
        asyncio.run(driven(scene, store, info.id, tools, dead=info.owner))


@pytest.mark.parametrize(
    ("spec", "speaker", "reason"),
    [
        ({"version": 99}, "robot", "another version"),
        ({"version": None}, "robot", "an older version"),
        ({}, "somebody", "Nobody here is called"),
    ],
)
def test_a_run_that_cannot_be_gone_on_with_says_why(
    new_scene: NewScene, spec: dict[str, Any], speaker: str, reason: str
):
    scene = new_scene()
    with open_store(scene.place) as store:
        run_id = begun(store, speaker, **spec)
        assert asyncio.run(driven(scene, store, run_id)) == "failed"
        error = only(store).error
        assert error is not None
        assert reason in error.message


def test_a_run_goes_on_without_tools_that_are_no_more(new_scene: NewScene):
    scene = new_scene()
    info = killed(scene, 5)
    with open_store(scene.place) as store:
        told = asyncio.run(driven(scene, store, info.id, ToolRegistry(), dead=info.owner))
        assert told == "done"
        assert text_of(store.run(path, CONVERSATION)[-1]) == WORDS[2]


def test_the_stream_can_be_read_from_anywhere_again_and_again(new_scene: NewScene):
    scene = new_scene()
    chance = random.Random(3)
    reloads = 0
    told: list[StreamEvent] = []
    process = context().Process(target=say_in_process, args=(scene, None))
    process.start()
    with open_store(scene.place) as store:
        while not store.run(list_runs, None):
            process.join(0.005)
        info = only(store)
        following = Following()
        while not following.is_over:
            told += [event for _, event in following.take(store.run(read_events, info.id, following.after, limit=chance.randint(1, 5)))]  # fmt: skip
            following = Following(following.after)  # a page that is loaded again
            following.is_over = bool(told) and isinstance(told[-1], Ended)
            reloads += 1
        assert ended(process) == 0
        again = [event for _, event in follow_plainly(store, info.id)]
    assert "".join(told_text(told).values()) == "".join(told_text(again).values()) == "".join(WORDS)
    assert reloads > 5


def test_an_operator_stops_a_run_wherever_it_is(new_place: Callable[[], str], tmp_path: Path):
    gate = Gate(after_frames=2)
    with simulator(lambda request: rounds(request).having(faults=[gate])) as server:
        scene = Scene(
            new_place(), server.base_url("openai-chat"), str(tmp_path / "ledger"), lease=0.2
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
        holder = Holder(store, lease=30)
        assert store.run(stop_run, run_id) == "stopped"
        assert asyncio.run(driven(scene, store, run_id)) is None
        assert holder.runs == ()


def test_a_model_that_breaks_off_ends_the_run_with_what_it_said(
    new_place: Callable[[], str], tmp_path: Path
):
    with Simulator(
        [Say("Half of", delta_size=1, faults=[Cut(after_frames=5)]), Say("All.")]
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


def test_a_model_that_wants_us_to_wait_is_asked_again(new_place: Callable[[], str], tmp_path: Path):
    wait = Status(429, headers={"retry-after": "0.01"})
    with Simulator([wait, wait, Say("Here.")]) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "l"))
        with open_store(scene.place) as store:
            assert asyncio.run(driven(scene, store, begun(store), attempts=4)) == "done"


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
            events = [event for _, event in follow_plainly(store, run_id)]
            assert "".join(told_text(events).values()) == "All."
            gate.open()


def test_a_tool_that_hangs_is_left_behind_and_the_run_goes_on(new_scene: NewScene):
    scene = new_scene()
    tools = ToolRegistry()
    never = threading.Event()

    def hang(number: int) -> bool:
        return never.wait(60)

    for name in NAMES:
        tools.tool(name=name, timeout=0.05)(hang)
    with open_store(scene.place) as store:
        assert asyncio.run(driven(scene, store, begun(store), tools)) == "done"
        results = _results(store)
        assert all("did not finish within" in str(each.content) for each in results)
        never.set()


def test_a_tool_that_answers_a_hundred_megabytes_is_cut(new_scene: NewScene):
    scene = new_scene()
    tools = ToolRegistry()

    def tell(number: int) -> str:
        return "x" * 100_000_000 if number == 0 else "small"

    for name in NAMES:
        tools.tool(name=name)(tell)
    with open_store(scene.place) as store:
        assert asyncio.run(driven(scene, store, begun(store), tools)) == "done"
        assert all(len(str(each.content)) < 100_000 for each in _results(store))


def _results(store: Store) -> list[ToolResult]:
    turns = store.run(path, CONVERSATION)
    return [part for turn in turns for part in turn.parts if isinstance(part, ToolResult)]


def test_a_tool_that_is_run_again_gets_the_same_key(new_scene: NewScene):
    scene = new_scene()
    keys: list[str | None] = []
    tools = ToolRegistry()

    @tools.tool(resume="retry")
    def look(number: int, context: ToolContext) -> str:
        keys.append(context.idempotency_key)
        return str(number)

    with open_store(scene.place) as store:
        run_id = begun(store)
        assert run_process(_die_in_a_tool, scene) == -signal.SIGKILL
        asyncio.run(driven(scene, store, run_id, tools, dead=only(store).owner))
        kept = [call for call in store.run(calls, run_id) if call.name == "look"]
    assert keys == [call.idempotency_key for call in kept] == [f"{run_id}:1", f"{run_id}:5"]
    assert [call.attempts for call in kept] == [2, 1]


def test_an_answer_whose_branch_was_left_goes_on_beside_the_new_one(new_scene: NewScene):
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


@contextmanager
def files_no_larger_than(size: int) -> Generator[Callable[[], None]]:
    """The system's own limit stands for the end of the disk; it is lifted by what is given."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def lift() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield lift
    finally:
        lift()


def test_a_run_waits_for_space_on_a_full_disk_and_does_nothing_twice(tmp_path: Path):
    place = tmp_path / "chats.db"
    limits: list[AbstractContextManager[Callable[[], None]]] = []
    lifts: list[Callable[[], None]] = []
    troubles: list[StoreError] = []

    def full(request: RecordedRequest) -> Say:
        """The disk is full from the second question on."""
        said = rounds(request)
        if request.number == 1:
            limits.append(files_no_larger_than(4096))
            lifts.append(limits[0].__enter__())
        return said

    def trouble(error: StoreError) -> None:
        troubles.append(error)
        lifts[0]()

    with simulator(full) as server:
        scene = Scene(str(place), server.base_url("openai-chat"), str(tmp_path / "ledger"))
        with open_store(scene.place) as store:
            run_id = begun(store)
            assert asyncio.run(driven(scene, store, run_id, on_trouble=trouble)) == "done"
        assert {error.reason for error in troubles} == {"full"}
        check(scene, snapshot(scene))


def test_a_full_disk_at_the_start_is_told_and_the_run_stays(tmp_path: Path, model: Simulator):
    scene = Scene(str(tmp_path / "c.db"), model.base_url("openai-chat"), str(tmp_path / "ledger"))
    killed(scene, 4)
    with open_store(scene.place) as store:
        with files_no_larger_than(1024), pytest.raises(StoreError) as caught:
            asyncio.run(resume(scene, store))
        assert caught.value.reason == "full"
        assert only(store).status == "running"
    check(scene, snapshot(scene))


def test_a_stalled_model_is_given_up_when_its_time_is_over(
    new_place: Callable[[], str], tmp_path: Path
):
    with Simulator([Say("Half", faults=[Hang(after_frames=1)]), Say("x")]) as server:
        scene = Scene(new_place(), server.base_url("openai-chat"), str(tmp_path / "l"))

        async def go(store: Store, run_id: str) -> Any:
            async with provider(scene, timeouts=Timeouts(read=0.1)) as speaker:
                return await drive(store, holder_of(store), run_id, reviver(scene, speaker))

        with open_store(scene.place) as store:
            assert asyncio.run(go(store, begun(store))) == "failed"


def test_an_answer_of_the_service_is_followed_by_another_process(new_scene: NewScene):
    scene = new_scene()
    with open_store(scene.place) as store, open_store(scene.place) as elsewhere:
        asyncio.run(say(scene, store))
        info = only(elsewhere)
        events = [event for _, event in follow_plainly(elsewhere, info.id)]
    assert "".join(told_text(events).values()) == "".join(WORDS)
    assert finish(scene).status == "done"
