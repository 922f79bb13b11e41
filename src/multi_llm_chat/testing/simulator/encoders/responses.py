"""OpenAI Responses.

Rules:
1. Output items are reasoning, the message, pictures, calls; each is added, filled and done.
2. ``sequence_number`` counts all events of a reply in the order in which they are sent.
3. Encrypted reasoning is sent only where the request includes it.
4. A call that the length limit cut off is ``incomplete``, and so is the response.
"""

import json
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from multi_llm_chat.events import FinishReason, Usage
from multi_llm_chat.history.values import JsonObject, Media
from multi_llm_chat.testing.simulator.encoders.events import (
    CREATED,
    HEXADECIMAL,
    Encoder,
    Request,
    StreamEvent,
    Style,
)
from multi_llm_chat.testing.simulator.says import Call, Say, counted, pieces
from multi_llm_chat.testing.validators.typed_views import as_array

_INCOMPLETE: dict[FinishReason, str] = {"length": "max_output_tokens", "safety": "content_filter"}

#: What a response repeats of its request, with what stands there when it was not said.
_ECHOED: JsonObject = {
    "instructions": None,
    "max_output_tokens": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "metadata": {},
}


class _Item(Struct, frozen=True):
    """One output item: as it begins, the events that fill it, and as it is done."""

    begun: JsonObject
    filling: Sequence[JsonObject]
    done: JsonObject


def _stream(say: Say, request: Request) -> list[StreamEvent]:
    begun = _response(request, [], "in_progress", None)
    events: list[JsonObject] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    items = _items(say, request)
    before = [item for item in items if item.done["type"] != "function_call"]
    calls = [_item_events(item, index) for index, item in enumerate(items) if item not in before]
    for index, item in enumerate(before):
        events += _item_events(item, index)
    if say.interleave:
        calls = [[event for event in turn if event] for turn in zip_longest(*calls)]
    for group in calls:
        events += group
    events.append(_ending(say, request, items))
    return [
        StreamEvent({"type": event["type"], "sequence_number": number, **event}, event["type"])
        for number, event in enumerate(events)
    ]


def _item_events(item: _Item, index: int) -> list[JsonObject]:
    filling = [
        {"type": event["type"], "item_id": item.done["id"], "output_index": index, **event}
        for event in item.filling
    ]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item.begun},
        *filling,
        {"type": "response.output_item.done", "output_index": index, "item": item.done},
    ]


def _ending(say: Say, request: Request, items: Sequence[_Item]) -> JsonObject:
    response = _finished(say, request, items)
    return {"type": f"response.{response['status']}", "response": response}


def _whole(say: Say, request: Request) -> JsonObject:
    return _finished(say, request, _items(say, request))


def _finished(say: Say, request: Request, items: Sequence[_Item]) -> JsonObject:
    reason = say.raw_finish or _INCOMPLETE.get(say.reason)
    usage = _usage(counted(say, request.size))
    output = [item.done for item in items]
    status = "incomplete" if reason else "completed"
    response = _response(request, output, status, usage)
    response["incomplete_details"] = {"reason": reason} if reason else None
    return response


def _response(
    request: Request, output: list[JsonObject], status: str, usage: JsonObject | None
) -> JsonObject:
    echoed = {key: request.body.get(key, value) for key, value in _ECHOED.items()}
    return {
        "id": f"resp_{request.identifier('reply', 48, HEXADECIMAL)}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": output,
        **echoed,
        "usage": usage,
    }


def _items(say: Say, request: Request) -> list[_Item]:
    items: list[_Item] = []
    if say.thinking or say.signature:
        items.append(_reasoning(say, request))
    if say.text:
        items.append(_message(say, request))
    items += [_picture(media, i, request) for i, media in enumerate(say.media) if media.data]
    last = len(say.calls) - 1
    for index, call in enumerate(say.calls):
        cut = index == last and say.reason == "length" and not _is_json(call.text)
        items.append(
            _function_call(call, index, say, request, "incomplete" if cut else "completed")
        )
    return items


