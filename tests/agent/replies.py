"""One short answer and one error in every dialect, streamed and whole."""

import json
from typing import Any

from tests.servers import Script, streamed, whole

TEXT = "Hello, 世界"
CALL = {"name": "get_weather", "arguments": {"city": "Roma"}, "tool_call_id": "call_1"}
_ARGUMENTS = json.dumps(CALL["arguments"])


def _sse(*events: tuple[str, Any]) -> bytes:
    lines: list[str] = []
    for name, data in events:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        lines.append((f"event: {name}\n" if name else "") + f"data: {text}\n\n")
    return "".join(lines).encode()


def _chat_stream() -> bytes:
    call = {
        "index": 0,
        "id": "call_1",
        "function": {"name": "get_weather", "arguments": _ARGUMENTS},
    }
    deltas: list[Any] = [{"content": "Hello, "}, {"content": "世界"}, {"tool_calls": [call]}]
    end: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    return _sse(
        *(("", {"choices": [{"index": 0, "delta": delta}]}) for delta in deltas),
        ("", {"choices": [end]}),
        ("", {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}),
        ("", "[DONE]"),
    )


_CHAT: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": TEXT,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": _ARGUMENTS},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5},
}

_MESSAGE: dict[str, Any] = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
}
_FUNCTION_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "get_weather",
    "arguments": _ARGUMENTS,
    "status": "completed",
}
_RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [_MESSAGE, _FUNCTION_CALL],
    "usage": {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12},
}


def _responses_stream() -> bytes:
    events: list[Any] = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": _MESSAGE | {"content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": "Hello, "},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": "世界"},
        {"type": "response.output_item.done", "output_index": 0, "item": _MESSAGE},
        {"type": "response.output_item.added", "output_index": 1, "item": _FUNCTION_CALL | {"arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "fc_1", "delta": _ARGUMENTS},
        {"type": "response.output_item.done", "output_index": 1, "item": _FUNCTION_CALL},
        {"type": "response.completed", "response": _RESPONSE},
    ]  # fmt: skip
    return _sse(*((event["type"], event) for event in events))


_ANTHROPIC: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "text", "text": TEXT},
        {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": CALL["arguments"]},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 7, "output_tokens": 5},
}


def _anthropic_stream() -> bytes:
    start: dict[str, Any] = _ANTHROPIC | {
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
    events: list[Any] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello, "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "世界"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": _ARGUMENTS}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return _sse(*((event["type"], event) for event in events))


def _gemini_chunk(*parts: Any, **more: Any) -> Any:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0} | more
    usage = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
    return {"candidates": [candidate], "usageMetadata": usage}


_GEMINI_CALL = {"functionCall": {"id": "call_1", "name": "get_weather", "args": CALL["arguments"]}}


def _gemini_stream() -> bytes:
    return _sse(
        ("", _gemini_chunk({"text": "Hello, "})),
        ("", _gemini_chunk({"text": "世界"})),
        ("", _gemini_chunk(_GEMINI_CALL, finishReason="STOP")),
    )


STREAMS = {
    "openai_chat": _chat_stream(),
    "openai_responses": _responses_stream(),
    "anthropic": _anthropic_stream(),
    "gemini": _gemini_stream(),
}
WHOLES: dict[str, Any] = {
    "openai_chat": _CHAT,
    "openai_responses": _RESPONSE,
    "anthropic": _ANTHROPIC,
    "gemini": _gemini_chunk({"text": TEXT}, _GEMINI_CALL, finishReason="STOP"),
}


def stream_of(dialect: str) -> Script:
    return streamed([STREAMS[dialect]])


def whole_of(dialect: str) -> Script:
    return whole(WHOLES[dialect])
