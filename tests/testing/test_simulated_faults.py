"""Transport faults become the matching error, with the text received until then."""

import http.client
import json
import socket
from contextlib import closing
from typing import Any

import pytest
from tests.testing.simulator_clients import ALL_ROWS, ask

from multi_llm_chat.errors import (
    AuthError,
    ConnectionFailed,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamBroken,
)
from multi_llm_chat.testing.simulator import (
    Call,
    Disconnect,
    Drop,
    ErrorInStream,
    Garbage,
    Gate,
    Hang,
    KeepAlive,
    Say,
    Simulator,
    Slow,
    Status,
    encode_reply,
)

LONG = Say("A rather long answer, which takes its time and its frames.", delta_size=4)
HELLO: dict[str, Any] = {
    "model": "gpt-4.1",
    "messages": [{"role": "user", "content": "Hello"}],
    "stream": True,
}


def _post(simulator: Simulator, connection: http.client.HTTPConnection) -> None:
    connection.request(
        "POST",
        "/v1/chat/completions",
        json.dumps(HELLO),
        {"content-type": "application/json", "authorization": "Bearer sk-secret-key"},
    )


def _connect(simulator: Simulator) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=30))


@pytest.mark.parametrize("provider", ALL_ROWS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, RateLimited), (500, Overloaded), (503, Overloaded), (529, Overloaded), (401, AuthError)],
)
def test_an_http_error_has_its_kind(provider: str, status: int, kind: type[ProviderError]) -> None:
    with Simulator([Status(status, headers={"retry-after": "3"})]) as simulator:
        outcome = ask(simulator, provider)
        assert simulator.requests[0].status == status
    assert isinstance(outcome.error, kind)
    assert outcome.error.status == status
    assert outcome.error.retry_after == 3.0


def test_gemini_sends_the_waiting_time_in_the_body() -> None:
    with Simulator([Status(429, retry_delay=41)]) as simulator:
        outcome = ask(simulator, "gemini")
    assert isinstance(outcome.error, RateLimited)
    assert outcome.error.retry_after == 41.0


@pytest.mark.parametrize("provider", ALL_ROWS)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_error_inside_a_stream_has_its_kind(provider: str, status: int) -> None:
    with Simulator([LONG.having(faults=[ErrorInStream(6, status)])]) as simulator:
        outcome = ask(simulator, provider)
    # These two do not send the kind of an error.
    expected = ProviderError if provider in {"lmstudio", "xai"} else Overloaded
    assert isinstance(
        outcome.error, RateLimited if expected is Overloaded and status == 429 else expected
    )
    assert outcome.text
    assert LONG.text.startswith(outcome.text)


@pytest.mark.parametrize("provider", ALL_ROWS)
def test_a_cut_stream_keeps_the_text_and_drops_the_open_call(provider: str) -> None:
    say = Say("Text.", calls=[Call("get_weather", {"city": "x" * 400})], delta_size=9)
    inside = encode_reply(provider, say).body.index(b"xxxxxx") + 3
    with Simulator([say.having(faults=[Disconnect(after_bytes=inside)])]) as simulator:
        outcome = ask(simulator, provider)
    assert isinstance(outcome.error, StreamBroken)
    assert outcome.text == say.text
    assert outcome.calls == []


@pytest.mark.parametrize("provider", ALL_ROWS)
def test_a_stream_cut_anywhere_never_gives_a_wrong_reply(provider: str) -> None:
    say = Say("Text.", thinking="Hm.", calls=[Call("get_weather", {"city": "Rome"})])
    cuts = range(0, 3000, 97)
    with Simulator([say.having(faults=[Disconnect(after_bytes=cut)]) for cut in cuts]) as simulator:
        outcomes = [ask(simulator, provider) for _ in cuts]
    for outcome in outcomes:
        assert say.text.startswith(outcome.text)
        assert [call.arguments for call in outcome.calls] in ([], [{"city": "Rome"}])
        assert outcome.error is None or outcome.finish is None


def test_a_cut_after_frames_sends_so_many() -> None:
    with Simulator([LONG.having(faults=[Disconnect(after_frames=3)])]) as simulator:
        outcome = ask(simulator, "openai-chat")
        request = simulator.requests[0]
        request.ended.wait()
        assert request.frames_sent == 3
    assert outcome.text == LONG.text[:8]
    assert isinstance(outcome.error, StreamBroken)


