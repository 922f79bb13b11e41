"""Replies that are not streamed decode to the same parts and the same event content."""

import json
from typing import Any

import pytest
from tests.protocol.corpus import CONTEXT, ORIGIN, WHOLE, cases

from multi_llm_chat.data_limits import REPLY_LIMITS
from multi_llm_chat.errors import AuthError, Overloaded, ProviderError, Refused, StreamBroken
from multi_llm_chat.events import (
    Event,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from multi_llm_chat.history.values import Media, Native, Part, Text, Thinking, ToolCall
from multi_llm_chat.protocol._sse import SseDecoder


def decode(dialect: str, body: Any) -> tuple[tuple[Part, ...], list[Event]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return WHOLE[dialect](data, CONTEXT)


def chat(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "choices": [choice], **more}


def test_a_whole_chat_reply() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"n": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
    ]
    message = {"content": "Hi", "reasoning_content": "hm", "tool_calls": calls}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    parts, events = decode("openai_chat", chat(message, "tool_calls", usage=usage))
    first, second = ToolCall("f", {"n": 1}, "a", '{"n": 1}'), ToolCall("g", {}, "b")
    assert parts == (
        Thinking("hm", ORIGIN, {"field": "reasoning_content"}),
        Text("Hi"),
        first,
        second,
    )
    assert [event for event in events if type(event).__name__ != "ToolCallDelta"] == [
        ThinkingDelta("hm"),
        TextDelta("Hi"),
        ToolCallStart(0, "a", "f"),
        ToolCallEnd(0, first),
        ToolCallStart(1, "b", "g"),
        ToolCallEnd(1, second),
        Usage(3, 4),
        Finish("tool_calls", "tool_calls"),
    ]


def test_str_01_calls_of_a_message_without_ids_are_distinguished() -> None:
    call: dict[str, Any] = {"function": {"name": "f", "arguments": {}}}
    parts, _ = decode("openai_chat", chat({"content": None, "tool_calls": [call, call]}))
    assert parts == (ToolCall("f", {}, "call_0"), ToolCall("f", {}, "call_1"))


def test_str_06_a_chat_reply_without_a_reason_is_whole() -> None:
    assert decode("openai_chat", chat({"content": "Hi"}, None))[1][-1] == Finish("stop", "")


def test_a_whole_anthropic_reply() -> None:
    body: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "r"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"n": 1}},
            {"type": "tool_use", "id": "b", "name": "g", "input": {}},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5},
    }
    parts, events = decode("anthropic", body)
    assert parts == (
        Thinking("hm", ORIGIN, {"signature": "s"}),
        Thinking("", ORIGIN, {"redacted": "r"}),
        Text("Hi"),
        ToolCall("f", {"n": 1}, "a"),
        ToolCall("g", {}, "b"),
        Native("server_tool_use", "used web_search {}", ORIGIN, body["content"][-1]),
    )
    assert events[-2:] == [Usage(8, 4, 5), Finish("tool_calls", "tool_use")]


def test_a_whole_gemini_reply() -> None:
    parts, events = decode(
        "gemini",
        {
            "candidates": [
                {
                    "content": {
                        "parts": [
                            {"text": "hm", "thought": True},
                            {"text": "Hi"},
                            {
                                "functionCall": {"name": "f", "args": {"n": 1}},
                                "thoughtSignature": "s",
                            },
                            {"functionCall": {"name": "g"}},
                            {"fileData": {"mimeType": "image/png", "fileUri": "https://x.test/i"}},
                        ]
                    },
                    "finishReason": "STOP",
                }
            ],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4},
        },
    )
    assert parts == (
        Thinking("hm", ORIGIN),
        Text("Hi"),
        Thinking("", ORIGIN, {"thoughtSignature": "s"}),
        ToolCall("f", {"n": 1}, "call_0"),
        ToolCall("g", {}, "call_1"),
        Media("image/png", url="https://x.test/i"),
    )
    assert events[-2:] == [Usage(3, 4), Finish("tool_calls", "STOP")]


responses = [
    case
    for case in cases()
    if case.dialect == "openai_responses" and "finish" in case.expected and case.expected["oracle"]
]


@pytest.mark.parametrize("case", responses, ids=lambda case: case.id)
def test_a_whole_response_is_the_same_as_its_stream(case: Any) -> None:
    last = json.loads(SseDecoder(REPLY_LIMITS).feed(case.stream)[-1][1])
    parts, events = decode(case.dialect, last["response"])
    assert [part for part in parts if isinstance(part, Thinking)] == [
        Thinking(part["content"], ORIGIN, part["opaque"])
        for part in case.expected["parts"]
        if part["type"] == "thinking"
    ]
    calls = [part for part in parts if isinstance(part, ToolCall)]
    expected = [part for part in case.expected["parts"] if part["type"] == "tool_call"]
    assert [(call.name, call.arguments, call.tool_call_id, call.error) for call in calls] == [
        (part["name"], part["arguments"], part["tool_call_id"], part.get("error"))
        for part in expected
    ]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "".join(
        part["content"] for part in case.expected["parts"] if part["type"] == "text"
    )
    assert events[-1] == Finish(*case.expected["finish"])


@pytest.mark.parametrize(
    ("dialect", "body", "kind"),
    [
        ("openai_chat", {"error": {"message": "Overloaded", "type": "server_error"}}, Overloaded),
        ("openai_chat", {"object": "error", "message": "bad", "code": 401}, AuthError),
        ("openai_chat", {}, StreamBroken),
        ("openai_chat", chat({}, "error"), ProviderError),
        ("openai_responses", {"status": "failed", "output": [], "error": {"code": "server_error"}}, Overloaded),
        ("openai_responses", {"error": {"code": "invalid_api_key"}}, AuthError),
        ("openai_responses", {}, StreamBroken),
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error"}}, Overloaded),
        ("anthropic", {"type": "message"}, StreamBroken),
        ("anthropic", {}, StreamBroken),
        ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}, Refused),
        ("gemini", [{"error": {"code": 503, "status": "UNAVAILABLE"}}], Overloaded),
        ("gemini", {}, StreamBroken),
        ("gemini", b"<html>", StreamBroken),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_reply_is_an_error(dialect: str, body: Any, kind: type[ProviderError]) -> None:
    with pytest.raises(kind):
        decode(dialect, body)
