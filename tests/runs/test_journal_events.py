"""What runs report: their event stream, their spans, their metrics."""

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from tests.runs.scene import NAMES, Scene, say, words_by_turn
from tests.spans import recorded

from multi_llm_chat.event_codec import read_row, write_event, write_row
from multi_llm_chat.events import (
    CompressionNote,
    Cut,
    ErrorRecord,
    Event,
    Finish,
    HistoryCompressed,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    RunWaiting,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Usage,
)
from multi_llm_chat.history.values import Text, ToolCall, ToolResult, Turn
from multi_llm_chat.runs._notifications import Notifications
from multi_llm_chat.runs.channel import merge_deltas
from multi_llm_chat.runs.follow import follow
from multi_llm_chat.runs.health import answer, metrics
from multi_llm_chat.runs.leases import (
    FRAME_END,
    LONGEST_FRAME,
    STEPS_A_SECOND,
    UNFRAMED_RUNS,
    Lease,
    RunHost,
    frame_pause,
    frame_seconds,
)
from multi_llm_chat.store import (
    Events,
    Fence,
    Store,
    append,
    append_events,
    begin_run,
    create,
    finish_run,
    list_runs,
    open_store,
    read_events,
    stop_run,
    take_run,
)
from multi_llm_chat.store.transaction import read_json, write_json
from multi_llm_chat.testing.simulator import Simulator

CALLS = st.builds(
    ToolCall,
    st.text(),
    st.dictionaries(st.text(), st.text() | st.integers() | st.none()),
    st.text(),
)
RESULTS = st.builds(
    ToolResult, st.text(), st.text() | st.lists(st.text()), st.text(), is_error=st.booleans()
)
COUNTS = st.integers(0, 10**9)
NOTES = st.builds(
    CompressionNote,
    st.builds(Cut, COUNTS, COUNTS, COUNTS, st.none() | COUNTS, st.none() | st.text()),
    st.sampled_from(["window", "refused"]),
    COUNTS,
    COUNTS,
    COUNTS,
    st.booleans(),
    st.booleans(),
    st.tuples(COUNTS),
    st.just(()),
    summary_usage=st.none() | st.just(Usage(3, 4)),
)
COSTS = st.none() | st.decimals(0, 10, places=6)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, st.text()),
    st.builds(ThinkingDelta, st.text()),
    st.builds(ToolCallStart, COUNTS, st.text(), st.text()),
    st.builds(ToolCallDelta, st.integers(0, 2), st.text()),
    st.builds(ToolCallEnd, COUNTS, CALLS),
    st.builds(ToolStarted, CALLS),
    st.builds(ToolFinished, CALLS, RESULTS, st.floats(0, 1e6)),
    st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
    st.builds(Finish, st.sampled_from(["stop", "length"]), st.text()),
    st.builds(RunStarted, st.text()),
    st.builds(
        RunWaiting, st.sampled_from(["rate", "store"]), st.text(), st.none() | st.floats(0, 1e9)
    ),
    st.builds(RunResumed, COUNTS),
    st.builds(
        TurnFinished,
        st.builds(Turn, st.text(), id=st.text()),
        st.none() | st.just(Usage(1, 2)),
        st.booleans(),
    ),
    st.builds(HistoryCompressed, NOTES),
    st.builds(RunFinished, st.just("answered"), st.just(Usage(1, 2)), COSTS, st.floats(0, 9)),
    st.builds(RunFailed, st.builds(ErrorRecord, st.text(), st.text(), st.none() | st.text())),
)


@given(EVENTS)
def test_an_event_is_read_as_it_was_written(event: Event):
    row = write_row(event)
    assert read_row(read_json(write_json(row))) == event
    assert write_event(event)["type"] == row["type"]


def test_a_kind_of_event_that_is_not_known_is_passed_over():
    assert read_row({"type": "from the future", "field": 1}) is None


