"""Every recorded stream decodes to what its author meant, however it is split into chunks."""

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.protocol.corpus import (
    CONTEXT,
    DECODERS,
    ORIGIN,
    Case,
    Outcome,
    as_json,
    cases,
    expected_parts,
    run,
)

from multi_llm_chat.data_limits import REPLY_LIMITS
from multi_llm_chat.errors import MultiLLMChatError, StreamBroken
from multi_llm_chat.events import (
    Event,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from multi_llm_chat.history.values import Text, Thinking, ToolCall
from multi_llm_chat.protocol._sse import ServerSentEvent, SseDecoder
from multi_llm_chat.protocol.lenient_json import read_json

every_case = pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
complete_cases = pytest.mark.parametrize(
    "case", [case for case in cases() if "finish" in case.expected], ids=lambda case: case.id
)


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.sample(len(cases()))  # all: what the decoders are for
@every_case
def test_a_stream_becomes_what_was_meant(case: Case) -> None:
    outcome = run(case.dialect, [case.stream])
    assert [as_json(part) for part in outcome.parts] == expected_parts(case)
    if "error" in case.expected:
        error = case.expected["error"]
        assert outcome.error is not None
        assert type(outcome.error).__name__ == error["type"]
        assert outcome.error.provider == ORIGIN.provider
        for name in error.keys() - {"type"}:
            assert getattr(outcome.error, name) == error[name]
    else:
        assert outcome.error is None
        assert outcome.events[-1] == Finish(*case.expected["finish"])
        usage = case.expected["usage"]
        assert [event for event in outcome.events if isinstance(event, Usage)] == (
            [Usage(**usage)] if usage else []
        )


@every_case
def test_events_and_parts_agree(case: Case) -> None:
    outcome = run(case.dialect, [case.stream])
    events, parts = outcome.events, outcome.parts
    assert text_of(events) == "".join(part.content for part in parts if isinstance(part, Text))
    if outcome.error is None:
        thinking = "".join(part.content for part in parts if isinstance(part, Thinking))
        assert "".join(e.text for e in events if isinstance(e, ThinkingDelta)) == thinking
        assert all(part.origin == ORIGIN for part in parts if isinstance(part, Thinking))
    else:
        assert not any(isinstance(part, Thinking) for part in parts)
    calls = {event.index: event.call for event in events if isinstance(event, ToolCallEnd)}
    assert sorted(calls.values(), key=lambda call: call.tool_call_id) == sorted(
        (part for part in parts if isinstance(part, ToolCall)), key=lambda call: call.tool_call_id
    )
    assert_contract(outcome)


def assert_contract(outcome: Outcome) -> None:
    """Deltas, then at most one usage, then one finish; calls start, grow, end, in this order."""
    kinds = [type(event) for event in outcome.events]
    assert kinds.count(Finish) == (0 if outcome.error else 1)
    assert kinds.count(Usage) <= (0 if outcome.error else 1)
    if outcome.error is None:
        assert kinds[-1] is Finish
        assert Usage not in kinds[:-2]
    started: dict[int, str] = {}
    ended: set[int] = set()
    for event in outcome.events:
        match event:
            case ToolCallStart():
                assert event.index not in started
                assert event.tool_call_id
                assert event.tool_call_id not in started.values()
                started[event.index] = event.tool_call_id
            case ToolCallDelta():
                assert event.index in started
                assert event.index not in ended
            case ToolCallEnd():
                assert event.call.tool_call_id == started[event.index]
                assert event.index not in ended
                ended.add(event.index)
            case _:
                pass
    if outcome.error is None:
        assert ended == set(started)


@every_case
def test_byte_by_byte_is_the_same_as_whole(case: Case) -> None:
    whole = run(case.dialect, [case.stream])
    single = run(case.dialect, [case.stream[at : at + 1] for at in range(len(case.stream))])
    assert single.events == whole.events
    assert single.parts == whole.parts
    assert repr(single.error) == repr(whole.error)


@every_case
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_pieces_are_the_same_as_whole(case: Case, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(case.stream)), max_size=12)))
    edges = [0, *cuts, len(case.stream)]
    pieces = [case.stream[start:stop] for start, stop in pairwise(edges)]
    whole = run(case.dialect, [case.stream])
    parted = run(case.dialect, pieces)
    assert (parted.events, parted.parts) == (whole.events, whole.parts)
    assert repr(parted.error) == repr(whole.error)


