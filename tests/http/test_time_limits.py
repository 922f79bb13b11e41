"""Time limits end every request, and silence is not multiplied by retries."""

import pytest
from tests.asking import Asker
from tests.http.test_asking_again import DONE, GOOD, SWIFT, provider, said
from tests.servers import AwaitEnd, Pause, Script, Send, chunk, head, serving, streamed

from multi_llm_chat.errors import ConnectionFailed, StreamBroken
from multi_llm_chat.events import TextDelta
from multi_llm_chat.http import Timeouts

SHORT = Timeouts(first_event=0.2, read=60.0, total=60.0)
OPEN = Send(head(Transfer_Encoding="chunked"))


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nX-", OPEN.data], ids=["nothing", "half a head", "a head"])  # fmt: skip
def test_a_server_that_says_nothing_is_asked_once(asker: Asker, sent: bytes) -> None:
    with serving([Send(sent), AwaitEnd()], GOOD) as server:
        outcome = asker.stream(provider(server.url, timeouts=SHORT, retry=SWIFT))
        assert server.client_gone.wait(20)
    assert isinstance(outcome.failure, ConnectionFailed | StreamBroken)
    assert outcome.failure.code == "timeout"
    assert "Not asked again: the time for an answer is used up." in outcome.failure.__notes__
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (OPEN.data, chunk(b": ping\n\n")),
        (OPEN.data, chunk(b"\n")),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["pings", "blank lines", "100"],
)
def test_what_keeps_a_connection_open_is_no_event(asker: Asker, start: bytes, piece: bytes) -> None:
    # Far more than the time limit lets through, without a pause.
    flood: Script = [Send(start), *[Send(piece * 100)] * 200_000]
    with serving(flood) as server:
        outcome = asker.stream(provider(server.url, timeouts=SHORT))
        assert server.client_gone.wait(20)
    assert isinstance(outcome.failure, ConnectionFailed | StreamBroken)
    assert outcome.failure.code == "timeout"
    assert len(server.requests) == 1


def test_the_time_of_the_first_event_ends_with_it(asker: Asker) -> None:
    """The rest comes when the first event's time is over."""
    timeouts = Timeouts(first_event=1.0, read=20.0, total=20.0)
    late = [Pause(1.3), Send(chunk(said("lo") + DONE) + b"0\r\n\r\n")]
    with serving(streamed([said("Hel")], ending=list(late))) as server:
        outcome = asker.stream(provider(server.url, timeouts=timeouts))
    assert outcome.failure is None
    assert outcome.reply is not None
    assert outcome.reply.text == "Hello"


def test_the_whole_reply_has_a_limit_and_keeps_what_arrived(asker: Asker) -> None:
    timeouts = Timeouts(first_event=20.0, read=20.0, total=0.3)
    with serving(streamed([said("Hel")], ending=[AwaitEnd()])) as server:
        outcome = asker.stream(provider(server.url, timeouts=timeouts))
    assert outcome.events == [TextDelta("Hel")]
    assert isinstance(outcome.failure, StreamBroken)
    assert outcome.failure.code == "timeout"
    assert outcome.failure.partial is not None


def test_a_reply_that_is_not_streamed_is_not_held_to_the_first_event(asker: Asker) -> None:
    timeouts = Timeouts(first_event=0.05, read=20.0, total=20.0)
    body = (
        b'{"choices":[{"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}'
    )
    reply = head(kind="application/json", Content_Length=str(len(body))) + body
    with serving([Pause(0.3), Send(reply)]) as server:
        outcome = asker.complete(provider(server.url, timeouts=timeouts))
    assert outcome.reply is not None
    assert outcome.reply.text == "Hello"
