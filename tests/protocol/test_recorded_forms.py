"""Forms of histories and answers that recordings showed, and that stay as they are."""

from typing import Any

import pytest

from multi_llm_chat import history_from, render
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.history.values import Text, ToolCall, Turn
from multi_llm_chat.protocol.exchange import Exchange
from multi_llm_chat.testing.validators import validate

TOOLS: list[Any] = [{"name": name, "inputSchema": {"type": "object"}} for name in ("f", "g")]


def call(name: str, signature: str = "c2ln") -> dict[str, Any]:
    made: dict[str, Any] = {"functionCall": {"id": f"id_{name}", "name": name, "args": {}}}
    return {"role": "model", "parts": [made | {"thoughtSignature": signature}]}


def response(name: str) -> dict[str, Any]:
    return {"functionResponse": {"id": f"id_{name}", "name": name, "response": {"result": "ok"}}}


def test_calls_in_neighbouring_turns_that_are_answered_together_are_one_step() -> None:
    """GEM-20: two contents of the model, one with the value that skips the check, answered in one content."""
    question = {"role": "user", "parts": [{"text": "hi"}]}
    answers = {"role": "user", "parts": [response("f"), response("g")]}
    contents = [question, call("f"), call("g"), answers]
    model = "gemini-3-flash-preview"
    history = history_from(contents, "gemini", provider="gemini", model=model)
    rendered = render(history, "gemini", model=model, tools=TOOLS)
    step = {"role": "model", "parts": [*call("f")["parts"], *call("g")["parts"]]}
    assert rendered.body["contents"] == [question, step, answers]
    assert rendered.notes == ()
    assert validate("gemini", rendered.body, model=model) == []


def test_a_call_of_an_earlier_turn_that_is_answered_alone_stays_apart() -> None:
    history = [
        Turn("user", (Text("hi"),)),
        Turn("claude", (ToolCall("f", {}, "a"),)),
        Turn("claude", (Text("and"), ToolCall("g", {}, "b"))),
        {"role": "tool", "content": [{"type": "tool_result", "name": "g", "tool_call_id": "b", "content": "ok"}]},
    ]  # fmt: skip
    body = render(history, "anthropic", tools=TOOLS).body
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]  # fmt: skip


@pytest.mark.parametrize(
    ("base_url", "parts"), [(None, [{"text": ""}]), ("https://vertex.example/v1", None)]
)
def test_ai_studio_takes_blank_text_and_other_places_do_not(
    base_url: str | None, parts: list[Any] | None
) -> None:
    """GEM-08."""
    history = [Turn("user", (Text(""),))]
    body = render(history, "gemini", system_prompt="Say hi.", base_url=base_url).body
    assert body["contents"][0]["parts"] == (parts or [{"text": "Continue."}])


def test_a_stream_without_server_sent_events_is_a_list_of_frames() -> None:
    exchange = Exchange([Turn("user", (Text("hi"),))], "gemini", stream=False)
    exchange.begin(200, {"content-type": "application/json"})
    exchange.receive(
        b'[{"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]},'
        b' {"candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}]}]'
    )
    exchange.end()
    assert [part.content for part in exchange.turn.parts if isinstance(part, Text)] == ["Hello"]


def test_annotations_of_an_answer_go_back_to_openrouter() -> None:
    """ORT-05: they save a second reading of the file."""
    exchange = Exchange([Turn("user", (Text("hi"),))], "openrouter", stream=False)
    exchange.begin(200, {"content-type": "application/json"})
    note = {"type": "file", "file": {"hash": "x", "name": "a.pdf"}}
    message = f'{{"role": "assistant", "content": "Read.", "annotations": [{_json(note)}]}}'
    exchange.receive(f'{{"choices": [{{"message": {message}, "finish_reason": "stop"}}]}}'.encode())
    exchange.end()
    more = [Turn("user", (Text("hi"),)), exchange.turn, Turn("user", (Text("and?"),))]
    sent = render(more, "openrouter").body["messages"]
    assert sent[1] == {"role": "assistant", "content": "Read.", "annotations": [note]}


def _json(value: dict[str, Any]) -> str:
    return str(value).replace("'", '"')


@pytest.mark.parametrize(
    ("provider", "key"),
    [("openrouter", "cache_control"), ("openai-chat", "prompt_cache_breakpoint")],
)
def test_marks_for_the_cache_stay_on_their_parts(provider: str, key: str) -> None:
    """ORT-07, and OpenAI's own breakpoints."""
    part = {"type": "text", "text": "long", key: {"type": "ephemeral"}}
    made = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Any] = [
        {"role": "user", "content": [part]},
        {"role": "assistant", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "a", "content": [part]},
    ]
    history = history_from(messages, "openai-chat", provider=provider, model="x")
    assert render(history, provider, model="x", tools=TOOLS).body["messages"] == messages


def test_a_text_behind_a_picture_of_a_result_is_moved_with_a_note() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}  # fmt: skip
    mixed = [{"type": "text", "text": "a"}, picture, {"type": "text", "text": "b"}]
    messages: list[Any] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "x", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": mixed}]},
    ]  # fmt: skip
    history = history_from(messages, "anthropic", provider="anthropic", model="claude-sonnet-5")
    rendered = render(history, "anthropic", model="claude-sonnet-5", tools=TOOLS)
    assert [note.message for note in rendered.notes] == [
        "put the texts of a tool result before its media"
    ]


def test_an_error_behind_the_words_of_a_stream_keeps_the_words() -> None:
    """STR-22."""
    exchange = Exchange([Turn("user", (Text("hi"),))], "openrouter")
    exchange.begin(200, {"content-type": "text/event-stream"})
    exchange.receive(b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n')
    exchange.receive(b'data: {"error": {"message": "upstream failed", "code": 502}}\n\n')
    with pytest.raises(ProviderError) as failed:
        exchange.end()
    assert isinstance(failed.value.partial, Turn)
    assert [part.content for part in failed.value.partial.parts if isinstance(part, Text)] == [
        "Hel"
    ]
