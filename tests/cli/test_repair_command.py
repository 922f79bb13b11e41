"""``mlc repair`` through the real entry point."""

import json
import subprocess
import sys
from typing import Any

import pytest

BROKEN: dict[str, list[dict[str, Any]]] = {
    "ours": [
        {"role": "user", "content": "Weather?"},
        {"role": "claude", "content": [{"type": "tool_call", "name": "weather", "arguments": {"city": "Tokyo"}}]},
    ],
    "anthropic": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "f:0", "name": "weather", "input": {"city": "Tokyo"}}]},
    ],
    "openai-chat": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "f:0", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Tokyo"}'}}]},
    ],
    "openai-responses": [
        {"type": "message", "role": "user", "content": "Weather?"},
        {"type": "function_call", "call_id": "f:0", "name": "weather", "arguments": '{"city":"Tokyo"}'},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Weather?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {"city": "Tokyo"}}}]},
    ],
    "flat": [
        {"id": "1", "role": "user", "content": "Weather?"},
        {"id": "2", "role": "assistant", "content": "", "tool_use": {"id": "f:0", "name": "weather", "input": {"city": "Tokyo"}}},
    ],
}  # fmt: skip


def mlc(*arguments: str, given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "multi_llm_chat", *arguments],
        input=given, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("source", sorted(BROKEN))
def test_messages_in_any_known_format_become_a_legal_request(source: str):
    messages = BROKEN[source]
    repaired = mlc("repair", "--for", "anthropic", given=json.dumps(messages))
    assert repaired.returncode == 0, repaired.stderr
    body = json.loads(repaired.stdout)
    call = body["messages"][1]["content"][0]
    assert (call["type"], call["name"], call["input"]) == ("tool_use", "weather", {"city": "Tokyo"})
    assert body["messages"][2]["content"][0]["tool_use_id"] == call["id"]
    assert "ANT-02  turn 1: answered an unanswered call of weather" in repaired.stderr
    assert mlc("repair", "--for", "anthropic", "--check", given=repaired.stdout).returncode == 0


def test_a_whole_request_keeps_its_system_prompt_and_tools():
    request: dict[str, Any] = {
        "model": "gpt-4.1",
        "messages": [{"role": "user", "content": "Hi"}],
        "system": [{"type": "text", "text": "Be kind."}],
        "tools": [{"name": "weather", "input_schema": {"type": "object", "properties": {}}}],
    }
    body = json.loads(mlc("repair", "--for", "openai-chat", given=json.dumps(request)).stdout)
    assert body["messages"][0] == {"role": "system", "content": "Be kind."}
    assert body["tools"][0]["function"]["name"] == "weather"


def test_check_judges_with_the_providers_own_words():
    judged = mlc("repair", "--for", "anthropic", "--check", given=json.dumps(BROKEN["anthropic"]))
    assert judged.returncode == 1
    assert (
        "`tool_use` ids were found without `tool_result` blocks immediately after: f:0"
        in judged.stderr
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("no json", "This is not JSON"),
        ("{}", "Expected a list of messages"),
    ],
)
def test_bad_input_is_explained(given: str, says: str):
    refused = mlc("repair", "--for", "openai", given=given)
    assert refused.returncode == 2
    assert says in refused.stderr
