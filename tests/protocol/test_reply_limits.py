"""The size of a reply is limited, and counted before decoding; what was read is kept."""

import gzip
import json
import zlib
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.test_sse import parse

from multi_llm_chat.data_limits import (
    MEGABYTE,
    REPLY_LIMITS,
    Limits,
    OverLimit,
    check_json,
    decompressor_for,
)
from multi_llm_chat.errors import Overloaded, ProviderError, StreamBroken
from multi_llm_chat.events import Event, Finish, TextDelta
from multi_llm_chat.history.values import Text, ToolCall
from multi_llm_chat.protocol.exchange import Exchange

SMALL = Limits(
    total_bytes=4000, item_bytes=1500, error_bytes=300, total_values=80, values=60, depth=20, parts=5
)  # fmt: skip
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=40,
)


def said(text: str) -> bytes:
    return (
        b"data: %s\n\n"
        % json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode()
    )


def exchange(*, limits: Limits = SMALL, stream: bool = True) -> Exchange:
    return Exchange(
        [{"role": "user", "content": "go"}], "openai-chat", limits=limits, stream=stream
    )


def read(
    asked: Exchange, *pieces: bytes, status: int = 200
) -> tuple[list[Event], ProviderError | None]:
    """Feed the pieces; return the events and the failure."""
    asked.request()
    asked.begin(status)
    events: list[Event] = []
    for piece in pieces:
        events += asked.receive(piece)
    try:
        return events + asked.end(), None
    except ProviderError as failure:
        return events, failure


def children(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else None


def count(value: Any) -> int:
    return 1 + sum(map(count, children(value) or ()))


def nesting(value: Any) -> int:
    inner = children(value)
    return 0 if inner is None else 1 + max(map(nesting, inner), default=0)


@given(json_values, st.integers(1, 40), st.integers(1, 8), st.integers(1, 60))
def test_values_and_nesting_are_counted_without_decoding(
    value: Any, values: int, depth: int, searched: int
):
    text = json.dumps(value, ensure_ascii=False).encode()
    try:
        check_json(text, values=values, depth=depth, searched=searched)
    except OverLimit:
        # Empty lists and objects count twice; nothing else is overestimated.
        assert (
            count(value) + text.count(b"[]") + text.count(b"{}") > values or nesting(value) > depth
        )
    else:
        assert count(value) <= values
        assert nesting(value) <= depth


def is_allowed(text: bytes, searched: int) -> bool:
    try:
        check_json(text, values=12, depth=4, searched=searched)
    except OverLimit:
        return False
    return True


@given(
    st.lists(st.sampled_from(['"', "\\", "[", "]", "{", ",", "a", "é"]), max_size=60),
    st.integers(1, 20),
)
def test_the_pieces_in_which_text_is_searched_do_not_matter(marks: list[str], searched: int):
    text = "".join(marks).encode()
    assert is_allowed(text, searched) == is_allowed(text, len(text) + 1)


@given(st.binary(max_size=400))
def test_any_bytes_up_to_the_safe_length_are_allowed(data: bytes):
    check_json(data[: SMALL.surely_allowed], values=SMALL.values, depth=SMALL.depth)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_data_leaves_in_bounded_pieces(encoding: str):
    plain = bytes(30 * MEGABYTE)
    packed = gzip.compress(plain) if encoding == "gzip" else zlib.compress(plain)
    unpacking = decompressor_for(encoding)
    assert unpacking is not None
    sizes = [len(piece) for piece in unpacking.pieces(packed + b"more")]
    assert sum(sizes) == len(plain)
    assert max(sizes) <= MEGABYTE
    assert unpacking.at_end


@given(st.lists(st.text(max_size=300), max_size=30), st.integers(1, 200))
def test_a_reply_within_its_limits_is_read_whole_however_it_is_cut(words: list[str], size: int):
    stream = b"".join(map(said, words)) + END
    roomy = Limits(total_bytes=len(stream), item_bytes=len(stream), values=60, depth=20)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    events, failure = read(exchange(limits=roomy), *pieces)
    assert failure is None
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "".join(words)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([said("a")] * 100, "more than 0.0038147 MB"),
        ([b"data: ", *[b"x" * 500] * 5], "an event of more than"),
        ([*[b"data: %s\n" % (b"x" * 500)] * 5], "an event of more than"),
        ([said("x" * 1600)], "an event of more than"),
        ([b'data: {"choices":[%s]}\n\n' % b",".join([b"[]"] * 61)], "more than 60 JSON values"),
        ([b'data: {"choices":%s}\n\n' % (b"[" * 21 + b"]" * 21)], "nested more than 20 levels"),
        (
            [
                b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"c%d",'
                b'"function":{"name":"f","arguments":"{}"}}]}}]}\n\n' % (at, at)
                for at in range(6)
            ],
            "more than 5 parts",
        ),
    ],
    ids=["bytes", "line", "lines", "event", "values", "depth", "parts"],
)
def test_above_a_limit_the_reply_breaks_off_and_keeps_what_arrived(pieces: list[bytes], words: str):
    asked = exchange()
    events, failure = read(asked, said("Hello"), *pieces, b"data: {}\n\n")
    assert events[0] == TextDelta("Hello")
    assert isinstance(failure, StreamBroken)
    assert failure.code == "too_large"
    assert words in failure.message
    assert asked.finished
    first, *others = asked.turn.parts
    assert isinstance(first, Text)
    assert first.content.startswith("Hello")
    assert all(isinstance(part, ToolCall) for part in others)


def test_what_follows_a_complete_reply_does_not_break_it():
    endless = [b": ping\n\n" * 100] * 10
    events, failure = read(exchange(), said("Hello"), END.partition(b"data: [DONE]")[0], *endless)
    assert failure is None
    assert isinstance(events[-1], Finish)


def test_of_an_error_the_beginning_is_read():
    asked = exchange()
    _, failure = read(asked, b"overloaded, ", *[b"so sorry " * 20] * 20, status=503)
    assert isinstance(failure, Overloaded)
    assert asked.finished


@pytest.mark.parametrize("body", [b" " * 5000, b'{"choices":[%s]}' % b",".join([b"1"] * 90)])
def test_a_whole_reply_above_a_limit_is_not_decoded(body: bytes):
    _, failure = read(exchange(stream=False), body)
    assert isinstance(failure, StreamBroken)
    assert failure.code == "too_large"


def test_an_event_of_many_lines_is_parsed_up_to_its_limit():
    lines = b"".join(b"data: %d\n" % number for number in range(1000)) + b"\n"
    assert parse(lines) == [(None, b"\n".join(b"%d" % number for number in range(1000)))]
    assert REPLY_LIMITS.item_bytes > len(lines)
