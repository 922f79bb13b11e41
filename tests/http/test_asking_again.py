"""Retries, repairs and losses over real connections, by both drivers."""

from typing import Any

import pytest
from tests.asking import Asker
from tests.servers import PATIENCE, AwaitEnd, Reset, Script, Send, head, serving, streamed, whole

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.errors import (
    AuthError,
    BadRequest,
    ConnectionFailed,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamBroken,
)
from multi_llm_chat.events import TextDelta
from multi_llm_chat.history.values import Text
from multi_llm_chat.http.transports import Breaker
from multi_llm_chat.protocol.retry import RetryPolicy

#: As the usual policy, without its waiting.
SWIFT = RetryPolicy(attempts=3, first_wait=0.0)


def said(text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % text.encode()


DONE = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
GOOD = streamed([said("Hel"), said("lo"), DONE])
CALLED: list[Any] = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": [
            {
                "type": "tool_call",
                "content": {"name": "f", "arguments": {}, "tool_call_id": "c"},
            }
        ],
    },
    {
        "role": "tool",
        "content": [{"type": "tool_result", "name": "f", "content": "1", "tool_call_id": "c"}],
    },
]
ERROR_INSIDE = streamed(b'data: {"error":{"message":"overloaded","type":"overloaded_error"}}\n\n')


def error(status: int, message: str, **headers: str) -> Script:
    return whole({"error": {"message": message}}, status, **headers)


def provider(url: str, name: str = "openai-chat", **settings: Any) -> LLMProvider:
    settings.setdefault("retry", SWIFT)
    return create_provider(name, base_url=url, api_key="k", **settings)


@pytest.mark.parametrize(
    "trouble",
    [
        error(429, "slow down", Retry_After="0"),
        error(429, "slow down", Retry_After_Ms="1"),
        error(500, "oops"),
        error(503, "busy"),
        error(529, "overloaded"),
        whole(b"<html>Bad Gateway</html>", 502, kind="text/html"),
        [Reset()],
        [Send(b"HTTP/1.1 200"), Reset()],
        ERROR_INSIDE,
        streamed(b": keep-alive\n\n", ending=[Reset()]),
        streamed(b""),
    ],
    ids=["429", "429 ms", "500", "503", "529", "502", "lost", "cut", "in 200", "silent", "empty"],
)
def test_passing_trouble_is_asked_again(asker: Asker, trouble: Script) -> None:
    with serving(trouble, trouble, GOOD) as server:
        outcome = asker.stream(provider(server.url))
    assert outcome.failure is None
    assert outcome.reply is not None
    assert outcome.reply.text == "Hello"
    assert len(server.requests) == 3
    assert [note.message.split(" (")[0] for note in outcome.reply.notes if "again" in note.message]


def test_a_lasting_failure_is_raised(asker: Asker) -> None:
    with serving(error(503, "busy")) as server:
        outcome = asker.stream(provider(server.url))
    assert isinstance(outcome.failure, Overloaded)
    assert outcome.failure.status == 503
    assert outcome.failure.__notes__ == ["Not asked again: asked 3 times."]
    assert len(server.requests) == 3


def test_a_wait_that_is_too_long_is_not_begun(asker: Asker) -> None:
    with serving(error(429, "come back tomorrow", Retry_After="86400")) as server:
        outcome = asker.complete(provider(server.url))
    assert isinstance(outcome.failure, RateLimited)
    assert outcome.failure.retry_after == 86400
    assert len(server.requests) == 1


def test_a_bad_key_is_not_tried_twice(asker: Asker) -> None:
    with serving(error(401, "Incorrect API key provided")) as server:
        outcome = asker.complete(provider(server.url))
    assert isinstance(outcome.failure, AuthError)
    assert len(server.requests) == 1


@pytest.mark.parametrize("ending", [[Reset()], None], ids=["lost", "just over"])
def test_a_cut_reply_keeps_what_was_said_and_is_not_asked_again(
    asker: Asker, ending: Script | None
) -> None:
    with serving(streamed([said("Hel"), said("lo")], ending=ending)) as server:
        outcome = asker.stream(provider(server.url))
    assert outcome.events == [TextDelta("Hel"), TextDelta("lo")]
    assert isinstance(outcome.failure, StreamBroken)
    assert outcome.failure.partial.role == "chatgpt"
    assert outcome.failure.partial.parts == (Text("Hello"),)
    assert len(server.requests) == 1


def test_an_error_after_the_first_words_keeps_them_and_is_not_asked_again(asker: Asker) -> None:
    tail = b'data: {"error":{"message":"overloaded","type":"overloaded_error"}}\n\n'
    with serving(streamed([said("Hel"), tail])) as server:
        outcome = asker.stream(provider(server.url))
    assert outcome.events == [TextDelta("Hel")]
    assert isinstance(outcome.failure, Overloaded)
    assert outcome.failure.partial.parts == (Text("Hel"),)
    assert len(server.requests) == 1