@complete_cases
def test_every_truncation_is_broken_or_complete_and_never_runs_half_a_call(case: Case) -> None:
    whole = run(case.dialect, [case.stream])
    text = text_of(whole.events)
    calls = [part for part in whole.parts if isinstance(part, ToolCall)]
    for at in range(len(case.stream)):
        cut = run(case.dialect, [case.stream[:at]])
        assert text.startswith(text_of(cut.events))
        assert_contract(cut)
        if cut.error is not None:
            assert isinstance(cut.error, StreamBroken)
            assert not any(isinstance(part, Thinking) for part in cut.parts)
            assert all(part in calls for part in cut.parts if isinstance(part, ToolCall))
        else:
            assert cut.parts == whole.parts


@every_case
def test_interleaved_decoders_share_nothing(case: Case) -> None:
    other = next(item for item in cases() if item.dialect == case.dialect and item != case)
    alone = run(case.dialect, [case.stream])
    first, second = DECODERS[case.dialect](CONTEXT), DECODERS[case.dialect](CONTEXT)
    events: list[Event] = []
    mine, theirs = split_events(case.stream), split_events(other.stream)
    for at in range(max(len(mine), len(theirs))):
        for name, data in mine[at : at + 1]:
            events += first.feed(name, data)
        for name, data in theirs[at : at + 1]:
            second.feed(name, data)
    if alone.error is None:
        events += first.end()
        assert first.parts == alone.parts
    assert events == alone.events


def split_events(stream: bytes) -> list[ServerSentEvent]:
    parser = SseDecoder(REPLY_LIMITS)
    return parser.feed(stream) + parser.end()


@pytest.mark.parametrize("dialect", DECODERS)
@given(garbage=st.lists(st.binary(max_size=60), max_size=6))
def test_garbage_gives_only_our_errors(dialect: str, garbage: list[bytes]) -> None:
    outcome = run(dialect, garbage)
    assert outcome.error is not None or outcome.events


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)


@st.composite
def damaged_frames(draw: st.DrawFn, dialect: str) -> list[ServerSentEvent]:
    """Draw real events in which some value is replaced by any other JSON value."""
    case = draw(st.sampled_from([case for case in cases() if case.dialect == dialect]))
    frames: list[ServerSentEvent] = []
    for name, data in split_events(case.stream):
        value = read_json(data)
        if isinstance(value, dict) and draw(st.integers(0, 3)) == 0:
            damage(draw, value)
            data = json.dumps(value).encode()
        frames.append((name, data))
    return frames


def damage(draw: st.DrawFn, value: Any) -> None:
    """Descend to a random place and replace the value there."""
    while True:
        keys = value.keys() if hasattr(value, "keys") else range(len(value))
        key = draw(st.sampled_from(list(keys)))
        child = value[key]
        if not hasattr(child, "clear") or not child or draw(st.integers(0, 4)) == 0:
            value[key] = draw(json_values)
            return
        value = child


@pytest.mark.parametrize("dialect", DECODERS)
@settings(max_examples=150)
@given(data=st.data())
def test_damaged_events_give_only_our_errors(dialect: str, data: st.DataObject) -> None:
    decoder = DECODERS[dialect](CONTEXT)
    events: list[Event] = []
    for name, frame in data.draw(damaged_frames(dialect)):
        events += decoder.feed(name, frame)
    with suppress(MultiLLMChatError):
        events += decoder.end()
    assert_contract(Outcome(events, decoder.parts, decoder.failure))


def test_str_05_ids_that_are_unique_per_reply_only_are_kept_for_the_repair_to_rekey() -> None:
    stream = b"""data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_0","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}

data: [DONE]

"""
    calls = [part for _ in range(2) for part in run("openai_chat", [stream]).parts]
    assert [call.tool_call_id for call in calls if isinstance(call, ToolCall)] == ["call_0"] * 2


def test_every_stream_quirk_has_a_stream() -> None:
    named = {rule for case in cases() for rule in case.expected["rules"]}
    quirks = {f"STR-{number:02}" for number in range(1, 18)} - {"STR-05"}
    assert quirks <= named
