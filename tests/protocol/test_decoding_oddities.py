"""Unusual events that no recorded stream contains."""

import json
from typing import Any

import pytest
from tests.protocol.corpus import CONTEXT, DECODERS, ORIGIN

from multi_llm_chat.errors import Overloaded, ProviderError, StreamBroken
from multi_llm_chat.events import Event, Finish
from multi_llm_chat.history.values import Extras, Media, Part, Text, Thinking


def read(dialect: str, *values: Any, name: str | None = None) -> tuple[tuple[Part, ...], Event]:
    decoder = DECODERS[dialect](CONTEXT)
    events: list[Event] = []
    for value in values:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        events += decoder.feed(name, data)
    events += decoder.end()
    return decoder.parts, events[-1]


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": finish}]}


STOP = delta("stop")
GEMINI_STOP = {"candidates": [{"finishReason": "STOP"}]}


@pytest.mark.parametrize(
    ("dialect", "events", "kind"),
    [
        pytest.param("openai_chat", [{"message": "gateway down", "code": 502}], Overloaded, id="STR-09-bare-message"),
        pytest.param("openai_chat", [delta(content="a") | {"x_groq": {"error": "over capacity"}}], ProviderError, id="STR-09-x-groq"),
        pytest.param("openai_chat", [{"choices": [{"delta": {}, "error": {"code": 502, "message": "x"}}]}], Overloaded, id="STR-09-inside-a-choice"),
        pytest.param("openai_chat", [delta(content="a"), b"{half"], StreamBroken, id="half-an-event"),
        pytest.param("anthropic", [{"error": {"type": "overloaded_error"}}], Overloaded, id="STR-09-no-type"),
        pytest.param("openai_responses", [{"error": {"code": "server_error"}}], Overloaded, id="STR-09-gateway"),
        pytest.param("openai_responses", [b"not json"], StreamBroken, id="responses-not-json"),
        pytest.param("gemini", [GEMINI_STOP | {"error": {"code": 500}}], Overloaded, id="STR-09-beside-a-candidate"),
        pytest.param("gemini", [{"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED"}]}], StreamBroken, id="no-reason"),
    ],
)  # fmt: skip
def test_an_odd_event_is_an_error(dialect: str, events: list[Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        read(dialect, *events)


def test_str_09_the_name_of_an_event_alone_makes_it_an_error() -> None:
    with pytest.raises(ProviderError):
        read("openai_chat", {"text": "no"}, name="error")


def test_content_lists_may_hold_strings_and_unknown_chunks() -> None:
    content = ["a", {"type": "text", "text": "b"}, {"type": "reference", "ids": [1]}, 5]
    (text,), _ = read("openai_chat", delta(content=content), STOP, b"[DONE]")
    assert text == Text("ab", Extras(ORIGIN, {"references": [{"type": "reference", "ids": [1]}]}))


def test_pictures_may_come_as_addresses_or_not_at_all() -> None:
    images: list[Any] = [{"image_url": "https://x.test/a.png"}, {"image_url": {}}, None]
    parts, _ = read("openai_chat", delta(images=images), STOP, b"[DONE]")
    assert parts == (Media("image/*", url="https://x.test/a.png"),)


def test_other_choices_do_not_change_the_answer() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    parts, finish = read("openai_chat", other, delta(content="yes"), STOP, b"[DONE]")
    assert (parts[0], finish) == (Text("yes"), Finish("stop", "stop"))


def test_reasoning_details_alone_are_thinking() -> None:
    details = [{"type": "reasoning.summary", "summary": "hm", "index": 0, "id": None}]
    parts, _ = read("openai_chat", delta(reasoning_details=details), STOP, b"[DONE]")
    assert parts == (Thinking("hm", ORIGIN, {"field": "reasoning", "reasoning_details": details}),)


def test_what_follows_a_complete_reply_is_ignored() -> None:
    assert read("openai_chat", STOP, b"{half")[1] == Finish("stop", "stop")
    assert read("gemini", GEMINI_STOP, b"garbage")[1] == Finish("stop", "STOP")


@pytest.mark.parametrize("dialect", DECODERS)
def test_half_a_surrogate_pair_is_replaced(dialect: str) -> None:
    text = "a\\ud83d"
    event = {
        "openai_chat": delta(content=text),
        "anthropic": {"type": "content_block_delta", "index": 0, "delta": {"text": text}},
        "openai_responses": {"type": "response.output_text.delta", "delta": text},
        "gemini": {"candidates": [{"content": {"parts": [{"text": text}]}}]},
    }[dialect]
    decoder = DECODERS[dialect](CONTEXT)
    decoder.feed(None, json.dumps(event).replace("\\\\", "\\").encode())
    with pytest.raises(StreamBroken) as caught:
        decoder.end()
    assert caught.value.partial.parts == (Text("a\ufffd"),)