@given(st.lists(EVENTS))
def test_events_that_wait_together_say_the_same(events: list[Event]):
    with open_store(":memory:") as store:
        host = RunHost(store)
        lease = Lease(host, Fence("run", 1))
        lease.append(events)
        rows = lease.bind(RunFinished("answered"))
    short = [event for _, text in rows if (event := read_row(read_json(text))) is not None]
    assert words_by_turn(short[:-1]) == words_by_turn(events) == words_by_turn(merge_deltas(events))
    assert len(short) <= len(events) + 1
    assert merge_deltas(short) == short


def test_calls_are_spans_without_words(model: Simulator, tmp_path: Path):
    seen = recorded()
    seen.clear()
    scene = Scene(":memory:", model.base_url("openai-chat"), str(tmp_path / "ledger"))
    with open_store(scene.place) as store:
        asyncio.run(say(scene, store))
    calls, tools = seen.named("chat"), seen.named("execute_tool")
    (run,) = seen.named("invoke_agent")
    assert len(calls) == 3
    assert sorted(str(span.attributes["gen_ai.tool.name"]) for span in tools if span.attributes) == sorted([*NAMES, *NAMES])  # fmt: skip
    assert run.context is not None
    assert {span.parent.span_id for span in calls + tools if span.parent} == {run.context.span_id}
    assert all(span.attributes and span.attributes["multi_llm_chat.run.id"] for span in seen.spans)
    last = calls[-1].attributes
    assert last is not None
    assert cast("int", last["gen_ai.usage.output_tokens"]) > 0
    assert last["gen_ai.response.finish_reasons"] == ("stop",)
    assert "order" not in str([(span.name, dict(span.attributes or {})) for span in seen.spans])


def _taken(store: Store) -> Any:
    conversation = store.run(create, "Talk").id
    run_id = store.run(begin_run, conversation, "robot", base=None)
    return store.run(take_run, run_id, "me", 60_000)


def test_metrics_count_runs_and_contain_no_text(tmp_path: Path):
    with open_store(tmp_path / "c.db") as store:
        _taken(store)
        text = asyncio.run(metrics(store))
        assert 'multi_llm_chat_runs{status="running"} 1' in text
        assert "Talk" not in text
        assert asyncio.run(answer(store, "/readyz")) == (200, "ok\n")
        assert asyncio.run(answer(store, "/nothing"))[0] == 404
    assert asyncio.run(answer(store, "/readyz")) == (503, "closed\n")
    assert asyncio.run(answer(store, "/metrics")) == (503, "closed\n")


def test_events_of_many_runs_are_written_together_and_a_stop_arrives(tmp_path: Path):
    with open_store(tmp_path / "c.db") as store:
        host = RunHost(store)
        runs = [_taken(store) for _ in range(3)]
        leases = [Lease(host, taken.fence) for taken in runs]
        stopped = threading.Event()
        for lease in leases:
            lease.on_stop = stopped.set
            lease.hold()
        assert set(host.runs) == {taken.fence.run_id for taken in runs}
        store.run(stop_run, runs[0].fence.run_id)
        for number in range(100):
            for lease in leases:
                lease.append([TextDelta(f"{number} ")])
        assert stopped.wait(30)
        for lease in leases:
            rows = store.run(read_events, lease.fence.run_id).events
            words = [read_row(read_json(payload)) for _, payload in rows]
            assert "".join(each.text for each in words if isinstance(each, TextDelta)) == "".join(f"{n} " for n in range(100))  # fmt: skip
            assert len(words) < 100
            lease.release()


def test_a_driver_that_loses_its_run_learns_it_at_once(tmp_path: Path):
    with open_store(tmp_path / "c.db") as store:
        host = RunHost(store)
        taken = _taken(store)
        lost = threading.Event()
        lease = Lease(host, taken.fence)
        lease.on_lost = lost.set
        lease.hold()
        info = store.run(take_run, taken.fence.run_id, "other", 1000, dead=_owner(store))
        assert info is not None
        lease.append([TextDelta("nobody reads this")])
        assert lost.wait(30)
        assert host.runs == ()
        assert store.run(read_events, taken.fence.run_id).events == ()


