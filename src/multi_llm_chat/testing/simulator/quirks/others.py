"""Deviations of replies in any dialect, and of Anthropic, Responses and Gemini streams."""

from collections.abc import Callable

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.events import StreamEvent
from multi_llm_chat.testing.simulator.says import Call, Say
from multi_llm_chat.testing.validators.typed_views import as_object, members, objects


def reused_ids(say: Say) -> Say:
    """STR-05: ids that are unique in this reply only."""
    calls = [Call(call.name, call.arguments, f"call_{i}") for i, call in enumerate(say.calls)]
    return say.having(calls=calls)


def finishing(word: str) -> Callable[[Say], Say]:
    """STR-06: a finish reason that does not fit what was said."""
    return lambda say: say.having(raw_finish=word)


def no_arguments(say: Say) -> Say:
    """STR-10: calls whose arguments are an empty text."""
    return say.having(calls=[Call(call.name, "", call.id) for call in say.calls])


def truncated(say: Say) -> Say:
    """STR-14: the length limit comes in the middle of the last call's arguments."""
    if not say.calls:
        return say.having(finish="length")
    *whole, last = say.calls
    cut = last.text[: max(len(last.text) // 2, 1)]
    return say.having(calls=[*whole, Call(last.name, cut, last.id)], finish="length")


def truncated_whole_calls(say: Say) -> Say:
    """STR-14 where calls come whole or not at all: the last one does not."""
    return say.having(calls=list(say.calls)[:-1], finish="length")


def carriage_returns(frames: list[bytes]) -> list[bytes]:
    """STR-08: CRLF, comments, blank frames."""
    changed: list[bytes] = []
    for frame in frames:
        text = frame.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        changed += [b": keep-alive\r\n\r\n", b"\r\n", text]
    return changed


def pings(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-08: Anthropic's ping before every event but the first."""
    ping = StreamEvent({"type": "ping"}, "ping")
    return [event for each in events for event in (each, ping)]


def empty_input(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-11: an empty delta after every one of a call's arguments."""
    changed: list[StreamEvent] = []
    for event in events:
        changed.append(event)
        data = as_object(event.data) or {}
        delta = as_object(data.get("delta")) or {}
        if delta.get("type") == "input_json_delta":
            changed.append(StreamEvent(data | {"delta": delta | {"partial_json": ""}}, event.name))
        elif event.name == "response.function_call_arguments.delta":
            changed.append(StreamEvent(data | {"delta": ""}, event.name))
    return changed


def half_a_thought(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-16: the stream breaks in the thinking, which is signed all the same."""
    kinds = [members(members(event.data).get("delta")).get("type") for event in events]
    thoughts = [place for place, kind in enumerate(kinds) if kind == "thinking_delta"]
    signatures = [place for place, kind in enumerate(kinds) if kind == "signature_delta"]
    if not thoughts or not signatures:
        return events[:2]
    until = thoughts[(len(thoughts) - 1) // 2] + 1
    return [*events[:until], events[signatures[0]]]


def without(kind: str) -> Callable[[list[StreamEvent]], list[StreamEvent]]:
    """STR-17: an event never comes."""
    return lambda events: [event for event in events if event.name != kind]


def _parts(event: StreamEvent) -> list[JsonObject]:
    candidates = objects(members(event.data).get("candidates"))
    return objects(members(candidates[0].get("content")).get("parts")) if candidates else []


def without_ids(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-15: function calls without ids, one in each chunk; only the first is signed."""
    for event in events:
        _strip_ids(_parts(event))
    return events


def without_ids_whole(body: JsonObject) -> JsonObject:
    """STR-15, in a reply that is not streamed."""
    _strip_ids(_parts(StreamEvent(body)))
    return body


def _strip_ids(parts: list[JsonObject]) -> None:
    for part in parts:
        members(part.get("functionCall")).pop("id", None)


def in_one_chunk(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-15: all function calls in the last chunk, without ids."""
    calls = [part for event in events for part in _parts(event) if "functionCall" in part]
    _strip_ids(calls)
    kept = [e for e in events[:-1] if not any("functionCall" in part for part in _parts(e))]
    if calls:
        candidate = objects(members(events[-1].data)["candidates"])[0]
        candidate["content"]["parts"] = calls
    return [*kept, events[-1]]


def trailing_signature(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-15: the signature comes on an empty text at the end."""
    signature = None
    for event in events:
        for part in _parts(event):
            signature = part.pop("thoughtSignature", signature)
    last = members(events[-1].data)
    candidate = objects(last["candidates"])[0]
    ending: JsonObject = {"text": "", "thoughtSignature": signature or "CiQBVKhc7vBA"}
    finish = candidate.pop("finishReason", "STOP")
    closing: JsonObject = {"content": {"parts": [ending], "role": "model"}, "finishReason": finish}
    return [*events, StreamEvent({**last, "candidates": [{**closing, "index": 0}]})]


def failed_call(word: str) -> Callable[[Say], Say]:
    """STR-15: the calls failed inside the server; only a finish reason shows it."""
    return lambda say: say.having(calls=[], raw_finish=word)
