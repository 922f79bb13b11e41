"""Chat Completions, as OpenAI and each compatible server sends it.

Rules:
1. Chunks come in this order: Azure's filter chunk, the role, thinking, text, pictures, calls, the
   finish reason, usage, ``[DONE]``.
2. What differs between servers is read from ``chat_rows``.
3. Usage is sent in a stream only where the server does so, or where it was asked for.
"""

from collections.abc import Iterable
from typing import Any

from multi_llm_chat.events import FinishReason, Usage
from multi_llm_chat.history.values import JsonObject, Media
from multi_llm_chat.testing.simulator.encoders.chat_rows import CHAT_ROWS, ChatReplyRow
from multi_llm_chat.testing.simulator.encoders.events import (
    CREATED,
    Encoder,
    Request,
    StreamEvent,
    Style,
)
from multi_llm_chat.testing.simulator.says import Call, Say, counted, pieces
from multi_llm_chat.testing.validators.typed_views import members

_WORDS: dict[FinishReason, str] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "refusal": "stop",
    "safety": "content_filter",
    "other": "stop",
}

_SAFE = {
    kind: {"filtered": False, "severity": "safe"}
    for kind in ("hate", "self_harm", "sexual", "violence")
}


def _stream(say: Say, request: Request) -> list[StreamEvent]:
    row = CHAT_ROWS[request.provider]
    usage = usage_of(row, counted(say, request.size))
    chunks: list[JsonObject] = []
    if row.filter_results:
        chunks.append(filter_chunk())
    chunks += [_chunk(request, row, delta) for delta in _deltas(say, request, row)]
    chunks.append(_last_chunk(say, request, row, usage))
    chunks += _usage_chunks(request, row, usage, chunks)
    if row.usage == "groq":
        chunks[0]["x_groq"] = {"id": _groq_id(request)}
    comments = [StreamEvent(comment=": OPENROUTER PROCESSING")] * row.opening_comments
    return [*comments, *map(StreamEvent, chunks), StreamEvent("[DONE]")]


def _deltas(say: Say, request: Request, row: ChatReplyRow) -> Iterable[JsonObject]:
    everywhere: JsonObject = {"role": "assistant"} if row.role_everywhere else {}
    yield _role_delta(say, row)
    for piece in pieces(say.thinking, say.delta_size) if row.thinking else ():
        yield everywhere | _thinking_delta(row, piece)
    if row.thinking == "details" and say.thinking:
        signed = {"type": "reasoning.text", "signature": _signature(say, request)}
        yield everywhere | {
            "content": "",
            "reasoning": None,
            "reasoning_details": [signed | {"format": "anthropic-claude-v1", "index": 0}],
        }
    spoken = "refusal" if row.refuses and say.reason == "refusal" else "content"
    for piece in pieces(say.text, say.delta_size):
        yield everywhere | {spoken: piece}
    if row.pictures and say.media:
        yield everywhere | {"content": "", "images": _images(say.media)}
    for fragments in _call_deltas(say, request, row):
        yield everywhere | {"tool_calls": fragments}


def _role_delta(say: Say, row: ChatReplyRow) -> JsonObject:
    delta: JsonObject = {"role": "assistant", "content": "" if say.text or not say.calls else None}
    if row.refuses:
        delta["refusal"] = None
    if row.thinking == "reasoning_content":
        delta["reasoning_content"] = ""
    return delta


def _thinking_delta(row: ChatReplyRow, piece: str) -> JsonObject:
    match row.thinking:
        case "content":
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": piece}]}
            return {"content": [thought]}
        case "details":
            detail = {"type": "reasoning.text", "text": piece, "format": "anthropic-claude-v1"}
            return {"content": "", "reasoning": piece, "reasoning_details": [detail | {"index": 0}]}
        case "reasoning_content":
            return {"content": None, "reasoning_content": piece}
        case _:
            return {row.thinking: piece}


def _call_deltas(say: Say, request: Request, row: ChatReplyRow) -> list[list[JsonObject]]:
    """The lists of fragments, one for each chunk."""
    each = [_fragments(call, index, say, request, row) for index, call in enumerate(say.calls)]
    if say.interleave:
        longest = max(map(len, each), default=0)
        turns = [
            [fragments[turn] for fragments in each if turn < len(fragments)]
            for turn in range(longest)
        ]
        return [[fragment] for turn in turns for fragment in turn]
    return [[fragment] for fragments in each for fragment in fragments]


def _fragments(
    call: Call, index: int, say: Say, request: Request, row: ChatReplyRow
) -> list[JsonObject]:
    first: JsonObject = {"index": index, **_head(call, index, request, row)}
    if row.whole_calls and not say.interleave:
        first["function"]["arguments"] = call.text
        return [first]
    rest = [
        {"index": index, "function": {"arguments": piece}}
        for piece in pieces(call.text, say.delta_size)
    ]
    return [first, *rest]


def _head(call: Call, index: int, request: Request, row: ChatReplyRow) -> JsonObject:
    identifier = call.id
    if identifier is None:
        made = request.identifier(f"call/{index}", row.id_length, row.id_alphabet)
        identifier = row.id_prefix + made
    function = {"name": call.name, "arguments": ""}
    return {"id": identifier, "type": "function", "function": function}


