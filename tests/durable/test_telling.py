"""What runs tell: their stream, their spans, their figures."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from tests.durable.acting import NAMES, Scene, say

from multi_llm_chat.client.agent_events import Delayed, ToolFinished, ToolStarted
from multi_llm_chat.durable.following import follow
from multi_llm_chat.durable.health import answer, metrics
from multi_llm_chat.durable.holding import Hands, Holder
from multi_llm_chat.durable.nudges import pause_for
from multi_llm_chat.durable.stream import (
    Begun,
    Compressed,
    Ended,
    Resumed,
    StreamEvent,
    TurnKept,
    joined,
    json_of,
    read_stream_event,
    told_text,
    write_stream_event,
)
from multi_llm_chat.events import (
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.store import (
    Events,
    Store,
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
EVENTS: st.SearchStrategy[StreamEvent] = st.one_of(
    st.builds(TextDelta, st.text()),
    st.builds(ThinkingDelta, st.text()),
    st.builds(ToolCallStart, COUNTS, st.text(), st.text()),
    st.builds(ToolCallDelta, st.integers(0, 2), st.text()),
    st.builds(ToolCallEnd, COUNTS, CALLS),
    st.builds(ToolStarted, CALLS),
    st.builds(ToolFinished, CALLS, RESULTS, st.floats(0, 1e6)),
    st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
    st.builds(Finish, st.sampled_from(["stop", "length"]), st.text()),
    st.builds(Begun, st.text(), st.text()),
    st.builds(Delayed, st.text(), st.floats(0, 1e6)),
    st.builds(Resumed, COUNTS),
    st.builds(TurnKept, st.text(), st.text(), st.booleans()),
    st.builds(Compressed, st.text()),
    st.builds(Ended, st.just("done"), st.text(), st.just(Usage(1, 2)), st.none(), st.floats(0, 9)),
)


@given(EVENTS)
def test_an_event_is_read_as_it_was_written(event: StreamEvent):
    assert read_stream_event(write_stream_event(event)) == event
    assert json_of(event)["type"]


def test_a_kind_of_event_that_is_not_known_is_passed_over():
    assert read_stream_event('["from the future",1,2]') is None


@given(st.lists(EVENTS))
def test_joining_events_says_the_same(events: list[StreamEvent]):
    short: list[StreamEvent] = []
    for event in events:
        both = joined(short[-1], event) if short else None
        if both is None:
            short.append(event)
        else:
            short[-1] = both
    assert told_text(short) == told_text(events)
    assert len(short) <= len(events)


class SpansSeen(trace.TracerProvider, trace.Tracer):
    """Remembers every span that was made and ended."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return self

    def start_span(
        self, name: str, *args: Any, attributes: Any = None, **kwargs: Any
    ) -> trace.Span:
        told: dict[str, Any] = {"name": name, **(attributes or {})}
        seen = self.spans

        class Span(trace.NonRecordingSpan):
            def set_attribute(self, key: str, value: Any) -> None:
                told[key] = value

            def end(self, end_time: int | None = None) -> None:
                seen.append(told)

        return Span(trace.INVALID_SPAN_CONTEXT)

    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return trace.use_span(self.start_span(name), end_on_exit=True)


@pytest.fixture(scope="module")
def spans() -> SpansSeen:
    seen = SpansSeen()
    trace.set_tracer_provider(seen)
    return seen


def test_calls_are_spans_without_words(spans: SpansSeen, model: Simulator, tmp_path: Path):
    scene = Scene(":memory:", model.base_url("openai-chat"), str(tmp_path / "ledger"))
    with open_store(scene.place) as store:
        asyncio.run(say(scene, store))
    names = [span["name"].split(" ")[0] for span in spans.spans]
    assert names.count("chat") == 3
    assert sorted(span["gen_ai.tool.name"] for span in spans.spans if "gen_ai.tool.name" in span) == sorted([*NAMES, *NAMES])  # fmt: skip
    last = [span for span in spans.spans if span["name"].startswith("chat")][-1]
    assert last["gen_ai.usage.output_tokens"] > 0
    assert last["gen_ai.response.finish_reasons"] == ["stop"]
    assert "order" not in str(spans.spans)


def _taken(store: Store) -> Any:
    conversation = store.run(create, "Talk").id
    run_id = store.run(begin_run, conversation, "robot", base=None)
    return store.run(take_run, run_id, "me", 60_000)


