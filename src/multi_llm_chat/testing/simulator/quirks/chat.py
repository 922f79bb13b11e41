"""Deviations of Chat Completions streams.

Rules:
1. A function changes the events it is given and returns them; they belong to one reply only.
2. A fragment is one entry of a delta's ``tool_calls``.
"""

import json
from collections.abc import Callable, Iterator

from multi_llm_chat.history.values import JsonObject
from multi_llm_chat.testing.simulator.encoders.chat import filter_chunk
from multi_llm_chat.testing.simulator.encoders.events import StreamEvent
from multi_llm_chat.testing.validators.typed_views import as_object, objects


def _choice(event: StreamEvent) -> JsonObject | None:
    data = as_object(event.data)
    choices = objects(data.get("choices")) if data else []
    return choices[0] if choices else None


def fragments_of(event: StreamEvent) -> list[JsonObject]:
    """The fragments of calls in an event."""
    choice = _choice(event)
    delta = as_object(choice.get("delta")) if choice else None
    return objects(delta.get("tool_calls")) if delta else []


def _fragments(events: list[StreamEvent]) -> Iterator[JsonObject]:
    for event in events:
        yield from fragments_of(event)


def without_index(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-01: fragments without ``index``."""
    for fragment in _fragments(events):
        del fragment["index"]
    return events


def zero_index(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-02: every fragment has index 0; only a new id marks a new call."""
    for fragment in _fragments(events):
        fragment["index"] = 0
    return events


def whole_calls(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-12: each call in one fragment, at the place of its first."""
    first: dict[int, JsonObject] = {}
    kept: list[StreamEvent] = []
    for event in events:
        fragments = fragments_of(event)
        if not fragments:
            kept.append(event)
            continue
        fragment = fragments[0]
        begun = first.setdefault(fragment["index"], fragment)
        if begun is fragment:
            kept.append(event)
        else:
            begun["function"]["arguments"] += fragment["function"]["arguments"]
    return kept


def counted_in_chunk(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-03: one whole call in each chunk, counted from 0 in each."""
    return zero_index(whole_calls(events))


def concatenated(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-02: whole calls at index 0 without ids, so that arguments look like one text."""
    return identified(lambda _identifier: None)(counted_in_chunk(events))


def identified(
    change: Callable[[str], str | None],
) -> Callable[[list[StreamEvent]], list[StreamEvent]]:
    """STR-04: other ids; None leaves the id out."""

    def changed(events: list[StreamEvent]) -> list[StreamEvent]:
        for fragment in _fragments(events):
            _identify(fragment, change)
        return events

    return changed


def identified_whole(
    change: Callable[[str], str | None],
) -> Callable[[JsonObject], JsonObject]:
    """STR-04, in a reply that is not streamed."""

    def changed(body: JsonObject) -> JsonObject:
        for call in whole_body_calls(body):
            _identify(call, change)
        return body

    return changed


def _identify(call: JsonObject, change: Callable[[str], str | None]) -> None:
    if "id" in call:
        identifier = change(call.pop("id"))
        if identifier is not None:
            call["id"] = identifier


def whole_body_calls(body: JsonObject) -> list[JsonObject]:
    """The calls in a reply that is not streamed."""
    message = as_object(objects(body.get("choices"))[0].get("message")) or {}
    return objects(message.get("tool_calls"))


def without_finish(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-06, STR-17: no chunk has a finish reason."""
    for event in events:
        choice = _choice(event)
        if choice is not None:
            choice["finish_reason"] = None
    return events


def without_done(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-17: the stream ends without ``[DONE]``."""
    return [event for event in events if event.data != "[DONE]"]


def without_choices(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-07: Azure's filter chunk first, usage last, both with ``choices: []``."""
    chunks = [as_object(event.data) for event in events]
    last = next(chunk for chunk in reversed(chunks) if chunk is not None)
    if not last["choices"]:
        return [StreamEvent(filter_chunk()), *events]
    usage = last.pop("usage", None) or {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
    }
    closing = {key: value for key, value in last.items() if key != "choices"}
    ending = StreamEvent({**closing, "choices": [], "usage": usage})
    return [StreamEvent(filter_chunk()), *events[:-1], ending, events[-1]]


def obfuscated(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-08: every chunk is padded with an ``obfuscation``."""
    for event in events:
        data = as_object(event.data)
        if data is not None:
            data["obfuscation"] = "tR9w2"
    return events


def empty_fragments(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-11: an empty fragment after every one."""
    changed: list[StreamEvent] = []
    for event in events:
        changed.append(event)
        data = as_object(event.data)
        for fragment in fragments_of(event):
            empty = {"index": fragment.get("index", 0), "function": {"arguments": ""}}
            choice = {"index": 0, "delta": {"tool_calls": [empty]}, "finish_reason": None}
            changed.append(StreamEvent({**(data or {}), "choices": [choice]}))
    return changed


def object_arguments(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-12: arguments as a JSON object, whole."""
    events = whole_calls(events)
    for fragment in _fragments(events):
        _objectify(fragment)
    return events


def object_arguments_whole(body: JsonObject) -> JsonObject:
    """STR-12, in a reply that is not streamed."""
    for call in whole_body_calls(body):
        _objectify(call)
    return body


def _objectify(call: JsonObject) -> None:
    text = call["function"]["arguments"]
    call["function"]["arguments"] = json.loads(text) if text else None


def null_arguments(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-12: arguments that are nothing are null."""
    events = whole_calls(events)
    for fragment in _fragments(events):
        if fragment["function"]["arguments"] in {"", "{}"}:
            fragment["function"]["arguments"] = None
    return events


def late_name(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-13: the name comes with the last fragment of its call."""
    names: dict[int, str] = {}
    last: dict[int, JsonObject] = {}
    for fragment in _fragments(events):
        name = fragment["function"].pop("name", None)
        if name is not None:
            names[fragment["index"]] = name
        last[fragment["index"]] = fragment
    for index, fragment in last.items():
        fragment["function"]["name"] = names[index]
    return events


def repeated_name(events: list[StreamEvent]) -> list[StreamEvent]:
    """STR-13: the name comes with every fragment."""
    names: dict[int, str] = {}
    for fragment in _fragments(events):
        name = fragment["function"].get("name")
        fragment["function"]["name"] = names.setdefault(fragment["index"], name)
    return events
