"""From a ``Say`` to the plan of its reply.

Rules:
1. Quirks change the ``Say``, then its events, then its frames; every other fault changes how the
   bytes are sent.
2. A stream is chunked and ends by its last frame; a whole reply promises its length.
3. An error inside a reply that is not streamed is a 200 whose body is the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator.encoders import ENCODERS
from multi_llm_chat.testing.simulator.encoders.events import Encoder, Request, StreamEvent, Style
from multi_llm_chat.testing.simulator.faults import ErrorInStream, Fault, Quirk, Status
from multi_llm_chat.testing.simulator.plan import Plan, Step, until_frame
from multi_llm_chat.testing.simulator.quirks.registry import Deviation, deviations
from multi_llm_chat.testing.simulator.refusals import error_events, status_body
from multi_llm_chat.testing.simulator.says import Say

_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_JSON = {"content-type": "application/json"}


class Form(Struct, frozen=True):
    """How a reply is wanted: in which dialect, streamed or not, as an array in place of events."""

    dialect: str
    streamed: bool = True
    array: bool = False


def say_plan(say: Say, request: Request, form: Form) -> Plan:
    """The plan of a reply, with all its faults."""
    encoder = ENCODERS[form.dialect]
    found = deviations(say, form.dialect)
    for deviation in found:
        say = deviation.change_say(say)
    if form.streamed:
        return _stream_plan(say, request, form, encoder, found)
    body = encoder.whole(say, request)
    for deviation in found:
        body = deviation.change_whole(body)
    faults = _faults(say, 0)
    error = _error_of(faults)
    if error is not None:
        body = status_body(request.provider, Status(error.status, error.message))
    content = encoder.style.whole(body)
    steps = _faulty([content], faults, [])
    return Plan(200, _headers(request, _JSON), steps, len(content))


def encode_reply(
    provider: str,
    say: Say,
    *,
    stream: bool = True,
    model: str | None = None,
    body: JsonObject | None = None,
) -> Plan:
    """The reply of a provider without any server: its head, its frames, its bytes.

    Args:
        provider: The provider's name.
        say: What it says.
        stream: Whether as a stream.
        model: The model; the provider's default otherwise.
        body: The request; one that asks for usage otherwise.
    """
    row = ROWS[provider]
    asked = {"stream_options": {"include_usage": True}} if body is None else body
    request = Request(provider, model or row.default_model, asked)
    return say_plan(say, request, Form(row.dialect, stream))


def _stream_plan(
    say: Say, request: Request, form: Form, encoder: Encoder, found: Sequence[Deviation]
) -> Plan:
    events = list(encoder.stream(say, request))
    for deviation in found:
        events = deviation.change_events(events)
    faults = _faults(say, len(events) // 2)
    if form.array:
        steps = _faulty(_array(encoder.style, events), faults, [])
        return Plan(200, _headers(request, _JSON), steps)
    frames = [encoder.style.frame(event) for event in events]
    for deviation in found:
        frames = deviation.change_frames(frames)
    error = _error_of(faults)
    failing = [] if error is None else error_events(request, error, error.after_frames)
    ending = [encoder.style.frame(event) for event in failing]
    return Plan(200, _headers(request, _STREAM), _faulty(frames, faults, ending))


def _faults(say: Say, middle: int) -> list[Fault]:
    """The faults of a reply; STR-09 is the error inside a 200, in the middle."""
    return [
        ErrorInStream(middle) if isinstance(fault, Quirk) and fault.rule == "STR-09" else fault
        for fault in say.faults
    ]


def _error_of(faults: Sequence[Fault]) -> ErrorInStream | None:
    return next((fault for fault in faults if isinstance(fault, ErrorInStream)), None)


def _array(style: Style, events: Sequence[StreamEvent]) -> list[Step]:
    """The events as the elements of one JSON array, as Gemini streams without ``alt=sse``."""
    texts = [style.text(event.data) for event in events]
    openings = ["[", *[",\r\n"] * (len(texts) - 1)]
    closings = [*[""] * (len(texts) - 1), "\r\n]"]
    parts = zip(openings, texts, closings, strict=True)
    return [f"{opening}{text}{closing}".encode() for opening, text, closing in parts]


def json_plan(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Plan:
    """A reply that is one JSON value."""
    content = Style().whole(body)
    return Plan(status, {**_JSON, **(headers or {})}, [content], len(content))


def _faulty(steps: Sequence[Step], faults: Sequence[Fault], ending: Sequence[bytes]) -> list[Step]:
    """The steps with all faults; ``ending`` is what an error inside the stream consists of."""
    changed = list(steps)
    for fault in faults:
        match fault:
            case Quirk():
                pass
            case ErrorInStream():
                kept = until_frame(changed, fault.after_frames)
                changed = [*kept, *ending] if ending else changed
            case _:
                changed = fault.change(changed)
    return changed


def _headers(request: Request, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a reply, with the id by which the provider knows it."""
    name = "request-id" if request.provider == "anthropic" else "x-request-id"
    return {**headers, name: f"req_{request.identifier('request', 24)}"}