def test_the_figures_tell_runs_and_no_words(tmp_path: Path):
    with open_store(tmp_path / "c.db") as store:
        _taken(store)
        text = asyncio.run(metrics(store))
        assert 'multi_llm_chat_runs{status="running"} 1' in text
        assert "Talk" not in text
        assert asyncio.run(answer(store, "/readyz")) == (200, "ok\n")
        assert asyncio.run(answer(store, "/nothing"))[0] == 404
    assert asyncio.run(answer(store, "/readyz")) == (503, "closed\n")
    assert asyncio.run(answer(store, "/metrics")) == (503, "closed\n")


def test_events_of_many_runs_are_written_together_and_a_stop_is_heard(tmp_path: Path):
    with open_store(tmp_path / "c.db") as store:
        holder = Holder(store)
        runs = [_taken(store) for _ in range(3)]
        stopped = threading.Event()
        for taken in runs:
            holder.expect(taken.fence)
            holder.hold(taken.fence.run_id, Hands(stop=stopped.set))
        assert set(holder.runs) == {taken.fence.run_id for taken in runs}
        store.run(stop_run, runs[0].fence.run_id)
        for number in range(100):
            for taken in runs:
                holder.tell(taken.fence.run_id, TextDelta(f"{number} "))
        assert stopped.wait(30)
        for taken in runs:
            told = store.run(read_events, taken.fence.run_id)
            words = [read_stream_event(payload) for _, payload in told.events]
            assert "".join(each.text for each in words if isinstance(each, TextDelta)) == "".join(f"{n} " for n in range(100))  # fmt: skip
            assert len(words) < 100
            holder.let_go(taken.fence.run_id)


def test_who_loses_a_run_hears_of_it_at_once(tmp_path: Path):
    with open_store(tmp_path / "c.db") as store:
        holder = Holder(store)
        taken = _taken(store)
        lost = threading.Event()
        holder.expect(taken.fence)
        holder.hold(taken.fence.run_id, Hands(lost=lost.set))
        info = store.run(take_run, taken.fence.run_id, "other", 1000, dead=_owner(store))
        assert info is not None
        holder.tell(taken.fence.run_id, TextDelta("nobody reads this"))
        assert lost.wait(30)
        assert holder.runs == ()
        assert store.run(read_events, taken.fence.run_id).events == ()


def _owner(store: Store) -> str:
    (info,) = store.run(list_runs)
    return info.owner or ""


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12))), st.integers(0, 8))
def test_what_is_handed_over_goes_on_without_a_gap_or_the_store_is_asked(
    batches: list[tuple[int, int]], after: int
):
    async def heard() -> tuple[tuple[int, str], ...]:
        with open_store(":memory:") as store, pause_for(store, "run") as ear:
            for first, size in batches:
                ear.hear(tuple((number, f"event {number}") for number in range(first, first + size)))  # fmt: skip
            ear.hear(())
            return await ear.next(after)

    numbers = {number for first, size in batches for number in range(first, first + size)}
    found = asyncio.run(heard())
    wanted = tuple(sorted(number for number in numbers if number > after))
    is_whole = wanted == tuple(range(after + 1, after + 1 + len(wanted)))
    assert found == (tuple((number, f"event {number}") for number in wanted) if is_whole else ())


def test_who_follows_in_the_same_process_is_handed_each_event_once(tmp_path: Path):
    """Words are told in one thread, turns saved in another, and all is read in a third, from two places."""
    words = [f"{number} " for number in range(300)]

    async def read(store: Store, run_id: str, after: int) -> list[tuple[int, StreamEvent]]:
        return [each async for each in follow(store, run_id, after)]

    async def both(store: Store, run_id: str) -> list[list[tuple[int, StreamEvent]]]:
        return list(await asyncio.gather(read(store, run_id, 0), read(store, run_id, 3)))

    with open_store(tmp_path / "c.db") as store:
        taken = _taken(store)
        run_id = taken.fence.run_id
        holder = Holder(store, flush=0.001)
        holder.expect(taken.fence)
        holder.hold(run_id)

        def tell() -> None:
            for number, word in enumerate(words):
                holder.tell(run_id, TextDelta(word))
                if number % 10 == 0:
                    told = holder.told(run_id, TurnKept(f"turn {number}", "robot"))
                    store.run(append_events, [Events(taken.fence, told)])
                    holder.landed(run_id, told)
            told = holder.told(run_id, Ended("done", "answered", Usage(), None, 1.0))
            store.run(finish_run, taken.fence, "done", events=told)
            holder.landed(run_id, told)
            holder.let_go(run_id)

        telling = threading.Thread(target=tell)
        telling.start()
        whole, later = asyncio.run(both(store, run_id))
        telling.join()
    assert [number for number, _ in whole] == list(range(1, len(whole) + 1))
    assert later == whole[3:]
    text = "".join(event.text for _, event in whole if isinstance(event, TextDelta))
    assert text == "".join(words)
