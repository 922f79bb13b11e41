"""Replies as they stand on the wire, in four dialects: many small deltas, or one call in many fragments."""

import json
from collections.abc import Callable, Iterable
from typing import Any

DELTAS = 3000
FRAGMENTS = 4000

#: What every chunk of Chat Completions says besides its choices.
_CHUNK = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion.chunk",
    "created": 1741569952,
    "model": "gpt-4.1-2025-04-14",
    "service_tier": "default",
    "system_fingerprint": "fp_50cad350e4",
}


def _chunk(delta: Any, reason: str | None = None) -> tuple[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return "", _CHUNK | {"choices": [choice], "usage": None}


def chat_events() -> Iterable[tuple[str, Any]]:
    for number in range(DELTAS):
        yield _chunk({"content": f" word{number}"})
    yield _chunk({}, "stop")


def _responses() -> Iterable[tuple[str, Any]]:
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    yield (
        "response.created",
        {
            "type": "response.created",
            "response": {"id": "resp_1", "status": "in_progress", "output": []},
        },
    )
    yield (
        "response.output_item.added",
        {"type": "response.output_item.added", "output_index": 0, "item": item},
    )
    text = ""
    for number in range(DELTAS):
        text += f" word{number}"
        yield (
            "response.output_text.delta",
            {
                "type": "response.output_text.delta",
                "sequence_number": number + 4,
                "item_id": "msg_67ccd2bf17f0819081ff3bb2cf6508e60bb6a6b452d3795b",
                "output_index": 0,
                "content_index": 0,
                "delta": f" word{number}",
                "logprobs": [],
                "obfuscation": "k3mQ9xZt",
            },
        )
    done: dict[str, Any] = item | {
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    yield (
        "response.output_item.done",
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    )
    yield (
        "response.completed",
        {
            "type": "response.completed",
            "response": {
                "id": "resp_1",
                "status": "completed",
                "output": [done],
                "usage": {"input_tokens": 9, "output_tokens": DELTAS},
            },
        },
    )


def _anthropic() -> Iterable[tuple[str, Any]]:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-sonnet-5",
        "stop_reason": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    yield "message_start", {"type": "message_start", "message": message}
    yield (
        "content_block_start",
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    )
    for number in range(DELTAS):
        yield (
            "content_block_delta",
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": f" word{number}"},
            },
        )
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    yield (
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": DELTAS},
        },
    )
    yield "message_stop", {"type": "message_stop"}


def _gemini() -> Iterable[tuple[str, Any]]:
    for number in range(DELTAS):
        yield (
            "",
            {
                "candidates": [
                    {
                        "content": {"parts": [{"text": f" word{number}"}], "role": "model"},
                        "index": 0,
                    }
                ],
                "usageMetadata": {
                    "promptTokenCount": 9,
                    "candidatesTokenCount": number,
                    "totalTokenCount": number + 9,
                    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}],
                },
                "modelVersion": "gemini-3.7-flash",
                "responseId": "9h0WaJ3yH5TqvdIP1_nJsAo",
            },
        )
    yield (
        "",
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": ""}], "role": "model"},
                    "finishReason": "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": DELTAS},
        },
    )


def call_events() -> Iterable[tuple[str, Any]]:
    """One call of Chat Completions, its arguments in many pieces."""
    first = {"index": 0, "id": "call_1", "function": {"name": "write", "arguments": '{"text":"'}}
    rest = {"index": 0, "function": {"arguments": "word "}}
    last = {"index": 0, "function": {"arguments": '"}'}}
    for delta in (first, *[rest] * FRAGMENTS, last):
        yield _chunk({"tool_calls": [delta]})
    yield _chunk({}, "tool_calls")


STREAMS: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
    "openai-chat": chat_events,
    "openai": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


def frames(provider: str, events: Iterable[tuple[str, Any]] | None = None) -> list[bytes]:
    """The events of a reply, each as it stands on the wire."""
    lines: list[bytes] = []
    for name, data in events or STREAMS[provider]():
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        lines.append((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
    if provider == "openai-chat":
        lines.append(b"data: [DONE]\n\n")
    return lines
