"""A request that a provider would refuse is refused, with the provider's own error message."""

import http.client
import json
from contextlib import closing
from typing import Any

import pytest
from tests.testing.simulator_clients import ALL_ROWS, ask

from multi_llm_chat.errors import AuthError, BadRequest
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator import Say, Simulator


def post(simulator: Simulator, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Send a request unchanged."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=30)) as connection:
        connection.request("POST", path, content, {"content-type": "application/json"} | named)
        with connection.getresponse() as response:
            return response.status, json.loads(response.read())


HELLO: Any = [{"role": "user", "content": "Hello"}]
ORPHAN: Any = [*HELLO, {"role": "tool", "tool_call_id": "call_x", "content": "y"}]


def test_openai_refuses_an_orphan_result_in_its_own_words() -> None:
    with Simulator([Say("never")]) as simulator:
        body = {"model": "gpt-4.1", "messages": ORPHAN}
        status, answer = post(simulator, "/v1/chat/completions", body)
        assert status == 400
        assert "must be a response to a preceeding message" in answer["error"]["message"]
        request = simulator.requests[0]
        assert [violation.rule for violation in request.violations] == ["OAI-01"]
        assert len(simulator.script) == 1


def test_anthropic_refuses_a_missing_version() -> None:
    body = {"model": "claude-sonnet-5", "max_tokens": 5, "messages": HELLO}
    with Simulator([Say("Hello.")]) as simulator:
        status, answer = post(simulator, "/v1/messages", body)
        assert (status, answer["error"]["message"]) == (
            400,
            "anthropic-version: header is required",
        )
        status, answer = post(simulator, "/v1/messages", body, anthropic_version="2023-06-01")
        assert (status, answer["content"]) == (200, [{"type": "text", "text": "Hello."}])


def test_what_is_silently_mishandled_is_recorded_and_answered() -> None:
    thought = {"role": "assistant", "content": "Hi.", "reasoning_content": "Say hi."}
    body = {"model": "qwen3", "messages": [*HELLO, thought, *HELLO]}
    with Simulator([Say("Yes.")]) as simulator:
        status, answer = post(simulator, "/vllm/v1/chat/completions", body)
        found = simulator.requests[0].violations
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Yes.")
    assert [(violation.rule, violation.code) for violation in found] == [("VLL-08", "silent")]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"\xff\xfe"])
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/gemini/v1beta/models/g:generateContent"]
)
def test_a_body_that_is_no_json_object_is_refused(path: str, content: bytes) -> None:
    with Simulator([Say("never")]) as simulator:
        status, answer = post(simulator, path, content)
    assert status == 400
    assert "error" in answer


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("provider", ALL_ROWS)
def test_a_wrong_key_is_refused(provider: str, stream: bool) -> None:
    with Simulator([Say("Yes."), Say("Yes.")], key="sk-right-key") as simulator:
        outcome = ask(simulator, provider, stream=stream, key="sk-wrong-key-of-a-user")
        needs_key = ROWS[provider].key_variable is not None
        assert isinstance(outcome.error, AuthError) == needs_key
        assert "sk-wrong" not in str(outcome.error)
        assert ask(simulator, provider, stream=stream, key="sk-right-key").text == "Yes."


@pytest.mark.parametrize("provider", ALL_ROWS)
def test_a_missing_key_is_refused(provider: str) -> None:
    with Simulator([Say("Yes.")], key="sk-right-key") as simulator:
        outcome = ask(simulator, provider, key="")
    assert isinstance(outcome.error, AuthError) == (ROWS[provider].key_variable is not None)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v2/chat/completions",
        "/anthropic/v1/v1/messages",
        "/anthropic/v1/chat/completions",
        "/groq/v1/chat/completions",
        "/gemini/v1beta/models/g:sing",
        "/gemini/models/g:generateContent",
        "/nobody/v1/chat/completions",
    ],
)
def test_a_path_that_the_provider_does_not_have_is_not_found(path: str) -> None:
    with Simulator([Say("never")]) as simulator:
        status, answer = post(simulator, path, {})
    assert status == 404
    assert "error" in answer


@pytest.mark.parametrize(
    ("path", "provider"),
    [
        ("/v1/chat/completions", "openai-chat"),
        ("/openai/v1/chat/completions", "openai-chat"),
        ("/v1/responses", "openai"),
        ("/openai-chat/v1/responses", "openai"),
        ("/v1beta/models/g:generateContent", "gemini"),
        ("/azure/openai/deployments/gpt/chat/completions?api-version=2024-10-21", "azure"),
        ("/deepseek/v1/chat/completions", "deepseek"),
        ("/deepseek/chat/completions", "deepseek"),
    ],
)
def test_a_path_leads_to_its_provider(path: str, provider: str) -> None:
    with Simulator() as simulator:
        post(simulator, path, {})
        assert simulator.requests[0].provider == provider
        assert simulator.requests[0].route.operation == "generate"


def test_only_the_right_method_is_allowed() -> None:
    with Simulator() as simulator:
        assert post(simulator, "/v1/models", {})[0] == 405


def test_a_script_that_is_over_says_so() -> None:
    with Simulator([Say("Only one.")]) as simulator:
        assert ask(simulator, "anthropic").text == "Only one."
        outcome = ask(simulator, "anthropic")
    assert isinstance(outcome.error, BadRequest)
    assert "script has no reply for request 1" in str(outcome.error)


def test_a_record_shows_no_secret() -> None:
    secret = "sk-a-very-secret-key"
    with Simulator([Say("Yes.")]) as simulator:
        ask(simulator, "anthropic", key=secret)
        path = f"/v1beta/models/g:generateContent?key={secret}"
        post(simulator, path, {"contents": [{"role": "user", "parts": [{"text": "x"}]}]})
        assert simulator.requests[0].headers["x-api-key"] == secret
        assert secret not in repr([*simulator.requests, simulator])
