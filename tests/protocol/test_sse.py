"""Server-sent events, as in the specification and as servers send them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.data_limits import REPLY_LIMITS
from multi_llm_chat.protocol._sse import ServerSentEvent, SseDecoder


def parse(*chunks: bytes) -> list[ServerSentEvent]:
    stream = SseDecoder(REPLY_LIMITS)
    events: list[ServerSentEvent] = []
    for chunk in chunks:
        events += stream.feed(chunk)
    return events + stream.end()


def reference(stream: bytes) -> list[ServerSentEvent]:
    """Parse line by line, following the specification's text."""
    lines = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[ServerSentEvent] = []
    data: list[bytes] = []
    name = b""
    for line in [*lines.split(b"\n"), b""]:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if b"\n".join(data):
                events.append((name.decode(errors="replace") or None, b"\n".join(data)))
            data, name = [], b""
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b"data: {}\n\n", [(None, b"{}")], id="one"),
        pytest.param(b"data: 1\n\ndata: 2\n\n", [(None, b"1"), (None, b"2")], id="two"),
        pytest.param(b"data:1\n\n", [(None, b"1")], id="no-space"),
        pytest.param(b"data:  1\n\n", [(None, b" 1")], id="only-one-space-is-removed"),
        pytest.param(b"event: a\ndata: 1\n\n", [("a", b"1")], id="named"),
        pytest.param(b"data: 1\nevent: a\n\n", [("a", b"1")], id="named-behind"),
        pytest.param(b"event: a\n\ndata: 1\n\n", [(None, b"1")], id="a-name-alone-is-no-event"),
        pytest.param(
            b"event: a\ndata: 1\n\nevent: b\n\nevent: c\ndata: 2\ndata: 3\n\n",
            [("a", b"1"), ("c", b"2\n3")],
            id="one-newline-too-few-and-one-too-many",
        ),
        pytest.param(b"data: 1\ndata: 2\n\n", [(None, b"1\n2")], id="several-lines"),
        pytest.param(b"data\ndata\n\n", [(None, b"\n")], id="lines-without-colon"),
        pytest.param(b": ping\n\n:\n\ndata: 1\n\n", [(None, b"1")], id="STR-08-comments"),
        pytest.param(b"data: 1\n: ping\n\n", [(None, b"1")], id="STR-08-comment-inside"),
        pytest.param(b"\n\n\n\ndata: 1\n\n\n\n", [(None, b"1")], id="STR-08-blank-frames"),
        pytest.param(b"data:\n\ndata: \n\ndata: 1\n\n", [(None, b"1")], id="STR-08-empty-data"),
        pytest.param(b"id: 1\nretry: 5\nfoo: x\ndata: 1\n\n", [(None, b"1")], id="other-fields"),
        pytest.param(b"data: 1\r\n\r\ndata: 2\r\n\r\n", [(None, b"1"), (None, b"2")], id="crlf"),
        pytest.param(b"data: 1\r\rdata: 2\r\r", [(None, b"1"), (None, b"2")], id="cr"),
        pytest.param(b"\xef\xbb\xbfdata: 1\n\n", [(None, b"1")], id="byte-order-mark"),
        pytest.param(b"data: [DONE]", [(None, b"[DONE]")], id="STR-17-no-newline-at-the-end"),
        pytest.param(b"data: 1\n\ndata: 2\n", [(None, b"1"), (None, b"2")], id="one-newline-left"),
        pytest.param(
            b"event: \xff\ndata: 1\n\n", [("\ufffd", b"1")], id="a-name-that-is-not-utf-8"
        ),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_a_stream_is_parsed(stream: bytes, events: list[ServerSentEvent]) -> None:
    assert parse(stream) == events
    assert parse(*[stream[at : at + 1] for at in range(len(stream))]) == events
    assert reference(stream) == events


def test_an_event_is_given_out_with_its_blank_line_and_not_later() -> None:
    stream = SseDecoder(REPLY_LIMITS)
    assert stream.feed(b"data: 1\r\n\r") == [(None, b"1")]
    assert stream.feed(b"\ndata: 2\n") == []
    assert stream.feed(b"\n") == [(None, b"2")]
    assert stream.end() == []


pieces = st.sampled_from(
    [
        *[b"\n", b"\r", b"\r\n", b"\n\n", b"data: x", b"data:", b"data", b"event: e", b"event"],
        *[b": c", b"id: 1", b"\xef\xbb\xbf", b"\xef", b"z"],
        *[b"data: {}\n\n", b"event: q\ndata: {}\n\n"],
    ]
)


@given(st.lists(st.lists(pieces, max_size=5).map(b"".join), max_size=6))
def test_any_pieces_are_parsed_as_the_specification_says(chunks: list[bytes]) -> None:
    assert parse(*chunks) == reference(b"".join(chunks))


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_garbage_is_parsed_as_the_specification_says(chunks: list[bytes]) -> None:
    assert parse(*chunks) == reference(b"".join(chunks))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_great_event_in_small_pieces_is_whole(end: bytes) -> None:
    line = b"x" * 100_000
    stream = b"data: " + line + end + b"data: " + line + end + end
    chunks = [stream[at : at + 7] for at in range(0, len(stream), 7)]
    assert parse(*chunks) == [(None, line + b"\n" + line)]
