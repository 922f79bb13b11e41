"""Seed 001's eight cases, and the flaws of its algorithm that ours must not have."""

import copy
import enum
from typing import Any

import pytest

from multi_llm_chat import MessageNormalizer, render
from multi_llm_chat.testing import validate


class AIServiceProvider(enum.Enum):
    OpenAI = "openai"
    Groq = "groq"
    Cerebras = "cerebras"
    Fireworks = "fireworks"
    Anthropic = "anthropic"
    Gemini = "gemini"


def call(identifier: str, name: str = "test", arguments: str = "{}") -> dict[str, Any]:
    return {
        "id": identifier,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def sanitize(messages: list[dict[str, Any]], provider: Any = AIServiceProvider.OpenAI) -> Any:
    before = copy.deepcopy(messages)
    result = MessageNormalizer.sanitize_messages_for_provider(messages, provider)
    assert messages == before, "the input was changed"
    assert MessageNormalizer.sanitize_messages_for_provider(result, provider) == result
    return result


def test_should_preserve_valid_tool_call_tool_response_pairs():
    messages = [
        {"id": "1", "role": "assistant", "content": "", "tool_calls": [call("call_1")]},
        {"id": "2", "role": "tool", "content": "result", "tool_call_id": "call_1"},
    ]
    result = sanitize(messages)
    assert len(result) == 2
    assert len(result[0]["tool_calls"]) == 1
    assert result[1]["role"] == "tool"
    assert result == messages


def test_should_remove_orphaned_tool_messages():
    messages = [
        {"id": "1", "role": "assistant", "content": "response"},
        {"id": "2", "role": "tool", "content": "result", "tool_call_id": "call_999"},
    ]
    result = sanitize(messages)
    assert len(result) == 1
    assert result[0]["role"] == "assistant"


def test_should_handle_partial_tool_calls_matching():
    messages = [
        {"id": "1", "role": "assistant", "content": "", "tool_calls": [call("call_1", "test1"), call("call_2", "test2")]},
        {"id": "2", "role": "tool", "content": "result1", "tool_call_id": "call_1"},
    ]  # fmt: skip
    result = sanitize(messages)
    assert len(result[0]["tool_calls"]) == 1
    assert result[0]["tool_calls"][0]["id"] == "call_1"
    assert len(result) == 2


def test_should_remove_all_tool_calls_when_none_match():
    messages = [
        {"id": "1", "role": "assistant", "content": "I will call functions", "tool_calls": [call("call_1")]},
    ]  # fmt: skip
    result = sanitize(messages)
    assert len(result) == 1
    assert "tool_calls" not in result[0]
    assert result[0]["content"] == "I will call functions"


def test_should_preserve_non_tool_messages():
    messages = [
        {"id": "1", "role": "user", "content": "Hello"},
        {"id": "2", "role": "assistant", "content": "Hi"},
        {"id": "3", "role": "system", "content": "You are helpful"},
    ]
    assert sanitize(messages) == messages


def test_should_remove_tool_messages_from_conversation_start():
    messages = [
        {"id": "1", "role": "tool", "content": "orphan", "tool_call_id": "call_orphan"},
        {"id": "2", "role": "user", "content": "Hello"},
    ]
    result = sanitize(messages)
    assert result[0]["role"] == "user"
    assert len(result) == 1


def test_should_not_affect_anthropic_provider_behavior():
    messages = [{"id": "1", "role": "assistant", "content": "", "tool_calls": [call("call_1")]}]
    # The seed asks for a defined result; ours also has no empty assistant message left over.
    assert sanitize(messages, AIServiceProvider.Anthropic) == []


def test_should_apply_to_groq_provider():
    messages = [{"id": "1", "role": "tool", "content": "orphan", "tool_call_id": "call_999"}]
    assert len(sanitize(messages, AIServiceProvider.Groq)) == 0


def test_the_seeds_algorithm_ignores_order_ours_does_not():
    messages = [
        {"id": "1", "role": "assistant", "content": "", "tool_calls": [call("call_1")]},
        {"id": "2", "role": "user", "content": "meanwhile"},
        {"id": "3", "role": "tool", "content": "late", "tool_call_id": "call_1"},
    ]
    assert [message["id"] for message in sanitize(messages)] == ["1", "3", "2"]


def test_removing_a_leading_result_does_not_unpair_its_call():
    messages = [
        {"id": "1", "role": "tool", "content": "early", "tool_call_id": "call_1"},
        {"id": "2", "role": "assistant", "content": "", "tool_calls": [call("call_1")]},
    ]
    assert [message["id"] for message in sanitize(messages)] == ["2", "1"]


def test_duplicate_results_and_reused_ids_do_not_pass():
    messages = [
        {"id": "1", "role": "assistant", "content": "", "tool_calls": [call("call_0")]},
        {"id": "2", "role": "tool", "content": "first", "tool_call_id": "call_0"},
        {"id": "3", "role": "tool", "content": "second", "tool_call_id": "call_0"},
        {"id": "4", "role": "assistant", "content": "", "tool_calls": [call("call_0")]},
        {"id": "5", "role": "tool", "content": "third", "tool_call_id": "call_0"},
    ]
    result = sanitize(messages)
    assert [message["id"] for message in result] == ["1", "3", "4", "5"]
    assert result[1]["content"] == "second"
    assert result[0]["tool_calls"][0]["id"] == result[1]["tool_call_id"] == "call_0"
    assert result[2]["tool_calls"][0]["id"] == result[3]["tool_call_id"] != "call_0"


def test_legacy_tool_use_is_converted_before_pairing():
    messages = [
        {"id": "1", "role": "assistant", "content": "hm", "tool_use": {"id": "t1", "name": "f", "input": {"a": 1}}, "mine": 7},
        {"id": "2", "role": "tool", "content": "result", "tool_call_id": "t1"},
    ]  # fmt: skip
    result = sanitize(messages)
    assert result[0] == {
        "id": "1", "role": "assistant", "content": "hm", "mine": 7,
        "tool_calls": [call("t1", "f", '{"a":1}')],
    }  # fmt: skip
    assert result[1] == messages[1]


def test_an_empty_assistant_message_does_not_remain():
    messages = [
        {"id": "1", "role": "assistant", "content": "", "tool_calls": [call("call_1")]},
        {"id": "2", "role": "user", "content": "never mind"},
    ]
    assert sanitize(messages) == messages[1:]


@pytest.mark.parametrize("provider", list(AIServiceProvider))
def test_thinking_does_not_go_out_and_unknown_keys_stay(provider: AIServiceProvider):
    messages = [
        {"id": "1", "role": "user", "content": "Hi", "sessionId": "s"},
        {
            "id": "2",
            "role": "assistant",
            "content": "Hello",
            "thinking": "hm",
            "thinkingSignature": "sig",
            "sessionId": "s",
        },
    ]
    assert sanitize(messages, provider) == [
        messages[0],
        {"id": "2", "role": "assistant", "content": "Hello", "sessionId": "s"},
    ]


@pytest.mark.parametrize("provider", ["openai", "groq", "anthropic", "gemini", "ollama"])
def test_a_malformed_message_spoils_no_other(provider: str):
    """Safety: graceful degradation on messages of a wrong form; the others are sent."""
    odd: list[Any] = [
        {"id": "1", "role": "assistant", "content": None, "tool_calls": "none"},
        {"id": "2", "role": "tool"},
        {"id": "3", "content": 5},
        {"id": "4", "role": "assistant", "content": "", "tool_calls": [None, {"id": 7}, {"function": "f"}]},
    ]  # fmt: skip
    messages = [{"id": "0", "role": "user", "content": "first"}, *odd, {"id": "5", "role": "user", "content": "last"}]  # fmt: skip
    sent = MessageNormalizer.sanitize_messages_for_provider(messages, provider)
    said = [message.get("content") for message in sent]
    assert said[0] == "first"
    assert said[-1] == "last"
    assert not [message for message in sent if message.get("role") == "tool"]


PROVIDERS = {"openai": "openai-chat", "groq": "groq", "cerebras": "cerebras", "fireworks": "fireworks", "ollama": "ollama"}  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_400_of_the_seed_does_not_occur(provider: str):
    """The problem: a request with an orphan is refused in the seed's words; after the repair it is accepted."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "tool", "content": "result", "tool_call_id": "call_999"},
        {"role": "user", "content": "Well?"},
    ]
    row = PROVIDERS[provider]
    body = {"model": "m", "messages": messages}
    if provider == "openai":
        wordings = [violation.message for violation in validate(row, body)]
        assert any("messages with role 'tool' must be a response to a prece" in text for text in wordings)  # fmt: skip
    repaired = sanitize(messages, provider)
    assert validate(row, body | {"messages": repaired}) == []
    assert [message["content"] for message in repaired] == ["Hi", "Hello", "Well?"]


@pytest.mark.parametrize("provider", [*AIServiceProvider, "ollama"])
def test_every_provider_keeps_exactly_the_valid_pairs(provider: Any):
    """Goal: for every provider a pair stays, an unanswered call and an orphan result are removed, text stays."""
    messages = [
        {"id": "1", "role": "user", "content": "Hi"},
        {"id": "2", "role": "assistant", "content": "Two calls", "tool_calls": [call("call_1"), call("call_2")]},
        {"id": "3", "role": "tool", "content": "result", "tool_call_id": "call_1"},
        {"id": "4", "role": "tool", "content": "orphan", "tool_call_id": "call_9"},
        {"id": "5", "role": "user", "content": "And?"},
        {"id": "6", "role": "assistant", "content": "One call", "tool_calls": [call("call_3")]},
        {"id": "7", "role": "user", "content": "Well?"},
    ]  # fmt: skip
    sent = sanitize(messages, provider)
    assert [message["id"] for message in sent] == ["1", "2", "3", "5", "6", "7"]
    assert [each["id"] for each in sent[1]["tool_calls"]] == ["call_1"]
    assert "tool_calls" not in sent[4]
    assert [message["content"] for message in sent] == [
        message["content"] for message in messages if message["id"] != "4"
    ]


def test_gemini_receives_results_as_the_users():
    """Providers today, 2: results become a message of the user; nothing unpaired is sent."""
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [call("call_1")]},
        {"role": "tool", "content": "result", "tool_call_id": "call_1"},
        {"role": "tool", "content": "orphan", "tool_call_id": "call_2"},
    ]
    repaired = sanitize(messages, AIServiceProvider.Gemini)
    assert repaired == messages[:3]
    body = render(repaired, "gemini").body
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]
    assert "functionResponse" in body["contents"][2]["parts"][0]
    assert validate("gemini", body) == []