def _chunk(
    request: Request, row: ChatReplyRow, delta: JsonObject, finish: str | None = None
) -> JsonObject:
    choice: JsonObject = {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        "finish_reason": finish,
    }
    if row.filter_results:
        choice["content_filter_results"] = _SAFE if delta.get("content") else {}
    return _envelope(request, row, "chat.completion.chunk", [choice])


def _envelope(
    request: Request, row: ChatReplyRow, kind: str, choices: list[JsonObject]
) -> dict[str, Any]:
    return {
        "id": row.reply_prefix + request.identifier("reply", 29),
        "object": kind,
        "created": CREATED,
        "model": request.model,
        **row.chunk_extra,
        "choices": choices,
    }


def _last_chunk(say: Say, request: Request, row: ChatReplyRow, usage: JsonObject) -> JsonObject:
    chunk = _chunk(request, row, {}, finish_word(say, row))
    if row.usage == "last":
        chunk["usage"] = usage
    if row.usage == "groq":
        chunk["x_groq"] = {"id": _groq_id(request), "usage": usage}
    return chunk


def _usage_chunks(
    request: Request, row: ChatReplyRow, usage: JsonObject, chunks: list[JsonObject]
) -> list[JsonObject]:
    asked = bool(members(request.body.get("stream_options")).get("include_usage"))
    if row.usage == "last" or not (asked or row.usage == "always"):
        return []
    if row.usage == "asked":
        for chunk in chunks:
            chunk["usage"] = None
    return [_envelope(request, row, "chat.completion.chunk", []) | {"usage": usage}]


def _whole(say: Say, request: Request) -> JsonObject:
    row = CHAT_ROWS[request.provider]
    choice: JsonObject = {
        "index": 0,
        "message": _message(say, request, row),
        "logprobs": None,
        "finish_reason": finish_word(say, row),
    }
    if row.filter_results:
        choice["content_filter_results"] = _SAFE
    body = _envelope(request, row, "chat.completion", [choice])
    body["usage"] = usage_of(row, counted(say, request.size))
    if row.filter_results:
        body["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": _SAFE}]
    if row.usage == "groq":
        body["x_groq"] = {"id": _groq_id(request)}
    return body


def _message(say: Say, request: Request, row: ChatReplyRow) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": say.text or None}
    if row.refuses:
        refused = say.reason == "refusal"
        message["refusal"] = say.text if refused else None
        message["content"] = None if refused else message["content"]
        message["annotations"] = []
    if say.thinking and row.thinking:
        _think(message, say, request, row)
    if row.pictures and say.media:
        message["images"] = _images(say.media)
    if say.calls:
        message["tool_calls"] = [
            _whole_call(call, i, request, row) for i, call in enumerate(say.calls)
        ]
    return message


def _think(message: JsonObject, say: Say, request: Request, row: ChatReplyRow) -> None:
    match row.thinking:
        case "content":
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": say.thinking}]}
            spoken = [{"type": "text", "text": say.text}] if say.text else []
            message["content"] = [thought, *spoken]
        case "details":
            detail = {
                "type": "reasoning.text",
                "text": say.thinking,
                "signature": _signature(say, request),
                "format": "anthropic-claude-v1",
                "index": 0,
            }
            message.update(reasoning=say.thinking, reasoning_details=[detail])
        case _:
            message[row.thinking] = say.thinking


def _whole_call(call: Call, index: int, request: Request, row: ChatReplyRow) -> JsonObject:
    head = _head(call, index, request, row)
    head["function"]["arguments"] = call.text
    return head


def finish_word(say: Say, row: ChatReplyRow) -> str:
    """The word with which this server ends this reply."""
    if say.raw_finish is not None:
        return say.raw_finish
    return row.finish_words.get(say.reason, _WORDS[say.reason])


def filter_chunk() -> JsonObject:
    """Azure's first chunk, which has no choice."""
    results = [{"prompt_index": 0, "content_filter_results": _SAFE}]
    return {
        "choices": [],
        "created": 0,
        "id": "",
        "model": "",
        "object": "",
        "prompt_filter_results": results,
    }


def usage_of(row: ChatReplyRow, usage: Usage) -> JsonObject:
    """The usage as this server counts it."""
    counts: JsonObject = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cache_read_tokens or row.refuses:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cache_read_tokens}
    if usage.thinking_tokens or row.refuses:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.thinking_tokens}
    if row.usage == "groq":
        counts.update(queue_time=0.01, prompt_time=0.002, completion_time=0.03, total_time=0.042)
    if row.thinking == "details":
        counts["cost"] = 0.0001
    return counts


def _images(media: Iterable[Media]) -> list[JsonObject]:
    return [
        {
            "type": "image_url",
            "index": index,
            "image_url": {"url": item.url or f"data:{item.mime};base64,{item.data}"},
        }
        for index, item in enumerate(media)
    ]


def _signature(say: Say, request: Request) -> str:
    if say.signature is not None:
        return say.signature
    return request.identifier("signature", 40)


def _groq_id(request: Request) -> str:
    return f"req_{request.identifier('groq', 26).lower()}"


CHAT = Encoder(_stream, _whole, Style(whole_indent=2))
