"""Gemini generateContent.

Rules:
1. Each piece of thought, text, each picture and each call is a part; a stream has one in each chunk.
2. The first call carries the thought signature, as Gemini 3 demands it back.
3. Calls come whole; what is not a JSON object cannot be said and becomes an empty one.
4. The finish reason comes with the last part; usage comes with every chunk.
"""

from multi_llm_chat.events import FinishReason, Usage
from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.events import Encoder, Request, StreamEvent, Style
from multi_llm_chat.testing.simulator.says import Call, Say, counted, pieces
from multi_llm_chat.testing.validators.typed_views import members

_WORDS: dict[FinishReason, str] = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "refusal": "PROHIBITED_CONTENT",
    "safety": "SAFETY",
    "other": "OTHER",
}


def _stream(say: Say, request: Request) -> list[StreamEvent]:
    usage = counted(say, request.size)
    parts = _parts(say, request, say.delta_size)
    *earlier, last = parts or [{"text": ""}]
    chunks = [_chunk(request, [part], None, _early_usage(usage)) for part in earlier]
    chunks.append(_chunk(request, [last], finish_word(say), _usage(usage)))
    return [StreamEvent(chunk) for chunk in chunks]


def _whole(say: Say, request: Request) -> JsonObject:
    parts = _parts(say, request, max(len(say.thinking), len(say.text), 1))
    return _chunk(request, parts, finish_word(say), _usage(counted(say, request.size)))


def _parts(say: Say, request: Request, size: int) -> list[JsonObject]:
    parts: list[JsonObject] = [
        {"text": piece, "thought": True} for piece in pieces(say.thinking, size)
    ]
    parts += [{"text": piece} for piece in pieces(say.text, size)]
    parts += [
        {"inlineData": {"mimeType": media.mime, "data": media.data}}
        for media in say.media
        if media.data
    ]
    calls = [_call_part(call, index, request) for index, call in enumerate(say.calls)]
    signature = signature_of(say, request)
    if calls and signature:
        calls[0]["thoughtSignature"] = signature
    elif say.signature:  # a reply without calls is signed on an empty last part
        calls = [{"text": "", "thoughtSignature": say.signature}]
    return parts + calls


def _call_part(call: Call, index: int, request: Request) -> JsonObject:
    called: JsonObject = {
        "id": call.id or request.identifier(f"call/{index}", 8).lower(),
        "name": call.name,
        "args": members(call.value),
    }
    if call.arguments == "":
        del called["args"]
    return {"functionCall": called}


def signature_of(say: Say, request: Request) -> str:
    """What signs the reply's first call."""
    made = (
        f"CiQB{request.identifier('signature', 52)}"  # a multiple of four: Base64 without padding
    )
    return made if say.signature is None else say.signature


def finish_word(say: Say) -> str:
    """The word with which the reply ends."""
    return say.raw_finish if say.raw_finish is not None else _WORDS[say.reason]


def _chunk(
    request: Request, parts: list[JsonObject], finish: str | None, usage: JsonObject
) -> JsonObject:
    candidate: JsonObject = {"content": {"parts": parts, "role": "model"}}
    if finish is not None:
        candidate["finishReason"] = finish
    candidate["index"] = 0
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": request.model,
        "responseId": request.identifier("reply", 22),
    }


def _early_usage(usage: Usage) -> JsonObject:
    count = usage.input_tokens
    details = [{"modality": "TEXT", "tokenCount": count}]
    return {"promptTokenCount": count, "totalTokenCount": count, "promptTokensDetails": details}


def _usage(usage: Usage) -> JsonObject:
    """The usage; Gemini counts thoughts apart from the answer."""
    counts: JsonObject = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.thinking_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input_tokens}],
    }
    if usage.thinking_tokens:
        counts["thoughtsTokenCount"] = usage.thinking_tokens
    if usage.cache_read_tokens:
        counts["cachedContentTokenCount"] = usage.cache_read_tokens
    return counts


GEMINI = Encoder(_stream, _whole, Style((",", ": "), "\r\n", whole_indent=2))