@pytest.mark.parametrize("reset", [True, False])
def test_a_connection_may_break_before_the_first_byte(reset: bool) -> None:
    with Simulator([Drop(reset)]) as simulator:
        outcome = ask(simulator, "anthropic")
    assert isinstance(outcome.error, ConnectionFailed)


def test_a_reset_is_seen_by_the_client() -> None:
    gate = Gate(2)
    say = LONG.having(faults=[gate, Disconnect(after_frames=2, reset=True)])
    with Simulator([say]) as simulator, _connect(simulator) as connection:
        _post(simulator, connection)
        with connection.getresponse() as response:
            assert response.read1(1)
            gate.wait_reached()
            gate.open()
            with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
                response.read()


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "anthropic", "gemini"])
@pytest.mark.parametrize("after", [0, 4])
def test_garbage_is_an_error_of_the_provider(provider: str, after: int) -> None:
    faulty = LONG.having(faults=[Garbage(after_frames=after)]) if after else Garbage()
    with Simulator([faulty]) as simulator:
        outcome = ask(simulator, provider)
    assert isinstance(outcome.error, ProviderError)
    assert LONG.text.startswith(outcome.text)


@pytest.mark.parametrize("provider", ALL_ROWS)
def test_keep_alives_and_slowness_change_nothing(provider: str) -> None:
    say = Say("Text.", thinking="Hm.", calls=[Call("get_weather", {"city": "Rome"})])
    with Simulator([say.having(faults=[KeepAlive(), Slow(0.0001, first=0.0001)])]) as simulator:
        outcome = ask(simulator, provider)
    assert outcome.error is None
    assert outcome.text == say.text
    assert [call.arguments for call in outcome.calls] == [{"city": "Rome"}]


def test_a_gate_holds_the_rest_of_the_reply() -> None:
    gate = Gate(3)
    with Simulator([LONG.having(faults=[gate])]) as simulator, _connect(simulator) as connection:
        _post(simulator, connection)
        with connection.getresponse() as response:
            gate.wait_reached()
            request = simulator.requests.wait_for(1)[0]
            assert request.frames_sent == 3
            assert not request.ended.given
            gate.open()
            assert response.read().endswith(b"data: [DONE]\n\n")
        request.answered.wait()
        assert not request.was_disconnected


@pytest.mark.parametrize("fault", [Gate(2), Hang(2)], ids=["gate", "hang"])
def test_a_client_that_goes_away_early_is_recorded(fault: Gate | Hang) -> None:
    with Simulator([LONG.having(faults=[fault])]) as simulator:
        with _connect(simulator) as connection:
            _post(simulator, connection)
            with connection.getresponse() as response:
                assert response.read1(1)
        request = simulator.requests.wait_for(1)[0]
        request.disconnected.wait()
        assert request.was_disconnected
        assert not request.answered.given


def test_a_client_that_goes_away_before_the_head_is_recorded() -> None:
    with Simulator([Hang()]) as simulator:
        with _connect(simulator) as connection:
            _post(simulator, connection)
            request = simulator.requests.wait_for(1)[0]
            assert not request.ended.given
        request.disconnected.wait()
        assert request.status == 0


def test_a_client_that_vanishes_is_recorded() -> None:
    with Simulator([LONG.having(faults=[Hang(1)])]) as simulator:
        with socket.create_connection(("127.0.0.1", simulator.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            body = json.dumps(HELLO).encode()
            client.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
                + str(len(body)).encode()
                + b"\r\n\r\n"
                + body
            )
            assert client.recv(1)
        simulator.requests.wait_for(1)[0].disconnected.wait()


def test_a_client_that_does_not_read_is_waited_for_and_its_leaving_noticed() -> None:
    with Simulator([Say("x" * 40_000_000, delta_size=100_000)]) as simulator:
        with _connect(simulator) as connection:
            _post(simulator, connection)
            request = simulator.requests.wait_for(1)[0]
            with connection.getresponse() as response:
                assert response.read1(1)
                assert not request.ended.given
        request.disconnected.wait()
        assert request.frames_sent < 400


def test_stopping_ends_replies_that_hang() -> None:
    simulator = Simulator([Hang()]).start()
    with _connect(simulator) as connection:
        _post(simulator, connection)
        request = simulator.requests.wait_for(1)[0]
        simulator.stop()
        request.ended.wait()
