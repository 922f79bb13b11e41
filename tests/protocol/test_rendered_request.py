"""``render``: a request and everything needed to read its answer."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies.histories import nasty_histories

from multi_llm_chat import Options, RepairPolicy, UsageError, render
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.validators import validate

HI = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"a b": {"type": "string"}}}


def call(identifier: str, name: str = "f", **arguments: Any) -> dict[str, Any]:
    return {
        "type": "tool_call",
        "content": {"name": name, "arguments": arguments, "tool_call_id": identifier},
    }


@pytest.mark.parametrize(
    ("provider", "stream", "path"),
    [
        ("openai", False, "/responses"), ("openai", True, "/responses"), ("openai-chat", True, "/chat/completions"),
        ("anthropic", True, "/messages"), ("gemini", False, "/models/gemini-3.7-flash:generateContent"),
        ("gemini", True, "/models/gemini-3.7-flash:streamGenerateContent?alt=sse"), ("groq", True, "/chat/completions"),
    ],
)  # fmt: skip
def test_the_path_belongs_behind_the_base_url(provider: str, stream: bool, path: str):
    rendered = render([HI], provider, stream=stream)
    assert rendered.path == path
    assert rendered.body.get("stream", False) is (stream and provider != "gemini")


def test_a_provider_is_known_by_its_speaker_too():
    assert render([HI], "claude").provider == "anthropic"
    with pytest.raises(UsageError, match="Unknown provider 'smoke'; known are: anthropic, azure"):
        render([HI], "smoke")
    with pytest.raises(UsageError, match=r"Unknown provider 'Cluade' \(did you mean 'claude'\?\)"):
        render([HI], "Cluade")


@pytest.mark.parametrize("value", [5, None, object(), 1.5])
def test_what_is_no_history_is_named_by_its_type(value: Any):
    with pytest.raises(UsageError, match=rf"actual type: {type(value).__name__}"):
        render(value, "openai")


@pytest.mark.parametrize("provider", sorted(ROWS))
def test_nothing_but_a_greeting_is_sent_for_a_greeting(provider: str):
    rendered = render([HI], provider)
    assert rendered.notes == ()
    assert rendered.names == rendered.ids == rendered.arguments == {}
    assert json.dumps(rendered.body).count("hi") == 1
    assert None not in rendered.body.values()


def test_names_ids_and_argument_keys_lead_back():
    history = [HI, {"role": "claude", "content": [call("f:0", "fs.read")]}]
    rendered = render(history, "anthropic", tools=[{"name": "fs.read", "inputSchema": SCHEMA}])
    assert rendered.names == {"fs_read": "fs.read"}
    assert rendered.ids == {"call00000": "f:0"}
    assert rendered.arguments == {"fs.read": {"a_b": "a b"}}


def test_notes_carry_the_index_of_the_turn_they_concern():
    history = [
        HI,
        {"role": "gemini", "content": "ciao"},
        {"role": "user", "content": ["x\ud800", " "]},
        {"role": "claude", "content": [call("a b")]},
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "media", "mime": "image/tiff", "data": "AAAA"}]},
        None,
    ]
    rendered = render(history, "anthropic")
    notes = {(note.rule, note.turn) for note in rendered.notes}
    assert notes == {
        ("ANT-21", 1), ("ANT-22", 2), ("ANT-06", 2), ("ANT-02", 3), ("ANT-05", 3), ("ANT-20", 4), ("ANT-DOC", 5),
        ("ANT-DOC", 6),
    }  # fmt: skip


@settings(max_examples=60)
@given(history=nasty_histories, provider=st.sampled_from(sorted(ROWS)))
def test_every_note_says_what_was_done_and_points_into_the_history(
    history: list[Any], provider: str
):
    for note in render(history, provider).notes:
        assert note.turn is None or 0 <= note.turn < len(history)
        assert note.rule
        assert note.message


@pytest.mark.parametrize("provider", sorted(ROWS))
@pytest.mark.parametrize(
    ("mime", "data"),
    [
        ("image/png", "iVBORw0KGgo="),
        ("image/gif", "R0lGODlh"),
        *((mime, "QUJDRA==") for mime in ("application/pdf", "audio/wav", "x/y")),
    ],
)
def test_media_are_sent_or_their_absence_is_noted(provider: str, mime: str, data: str):
    media = {"type": "media", "mime": mime, "data": data}
    rendered = render([{"role": "user", "content": ["look", media]}], provider)
    sent = data in json.dumps(rendered.body)
    assert sent == (not rendered.notes)
    assert sent or f"[attachment: {mime}" in json.dumps(rendered.body)


@pytest.mark.parametrize("provider", sorted(ROWS))
def test_more_calls_than_a_message_takes_are_put_in_several(provider: str):
    parts = [call(f"c{number}") for number in range(300)]
    results = [
        {"type": "tool_result", "name": "f", "content": f"r{number}.", "tool_call_id": f"c{number}"}
        for number in range(300)
    ]
    history = [HI, {"role": "assistant", "content": parts}, {"role": "tool", "content": results}]
    rendered = render(history, provider)
    assert validate(provider, rendered.body, model=rendered.model) == []
    sent = json.dumps(rendered.body)
    assert all(f"r{number}." in sent for number in range(300))


@pytest.mark.parametrize("model", ["open-mistral-7b", "open-mixtral-8x22b", "mistral-large-latest"])
@settings(max_examples=30)
@given(history=nasty_histories)
def test_mistrals_models_old_and_new(model: str, history: list[Any]):
    rendered = render(history, "mistral", model=model, policy=RepairPolicy(foreign="adopt"))
    assert validate("mistral", rendered.body, model=model) == []


def test_options_are_read_in_either_form():
    mapping = render([HI], "gemini", options={"max_tokens": 9, "stop": "x"})
    assert mapping == render([HI], "gemini", options=Options(max_tokens=9, stop=("x",)))
    assert mapping.body["generationConfig"] == {"maxOutputTokens": 9, "stopSequences": ["x"]}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_token": 9}, "Unknown options: max_token; known are: max_tokens"),
        ({"max_tokens": "many"}, "max_tokens must be a whole number, not .many."),
    ],
)
def test_unusable_options_are_named(options: dict[str, Any], words: str):
    with pytest.raises(UsageError, match=words):
        render([HI], "gemini", options=options)


def test_extra_settings_go_out_as_they_are():
    assert render([HI], "groq", options={"extra": {"seed": 7}}).body["seed"] == 7


def test_another_name_for_the_model_makes_its_turns_its_own():
    history = [HI, {"role": "luisa", "content": "ciao"}, {"role": "claude", "content": "hello"}, HI]
    messages = render(history, "anthropic", speaker="luisa").body["messages"]
    assert messages[1] == {"role": "assistant", "content": "ciao"}
    assert messages[2]["content"][0] == {"type": "text", "text": "[claude] hello"}


def test_thinking_is_bound_to_the_endpoint():
    thinking = {
        "type": "thinking",
        "content": "hm",
        "origin": {"provider": "anthropic", "model": "claude-sonnet-5"},
        "opaque": {"signature": "c2ln"},
    }
    history = [HI, {"role": "claude", "content": [thinking, "hello"]}, HI]
    options = {"thinking": True}
    assert "c2ln" in json.dumps(
        render(history, "anthropic", model="claude-sonnet-5", options=options).body
    )
    other = render(
        history,
        "anthropic",
        model="claude-sonnet-5",
        options=options,
        base_url="https://proxy.example/v1",
    )
    assert "c2ln" not in json.dumps(other.body)
    assert [note.rule for note in other.notes] == ["ANT-11"]
