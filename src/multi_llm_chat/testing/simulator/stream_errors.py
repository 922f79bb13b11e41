"""Errors inside a reply that began with 200, in each provider's form.

Rules:
1. An error ends the stream; ``[DONE]`` follows only at servers that send it even then.
2. The words are those of the HTTP error of the same status.
"""

from collections.abc import Callable

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.events import CREATED, Request, StreamEvent
from multi_llm_chat.testing.simulator.faults import ErrorInStream, Status
from multi_llm_chat.testing.simulator.refusals import message_of, status_body
from multi_llm_chat.testing.validators.typed_views import members

_DONE = StreamEvent("[DONE]")


def error_events(request: Request, fault: ErrorInStream, sent: int) -> list[StreamEvent]:
    """The events of an error that comes after ``sent`` others."""
    return _FORMS.get(request.provider, _plain)(request, fault, sent)


def _body(request: Request, fault: ErrorInStream) -> JsonObject:
    return status_body(request.provider, Status(fault.status, fault.message))


def _plain(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    return [StreamEvent(_body(request, fault))]


def _plain_then_done(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    return [StreamEvent(_body(request, fault)), _DONE]


def _anthropic(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    body = _body(request, fault)
    return [StreamEvent({"type": "error", "error": body["error"]}, name="error")]


def _responses(request: Request, fault: ErrorInStream, sent: int) -> list[StreamEvent]:
    error = members(_body(request, fault).get("error"))
    data: JsonObject = {
        "type": "error",
        "sequence_number": sent,
        "code": error.get("code") or error.get("type"),
        "message": error.get("message"),
        "param": None,
    }
    return [StreamEvent(data, name="error")]


def _groq(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    error = members(_body(request, fault).get("error")) | {"status_code": fault.status}
    return [StreamEvent({"error": error}, name="error"), _DONE]


def _openrouter(request: Request, fault: ErrorInStream, _sent: int) -> list[StreamEvent]:
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    data: JsonObject = {
        "id": f"gen-1794700000-{request.identifier('reply', 29)}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": request.model,
        "provider": "OpenAI",
        "error": {
            "code": fault.status,
            "message": message_of(request.provider, fault.status, fault.message),
        },
        "choices": [choice],
    }
    return [StreamEvent(data), _DONE]


_FORMS: dict[str, Callable[[Request, ErrorInStream, int], list[StreamEvent]]] = {
    "anthropic": _anthropic,
    "openai": _responses,
    "groq": _groq,
    "openrouter": _openrouter,
    "vllm": _plain_then_done,
    "llamacpp": _plain_then_done,
    "together": _plain_then_done,
}