def _owner(store: Store) -> str:
    (info,) = store.run(list_runs)
    return info.owner or ""


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12))), st.integers(0, 8))
def test_rows_are_handed_over_without_a_gap_or_the_store_is_read(
    batches: list[tuple[int, int]], after: int
):
    async def received() -> tuple[tuple[int, str], ...]:
        with (
            open_store(":memory:") as store,
            Notifications(store).subscribe("run") as subscription,
        ):
            for first, size in batches:
                subscription.receive(tuple((number, f"event {number}") for number in range(first, first + size)))  # fmt: skip
            subscription.receive(())
            return await subscription.next(after)

    numbers = {number for first, size in batches for number in range(first, first + size)}
    found = asyncio.run(received())
    wanted = tuple(sorted(number for number in numbers if number > after))
    is_whole = wanted == tuple(range(after + 1, after + 1 + len(wanted)))
    assert found == (tuple((number, f"event {number}") for number in wanted) if is_whole else ())


def test_a_follower_in_the_same_process_gets_each_event_once(tmp_path: Path):
    """One thread emits text, another saves turns, a third reads all events, from two positions."""
    words = [f"{number} " for number in range(300)]

    async def read(host: RunHost, run_id: str, after: int) -> list[tuple[int, Event]]:
        return [each async for each in follow(host, run_id, after)]

    async def both(host: RunHost, run_id: str) -> list[list[tuple[int, Event]]]:
        return list(await asyncio.gather(read(host, run_id, 0), read(host, run_id, 3)))

    with open_store(tmp_path / "c.db") as store:
        taken = _taken(store)
        run_id = taken.fence.run_id
        host = RunHost(store, flush=0.001)
        lease = Lease(host, taken.fence)
        lease.hold()

        def emit() -> None:
            for number, word in enumerate(words):
                lease.append([TextDelta(word)])
                if number % 10 == 0:
                    turn = Turn("robot", (Text(word),), id=f"turn {number}")
                    rows = lease.bind(TurnFinished(turn))
                    store.run(append, taken.conversation, [turn])
                    store.run(append_events, [Events(taken.fence, rows)])
                    lease.landed(rows)
            rows = lease.bind(RunFinished("answered"))
            store.run(finish_run, taken.fence, "done", events=rows)
            lease.landed(rows)
            lease.release()

        emitting = threading.Thread(target=emit)
        emitting.start()
        whole, later = asyncio.run(both(host, run_id))
        emitting.join()
    assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
    assert later == whole[3:]
    text = "".join(event.text for _, event in whole if isinstance(event, TextDelta))
    assert text == "".join(words)


def test_few_runs_read_their_replies_at_once_and_many_in_frames():
    frames = {runs: frame_seconds(runs) for runs in range(5_000)}
    assert {frames[runs] for runs in range(UNFRAMED_RUNS + 1)} == {0.0}
    assert list(frames.values()) == sorted(frames.values())
    # The process makes about the same number of steps per second for any number of runs.
    framed = {runs: frame for runs, frame in frames.items() if 0 < frame < LONGEST_FRAME}
    assert framed
    assert all(runs / frame <= STEPS_A_SECOND * 1.001 for runs, frame in framed.items())


@given(st.integers(0, 5_000), st.integers(0, 10_000), st.floats(0, 1e6))
def test_runs_with_one_slot_read_together_and_the_slots_are_spread(
    runs: int, slot: int, now: float
):
    frame = frame_seconds(runs)
    pause = frame_pause(frame, slot, now)
    assert bool(pause) == bool(frame)
    if frame:
        slots = round(frame / FRAME_END)
        assert frame / 4 <= pause <= 1.25 * slots * FRAME_END + FRAME_END
        reads = {
            round((now + frame_pause(frame, slot + each, now)) / FRAME_END) % slots
            for each in range(slots)
        }
        assert len(reads) == slots
        later = frame_pause(frame, slot, now + pause + 0.001)
        assert abs(later + 0.001 - slots * FRAME_END) < 1e-3