def test_a_cut_reply_is_asked_again_where_the_caller_wants_it(asker: Asker) -> None:
    wanted = RetryPolicy(first_wait=0.0, after_first_byte=True)
    with serving(streamed([said("Hal")], ending=[Reset()]), GOOD) as server:
        outcome = asker.stream(provider(server.url, retry=wanted))
    assert outcome.events[:3] == [TextDelta("Hal"), TextDelta("Hel"), TextDelta("lo")]
    assert outcome.reply is not None
    assert outcome.reply.text == "Hello"


def test_a_whole_reply_that_is_cut_is_asked_again(asker: Asker) -> None:
    good = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
    cut: Script = [Send(head(200, "application/json", Content_Length="99") + b'{"ch'), Reset()]
    with serving(cut, whole(good)) as server:
        outcome = asker.complete(provider(server.url))
    assert outcome.reply is not None
    assert outcome.reply.text == "Hello"


def test_a_known_rejection_is_repaired_once_and_noted(asker: Asker) -> None:
    rejected = error(400, "'tool_calls[0].id': string too long")
    call: dict[str, Any] = {"name": "f", "arguments": {}, "tool_call_id": "abcdefghijklmnop"}
    result = {
        "type": "tool_result",
        "name": "f",
        "content": "1",
        "tool_call_id": "abcdefghijklmnop",
    }
    history = [
        {"role": "user", "content": "go"},
        {"role": "chatgpt", "content": [{"type": "tool_call", "content": call}]},
        {"role": "tool", "content": [result]},
    ]
    with serving(rejected, GOOD) as server:
        outcome = asker.stream(provider(server.url), history)
    assert outcome.reply is not None
    first, second = (request.json["messages"][1]["tool_calls"][0] for request in server.requests)
    assert first["id"] == "abcdefghijklmnop"
    assert len(second["id"]) == 9
    assert ("OAI-07", "asked again with shorten_ids") in [
        (note.rule, note.message) for note in outcome.reply.notes
    ]


def test_a_lasting_rejection_is_raised_after_one_repair(asker: Asker) -> None:
    with serving(error(400, "unsupported parameter: 'temperature'")) as server:
        outcome = asker.stream(provider(server.url, options={"temperature": 0.5}))
    assert isinstance(outcome.failure, BadRequest)
    assert [("temperature" in request.json) for request in server.requests] == [True, False]


def test_llamacpps_permanent_500_is_repaired_not_waited_for(asker: Asker) -> None:
    with serving(error(500, "Failed to parse tool call arguments as JSON: eof")) as server:
        outcome = asker.stream(provider(server.url, "llamacpp"), CALLED)
    assert isinstance(outcome.failure, BadRequest)
    assert [b"tool_calls" in request.body for request in server.requests] == [True, False]


def test_renamed_tools_come_back_under_their_own_names(asker: Asker) -> None:
    rejected = error(400, "Invalid 'tools[0].function.name': string does not match pattern")
    call = (
        b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":'
        b'{"name":"tool_1","arguments":"{}"}}]}}]}\n\n'
    )
    with serving(rejected, streamed([call, DONE])) as server:
        outcome = asker.stream(provider(server.url), tools=[{"name": "get_weather"}])
    assert outcome.reply is not None
    assert [called.name for called in outcome.reply.tool_calls] == ["get_weather"]
    assert outcome.reply.finish_reason == "tool_calls"


def test_a_redirect_is_an_error_that_names_the_other_place(asker: Asker) -> None:
    with serving(whole({}, 308, Location="https://elsewhere.example/v1?key=x")) as server:
        outcome = asker.stream(provider(server.url))
    assert isinstance(outcome.failure, ProviderError)
    assert "elsewhere.example" in str(outcome.failure)
    assert "key=x" not in str(outcome.failure)


def test_a_server_that_is_down_is_left_alone_after_many_failures(asker: Asker) -> None:
    with serving(error(503, "busy")) as server:
        asked = provider(server.url, retry=RetryPolicy(attempts=1), breaker=Breaker(threshold=2))
        failures = [asker.stream(asked).failure for _ in range(3)]
    assert [type(failure) for failure in failures] == [Overloaded] * 3
    assert [getattr(failure, "code", None) for failure in failures][2] == "circuit_open"
    assert len(server.requests) == 2


def test_a_finished_reply_that_stays_open_is_not_waited_for(asker: Asker) -> None:
    with serving(streamed([said("Hello"), DONE], ending=[AwaitEnd()])) as server:
        outcome = asker.stream(provider(server.url))
        assert server.client_gone.wait(PATIENCE)
    assert outcome.reply is not None
    assert outcome.reply.text == "Hello"


def test_a_missing_server_is_an_error(asker: Asker) -> None:
    with serving(GOOD) as server:
        url = server.url
    outcome = asker.stream(provider(url))
    assert isinstance(outcome.failure, ConnectionFailed)
    assert outcome.failure.provider == "openai-chat"
