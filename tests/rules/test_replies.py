"""Rules that only a reply shows: nested errors, refused tools, ids that restart with each reply."""

import json
from typing import Any

import pytest

from multi_llm_chat import Exchange, render
from multi_llm_chat.errors import BadRequest
from multi_llm_chat.history.writer import write_part
from multi_llm_chat.testing.validators import validate

USER = {"role": "user", "content": "hi"}


def refused(provider: str, status: int, body: Any) -> BadRequest:
    exchange = Exchange([USER], provider)
    exchange.begin(status, {"content-type": "application/json"})
    exchange.receive(json.dumps(body).encode())
    with pytest.raises(BadRequest) as caught:
        exchange.end()
    return caught.value


def test_ort_01_the_upstreams_own_words_decide():
    """ORT-01: OpenRouter wraps the upstream's error in its own."""
    raw = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
        },
    }
    error = {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": json.dumps(raw), "provider_name": "Anthropic"},
    }
    failure = refused("openrouter", 400, {"error": error})
    assert failure.repair == "drop_thinking"
    assert "Invalid `signature`" in failure.message


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        pytest.param("ollama", "registry.ollama.ai/library/gemma:2b does not support tools", id="OLL-DOC"),
        pytest.param("openrouter", "No endpoints found that support tool use.", id="ORT-DOC"),
        pytest.param("vllm", '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', id="VLL-04"),
        pytest.param("llamacpp", "tools param requires --jinja flag", id="LCP-05"),
    ],
)  # fmt: skip
def test_a_server_without_tools_is_known_by_its_words(provider: str, message: str):
    failure = refused(provider, 400, {"error": {"message": message, "code": 400}})
    assert failure.repair == "drop_tools"


def streamed(history: list[Any], provider: str = "vllm") -> dict[str, Any]:
    """Return a turn with one call, from a server that numbers its calls from zero in each reply."""
    exchange = Exchange(history, provider)
    delta = {
        "tool_calls": [{"index": 0, "id": "call_0", "function": {"name": "f", "arguments": "{}"}}]
    }
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}
    exchange.receive(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
    exchange.end()
    part = exchange.turn.parts[0]
    return {"role": "vllm", "content": [write_part(part)]}


def test_str_05_ids_that_start_over_with_each_reply_do_not_mix_results():
    """STR-05: both calls are ``call_0`` in the history; the request tells them apart."""
    history: list[Any] = [USER]
    for answer in ("first", "second"):
        call = streamed(history)
        history.append(call)
        identifier = call["content"][0]["content"]["tool_call_id"]
        history.append(
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool_result",
                        "name": "f",
                        "content": answer,
                        "tool_call_id": identifier,
                    }
                ],
            }
        )
    for provider in ("vllm", "anthropic", "gemini", "openai", "openai-chat", "mistral"):
        rendered = render(history, provider, speaker="vllm")
        assert validate(provider, rendered.body, model=rendered.model) == []
        assert len(rendered.ids) == 2
        sent = json.dumps(rendered.body)
        assert sent.index("first") < sent.index("second")
