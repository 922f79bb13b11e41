"""A request that is already legal stays unchanged, without notes."""

from typing import Any

from hypothesis import given, settings
from tests.strategies.histories import nasty_histories
from tests.strategies.native import (
    anthropic_messages,
    chat_messages,
    gemini_contents,
    responses_items,
)

from multi_llm_chat import history_from, render
from multi_llm_chat.testing.validators import validate

TOOLS: list[Any] = [
    {"name": name, "inputSchema": {"type": "object", "properties": {}}}
    for name in ("get_weather", "search", "f")
]


def again(messages: list[Any], dialect: str, key: str, model: str, **options: Any) -> None:
    history = history_from(messages, dialect, provider=dialect, model=model)
    rendered = render(history, dialect, model=model, tools=TOOLS, options=options)
    assert rendered.body[key] == messages
    assert rendered.notes == ()
    assert validate(dialect, rendered.body, model=model) == []
    assert all(sent == original for sent, original in rendered.ids.items())


@settings(max_examples=150)
@given(messages=chat_messages())
def test_chat_completions(messages: list[Any]):
    again(messages, "openai-chat", "messages", "gpt-4.1")


@settings(max_examples=150)
@given(messages=responses_items())
def test_responses(messages: list[Any]):
    again(messages, "openai", "input", "gpt-5.6-terra")


@settings(max_examples=150)
@given(messages=anthropic_messages())
def test_messages(messages: list[Any]):
    again(messages, "anthropic", "messages", "claude-sonnet-5", thinking=True)


@settings(max_examples=150)
@given(messages=gemini_contents())
def test_generate_content(messages: list[Any]):
    again(messages, "gemini", "contents", "gemini-3.7-flash")


@settings(max_examples=50)
@given(messages=chat_messages())
def test_a_legal_history_passes_to_another_dialect_with_nothing_lost(messages: list[Any]):
    history = history_from(messages, "openai-chat")
    for provider in ("openai", "anthropic", "gemini", "mistral", "ollama", "llamacpp"):
        rendered = render(history, provider, tools=TOOLS)
        assert validate(provider, rendered.body, model=rendered.model) == []
        assert len(rendered.ids) == sum(len(message.get("tool_calls", ())) for message in messages)


#: Rows with known rules for first and last turns, and the key of their messages.
SHAPES = [
    ("openai", "gpt-5.6-terra", "input"),
    ("openai-chat", "gpt-4.1", "messages"),
    ("anthropic", "claude-sonnet-4-5", "messages"),
    ("anthropic", "claude-sonnet-5", "messages"),
    ("anthropic", "claude-opus-4-1", "messages"),
    ("gemini", "gemini-3.7-flash", "contents"),
    ("mistral", "mistral-medium-latest", "messages"),
]


@given(history=nasty_histories)
def test_a_turn_is_added_only_where_the_request_is_refused_without_it(history: list[Any]):
    for provider, model, key in SHAPES:
        rendered = render(history, provider, model=model)
        messages: list[Any] = rendered.body[key]
        said = [note.message for note in rendered.notes]
        without: list[list[Any]] = []
        if "put a user turn at the end" in said:
            without.append(messages[:-1])
        if "put a user turn before the model's first turn" in said:
            head = next(at for at, each in enumerate(messages) if each.get("role") != "system")
            without.append([*messages[:head], *messages[head + 1 :]])
        for rest in without:
            if rest and all(each.get("role") == "system" for each in rest):
                continue  # instructions alone: it is unknown how servers treat them
            body = rendered.body | {key: rest}
            assert validate(provider, body, model=model) != [], (provider, model, rest)
