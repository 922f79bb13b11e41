"""Anthropic Messages.

Rules:
1. A block is started, filled by deltas and stopped before the next one starts.
2. Thinking ends with its signature; a call starts with ``input: {}`` and an empty delta (STR-10).
3. The input is counted in ``message_start``, the output in ``message_delta``.
"""

from collections.abc import Iterable

from multi_llm_chat.events import FinishReason, Usage
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.events import Encoder, Request, StreamEvent, Style
from multi_llm_chat.testing.simulator.says import Call, Say, counted, pieces

_WORDS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "safety": "refusal",
    "other": "pause_turn",
}


def _stream(say: Say, request: Request) -> list[StreamEvent]:
    usage = counted(say, request.size)
    message = _message(request, [], None, _usage(usage, output=1))
    events = [_event("message_start", message=message)]
    for index, (start, deltas) in enumerate(_blocks(say, request)):
        events.append(_event("content_block_start", index=index, content_block=start))
        if index == 0:
            events.append(_event("ping"))
        events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(_event("content_block_stop", index=index))
    ending = {"stop_reason": _stop_reason(say), "stop_sequence": None}
    events.append(_event("message_delta", delta=ending, usage=_final_usage(usage)))
    events.append(_event("message_stop"))
    return events


def _blocks(say: Say, request: Request) -> Iterable[tuple[JsonObject, list[JsonObject]]]:
    """Each block as it starts, and the deltas that fill it."""
    size = say.delta_size
    if say.thinking:
        deltas: list[JsonObject] = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(say.thinking, size)
        ]
        signature = _signature(say, request)
        deltas += [{"type": "signature_delta", "signature": signature}] if signature else []
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if say.text:
        spoken: list[JsonObject] = [
            {"type": "text_delta", "text": piece} for piece in pieces(say.text, size)
        ]
        yield {"type": "text", "text": ""}, spoken
    for index, call in enumerate(say.calls):
        block: JsonObject = {**_call_block(call, index, request), "input": {}}
        # A call without arguments has one empty delta and nothing else.
        text = "" if call.value == {} and isinstance(call.arguments, dict) else call.text
        written: list[JsonObject] = [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in ["", *pieces(text, size)]
        ]
        yield block, written


def _call_block(call: Call, index: int, request: Request) -> JsonObject:
    identifier = call.id
    if identifier is None:
        identifier = f"toolu_01{request.identifier(f'call/{index}', 22)}"
    return {"type": "tool_use", "id": identifier, "name": call.name, "input": call.value}


def _whole(say: Say, request: Request) -> JsonObject:
    content: list[JsonObject] = []
    if say.thinking:
        signature = _signature(say, request)
        content.append({"type": "thinking", "thinking": say.thinking, "signature": signature})
    if say.text:
        content.append({"type": "text", "text": say.text})
    content += [_call_block(call, index, request) for index, call in enumerate(say.calls)]
    usage = counted(say, request.size)
    return _message(request, content, _stop_reason(say), _usage(usage) | _thinking_tokens(usage))


def _message(
    request: Request, content: list[JsonObject], reason: str | None, usage: JsonObject
) -> JsonObject:
    return {
        "model": request.model,
        "id": f"msg_01{request.identifier('reply', 22)}",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }


def _usage(usage: Usage, output: int | None = None) -> JsonObject:
    """The usage; Anthropic counts cached input apart from the rest."""
    written, read = usage.cache_write_tokens, usage.cache_read_tokens
    return {
        "input_tokens": max(usage.input_tokens - written - read, 0),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output_tokens if output is None else output,
        "service_tier": "standard",
    }


def _final_usage(usage: Usage) -> JsonObject:
    counts = _usage(usage)
    del counts["service_tier"]
    return counts | _thinking_tokens(usage)


def _thinking_tokens(usage: Usage) -> JsonObject:
    if not usage.thinking_tokens:
        return {}
    return {"output_tokens_details": {"thinking_tokens": usage.thinking_tokens}}


def _stop_reason(say: Say) -> str:
    return say.raw_finish if say.raw_finish is not None else _WORDS[say.reason]


def _signature(say: Say, request: Request) -> str:
    return say.signature if say.signature is not None else f"EqQB{request.identifier('sign', 40)}"


def _event(kind: str, **members: object) -> StreamEvent:
    return StreamEvent({"type": kind, **members}, name=kind)


ANTHROPIC = Encoder(_stream, _whole, Style())