def _reasoning(say: Say, request: Request) -> _Item:
    done: JsonObject = {"id": _id("rs", "reasoning", request), "type": "reasoning", "summary": []}
    if say.thinking:
        done["summary"] = [{"type": "summary_text", "text": say.thinking}]
    if "reasoning.encrypted_content" in (as_array(request.body.get("include")) or []):
        made = f"gAAAAAB{request.identifier('encrypted', 60)}"
        done["encrypted_content"] = made if say.signature is None else say.signature
    filling: list[JsonObject] = []
    if say.thinking:
        kind = "response.reasoning_summary"
        place: JsonObject = {"summary_index": 0}
        empty, full = ({"type": "summary_text", "text": text} for text in ("", say.thinking))
        filling = [
            {"type": f"{kind}_part.added", **place, "part": empty},
            *(
                {"type": f"{kind}_text.delta", **place, "delta": piece, "obfuscation": "kQ3"}
                for piece in pieces(say.thinking, say.delta_size)
            ),
            {"type": f"{kind}_text.done", **place, "text": say.thinking},
            {"type": f"{kind}_part.done", **place, "part": full},
        ]
    return _Item(done | {"summary": []}, filling, done)


def _message(say: Say, request: Request) -> _Item:
    part = _content(say, say.text)
    kind = "response.refusal" if say.reason == "refusal" else "response.output_text"
    spoken = "refusal" if say.reason == "refusal" else "text"
    extra: JsonObject = {} if spoken == "refusal" else {"logprobs": []}
    place: JsonObject = {"content_index": 0}
    filling: list[JsonObject] = [
        {"type": "response.content_part.added", **place, "part": _content(say, "")},
        *(
            {"type": f"{kind}.delta", **place, "delta": piece, **extra, "obfuscation": "p7Lz"}
            for piece in pieces(say.text, say.delta_size)
        ),
        {"type": f"{kind}.done", **place, spoken: say.text, **extra},
        {"type": "response.content_part.done", **place, "part": part},
    ]
    cut = say.reason == "length" and not say.calls
    done: JsonObject = {
        "id": _id("msg", "message", request),
        "type": "message",
        "status": "incomplete" if cut else "completed",
        "content": [part],
        "role": "assistant",
    }
    return _Item(done | {"status": "in_progress", "content": []}, filling, done)


def _content(say: Say, text: str) -> JsonObject:
    if say.reason == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _picture(media: Media, index: int, request: Request) -> _Item:
    done: JsonObject = {
        "id": _id("ig", f"picture/{index}", request),
        "type": "image_generation_call",
        "status": "completed",
        "output_format": media.mime.partition("/")[2],
        "result": media.data,
    }
    filling: list[JsonObject] = [
        {"type": f"response.image_generation_call.{state}"}
        for state in ("in_progress", "generating", "completed")
    ]
    return _Item(done | {"status": "in_progress", "result": None}, filling, done)


def _function_call(call: Call, index: int, say: Say, request: Request, status: str) -> _Item:
    done: JsonObject = {
        "id": _id("fc", f"item/{index}", request),
        "type": "function_call",
        "status": status,
        "arguments": call.text,
        "call_id": call.id or f"call_{request.identifier(f'call/{index}', 24)}",
        "name": call.name,
    }
    kind = "response.function_call_arguments"
    filling: list[JsonObject] = [
        {"type": f"{kind}.delta", "delta": piece, "obfuscation": "x9"}
        for piece in pieces(call.text, say.delta_size)
    ]
    filling.append({"type": f"{kind}.done", "arguments": call.text, "name": call.name})
    return _Item(done | {"status": "in_progress", "arguments": ""}, filling, done)


def _usage(usage: Usage) -> JsonObject:
    cached: dict[str, Any] = {"cached_tokens": usage.cache_read_tokens}
    if usage.cache_write_tokens:
        cached["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": cached,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def _id(prefix: str, place: str, request: Request) -> str:
    return f"{prefix}_{request.identifier(place, 48, HEXADECIMAL)}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


RESPONSES = Encoder(_stream, _whole, Style(whole_indent=2))
