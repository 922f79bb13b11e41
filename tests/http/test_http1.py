"""The parser of replies: the same bytes give the same body however they were cut, and what is no reply is refused."""

import itertools
from collections.abc import Sequence

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.http.http1 import MAX_HEAD, BadReply, ReplyParser, read_address, write_head

LINE_ENDS = st.sampled_from([b"\r\n", b"\n"])


@st.composite
def replies(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """The bytes of a reply, its body, and whether it ends with its connection."""
    end = draw(LINE_ENDS)
    informed = draw(st.lists(st.sampled_from([b"100 Continue", b"103 Early Hints"]), max_size=3))
    before = b"".join(b"HTTP/1.1 " + each + end + b"Link: x" + end + end for each in informed)
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: text/event-stream", b"X-Folded: a", b"  b"]
    pieces = draw(st.lists(st.binary(min_size=1, max_size=70), max_size=8))
    body = b"".join(pieces)
    framing = draw(st.sampled_from(["chunks", "length", "end"]))
    written = body
    if framing == "chunks":
        lines.append(b"Transfer-Encoding: gzip, Chunked")
        extension = draw(st.sampled_from([b"", b";name=value", b" ; x"]))
        trailers = draw(st.sampled_from([b"", b"X-Sum: 1" + end]))
        written = b"".join(b"%x" % len(each) + extension + end + each + end for each in pieces)
        written += b"0" + end + trailers + end
    elif framing == "length":
        lines.append(b"Content-Length: %d" % len(body))
    return before + end.join(lines) + end + end + written, body, framing == "end"


def fed(parser: ReplyParser, pieces: Sequence[bytes]) -> bytes:
    return b"".join(map(parser.feed, pieces))


@given(replies(), st.lists(st.integers(0, 900), max_size=12))
def test_a_reply_is_the_same_however_it_is_cut(
    reply: tuple[bytes, bytes, bool], cuts: list[int]
) -> None:
    data, body, ends_with_connection = reply
    places = [0, *sorted(cuts), len(data)]
    parser = ReplyParser()
    assert fed(parser, [data[a:b] for a, b in itertools.pairwise(places)]) == body
    assert parser.status == 200
    assert parser.headers["x-folded"] == "a b"
    assert parser.complete == (not ends_with_connection)
    assert parser.reusable == (not ends_with_connection)
    if ends_with_connection:
        parser.end()
        assert parser.complete
        assert not parser.reusable


@given(replies())
def test_a_reply_may_come_byte_by_byte(reply: tuple[bytes, bytes, bool]) -> None:
    data, body, _ = reply
    assert fed(ReplyParser(), [data[at : at + 1] for at in range(len(data))]) == body


@given(replies(), st.data())
def test_a_reply_that_is_cut_off_is_not_taken_for_whole(
    reply: tuple[bytes, bytes, bool], draw: st.DataObject
) -> None:
    data, body, ends_with_connection = reply
    parser = ReplyParser()
    got = parser.feed(data[: draw.draw(st.integers(0, len(data) - 1))])
    assert body.startswith(got)
    if parser.complete or (ends_with_connection and parser.status):
        return
    parser.end()
    assert isinstance(parser.failure, BadReply)


def read_by_h11(data: bytes) -> tuple[int, bytes, bool] | None:
    """Status, body, and whether the connection can be used again; None where h11 refuses the reply or waits for more."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="POST", target="/", headers=[("Host", "a"), ("Content-Length", "0")]))  # fmt: skip
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    status, body, ended = 0, b"", False
    try:
        while not isinstance(event := client.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif event is h11.NEED_DATA:
                client.receive_data(b"")
                ended = True
            elif event is h11.PAUSED:  # another protocol
                return None
    except h11.RemoteProtocolError:
        return None
    reusable = client.their_state is h11.DONE and not client.trailing_data[0]
    return status, body, reusable and not ended


@given(replies(), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=3)), max_size=3))  # fmt: skip
def test_what_h11_accepts_is_read_as_h11_reads_it(
    reply: tuple[bytes, bytes, bool], changes: list[tuple[int, int, bytes]]
) -> None:
    data = reply[0].replace(b"gzip, Chunked", b"chunked")  # the only coding that h11 takes
    for at, removed, added in changes:
        data = data[:at] + added + data[at + removed :]
    judged = read_by_h11(data)
    if judged is None:
        return
    parser = ReplyParser()
    body = parser.feed(data)
    reusable = parser.reusable
    parser.end()
    assert (parser.status, body, parser.complete, parser.failure) == (*judged[:2], True, None)
    assert reusable == judged[2]


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_garbage_is_refused_or_read_and_nothing_else(first: bytes, then: bytes) -> None:
    parser = ReplyParser()
    for piece in (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", first, then):
        if parser.failure is None:
            assert isinstance(parser.feed(piece), bytes)
    parser.end()
    assert parser.complete or parser.failure is not None


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/2 200\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3, 4\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
        CHUNKED + b"x\r\n",
        CHUNKED + b"-1\r\nab\r\n",
        CHUNKED + b"1_0\r\n",
        CHUNKED + b"0x5\r\nabcde",
        CHUNKED + b"\r\n",
        CHUNKED + b"2\r\nabc",
        CHUNKED + b"ffffffffffffffffff\r\n",
        CHUNKED + b"5;" + b"x" * 9_000,
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 20_000,
        CHUNKED + b"0\r\n" + b"a" * MAX_HEAD * 2,
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * MAX_HEAD,
    ],
)  # fmt: skip
def test_what_is_no_reply_is_refused(data: bytes) -> None:
    for size in (1, 7, len(data)):
        parser = ReplyParser()
        for at in range(0, len(data), size):
            if parser.failure is None:
                parser.feed(data[at : at + size])
        assert isinstance(parser.failure, BadReply)


def test_what_stands_before_a_fault_is_the_body() -> None:
    parser = ReplyParser()
    assert parser.feed(CHUNKED + b"3\r\nabc\r\nthis is no chunk\r\n") == b"abc"
    assert parser.failure is not None


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        (b"HTTP/1.1 200 OK\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", False),
        (b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\n", False),
        (b"HTTP/1.0 200 OK\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", True),
        (b"HTTP/1.1 200\r\n", True),
    ],
)
def test_a_connection_is_kept_where_both_sides_want_it(head: bytes, kept: bool) -> None:
    parser = ReplyParser()
    assert parser.feed(head + b"Content-Length: 2\r\n\r\nab") == b"ab"
    assert parser.reusable == kept


@pytest.mark.parametrize("body", [b"Content-Length: 2\r\n\r\nab", b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"])  # fmt: skip
def test_what_follows_a_reply_spoils_its_connection(body: bytes) -> None:
    for pieces in ([body + b"HTTP"], [body, b"HTTP"]):
        parser = ReplyParser()
        assert fed(parser, [b"HTTP/1.1 200 OK\r\n", *pieces]) == b"ab"
        assert parser.complete
        assert not parser.reusable


@pytest.mark.parametrize("status", [204, 304])
def test_a_reply_without_a_body_is_complete_with_its_head(status: int) -> None:
    parser = ReplyParser()
    assert parser.feed(b"HTTP/1.1 %d None\r\nContent-Length: 5\r\n\r\n" % status) == b""
    assert parser.reusable


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("http://a.example/v1/x:y?alt=sse&a=%2F", "/v1/x:y?alt=sse&a=%2F", "a.example"),
        ("https://a.example:443", "/", "a.example"),
        ("http://A.example:8080/a b/ü", "/a%20b/%C3%BC", "a.example:8080"),
        ("http://[::1]:81/", "/", "[::1]:81"),
        ("http://bücher.example/", "/", "xn--bcher-kva.example"),
        ("http://user:word@a.example/x", "/x", "a.example"),
    ],
)
def test_an_address_stands_in_a_request_as_ascii(url: str, target: str, authority: str) -> None:
    address = read_address(url)
    assert (address.target, address.authority) == (target, authority)


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\nb", "a\rb", "a\0b", "ä€"])
def test_a_header_is_one_line(value: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of two kinds
        write_head("POST", "/", {"X": value})
