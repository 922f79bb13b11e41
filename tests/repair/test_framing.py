"""The outer shape of a request."""

from typing import Any

import pytest

from multi_llm_chat import history_from, render
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.repair import frame
from multi_llm_chat.repair.policy import Note, Target
from multi_llm_chat.testing.validators import validate

LENIENT = Target("bot")
SPOKEN = Target("bot", system="leading", alternates=True, opens="words", ends="spoken")
STRICT = Target("bot", system="leading", alternates=True, opens="user", ends="user")
CAREFUL = Target("bot", answers_after_tools=True)

CALL: list[Any] = [
    {"type": "tool_call", "content": {"name": "f", "arguments": {}, "tool_call_id": "c"}}
]


def framed(
    target: Target, *turns: tuple[str, Any]
) -> tuple[list[tuple[str, str]], list[tuple[str, int | None]]]:
    read = read_history([{"role": role, "content": content} for role, content in turns])
    notes: list[Note] = []
    made, _ = frame(read, range(len(read)), target, notes)
    shown = [(turn.role, str(getattr(turn.parts[0], "content", "")) or "call") for turn in made]
    return shown, [(note.rule, note.turn) for note in notes]


def test_a_legal_shape_stays():
    turns = [("system", "s"), ("user", "a"), ("bot", "b"), ("user", "c")]
    for target in (LENIENT, SPOKEN, STRICT, CAREFUL):
        assert framed(target, *turns) == (turns, [])


def test_an_empty_conversation_gets_a_user_turn():
    for target in (LENIENT, SPOKEN, STRICT):
        assert framed(target) == ([("user", "Continue.")], [("ANT-08", None)])


def test_system_text_alone_stays_where_it_is_a_message():
    assert framed(LENIENT, ("system", "s")) == ([("system", "s")], [])
    for target in (SPOKEN, STRICT):
        assert framed(target, ("system", "s")) == (
            [("system", "s"), ("user", "Continue.")],
            [("ANT-08", None)],
        )


def test_the_model_speaks_first_where_that_is_accepted():
    turns = [("system", "s"), ("bot", "b"), ("user", "c")]
    assert framed(LENIENT, *turns) == (turns, [])
    assert framed(SPOKEN, *turns) == (turns, [])
    shown, notes = framed(STRICT, *turns)
    assert shown == [turns[0], ("user", "(the conversation so far)"), *turns[1:]]
    assert notes == [("ANT-21", None)]


def test_gem_01_a_call_does_not_come_first():
    called = [("bot", "b"), ("bot", CALL), ("tool", "r")]
    assert framed(LENIENT, *called)[1] == []
    shown, notes = framed(SPOKEN, *called)
    assert shown[0] == ("user", "(the conversation so far)")
    assert notes == [("ANT-21", None)]


def test_the_model_speaks_last_where_that_is_accepted():
    turns = [("user", "a"), ("bot", "b")]
    assert framed(LENIENT, *turns) == (turns, [])
    assert framed(SPOKEN, *turns) == (turns, [])
    assert framed(STRICT, *turns)[0] == [*turns, ("user", "Continue.")]
    assert framed(SPOKEN, turns[1])[0] == [turns[1], ("user", "Continue.")]
    assert framed(STRICT, ("user", "a"), ("bot", "b"), ("tool", "r"))[0][-1] == ("tool", "r")


def test_ant_45_a_history_that_ends_with_the_system_gets_no_turn():
    for target in (LENIENT, SPOKEN, STRICT):
        shown, _ = framed(target, ("user", "a"), ("system", "s"))
        assert [text.removeprefix("[system] ") for _, text in shown] == ["a", "s"]


def test_system_text_in_mid_conversation_becomes_user_text_where_it_must_lead():
    turns = [("user", "a"), ("system", "s"), ("user", "b")]
    assert framed(LENIENT, *turns) == (turns, [])
    assert framed(STRICT, *turns) == (
        [("user", "a"), ("user", "[system] s"), ("user", "b")],
        [("ANT-20", 1)],
    )


def test_a_turn_that_opens_with_thinking_is_kept_apart():
    thought = [{"type": "thinking", "content": "hm"}, "b"]
    shown, notes = framed(STRICT, ("user", "a"), ("bot", "x"), ("bot", thought), ("user", "c"))
    assert shown == [
        ("user", "a"),
        ("bot", "x"),
        ("user", "Continue."),
        ("bot", "hm"),
        ("user", "c"),
    ]
    assert notes == [("ANT-12", 2)]
    assert framed(LENIENT, ("user", "a"), ("bot", "x"), ("bot", thought), ("user", "c"))[1] == []


def test_a_word_of_the_model_stands_between_results_and_the_user():
    shown, notes = framed(CAREFUL, ("user", "a"), ("bot", "x"), ("tool", "r"), ("user", "c"))
    assert shown == [("user", "a"), ("bot", "x"), ("tool", "r"), ("bot", "OK."), ("user", "c")]
    assert notes == [("MIS-06", 3)]


# Whole requests.

OPENS = [{"role": "assistant", "content": "Hello"}, {"role": "user", "content": "hi"}]
ENDS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Sure"}]
SYSTEM_LAST = [{"role": "user", "content": "hi"}, {"role": "system", "content": "Be brief."}]


@pytest.mark.parametrize(
    ("provider", "model", "messages"),
    [
        ("openai-chat", "gpt-4.1", OPENS),
        ("openai-chat", "gpt-4.1", ENDS),
        ("openai-chat", "gpt-4.1", SYSTEM_LAST),
        ("azure", "gpt-4.1", ENDS),
        ("groq", "llama-3.3-70b-versatile", ENDS),
        ("groq", "openai/gpt-oss-120b", SYSTEM_LAST),
        ("xai", "grok-4.5", OPENS),
        ("mistral", "mistral-medium-latest", OPENS),
        ("anthropic", "claude-sonnet-4-5", OPENS),
        ("anthropic", "claude-opus-5-5", OPENS),
        ("anthropic", "claude-haiku-4-5", ENDS),
        ("anthropic", "claude-opus-4-8", SYSTEM_LAST),
    ],
)
def test_what_the_provider_accepts_goes_out_as_it_is(
    provider: str, model: str, messages: list[Any]
):
    rendered = render(messages, provider, model=model)
    assert rendered.body["messages"] == messages
    assert rendered.notes == ()
    assert validate(provider, rendered.body, model=model) == []


@pytest.mark.parametrize(
    ("provider", "model", "rule"),
    [
        ("anthropic", "claude-sonnet-4-6", "ANT-08"),
        ("anthropic", "claude-opus-5-5", "ANT-08"),
        ("mistral", "mistral-medium-latest", "MIS-07"),
        ("groq", "groq/compound", "OAI-21"),
        ("deepseek", "deepseek-reasoner", "OAI-21"),
        ("llamacpp", "default", "LCP-04"),
    ],
)
def test_a_last_turn_that_is_refused_gets_a_user_turn_behind_it(
    provider: str, model: str, rule: str
):
    rendered = render(ENDS, provider, model=model)
    assert rendered.body["messages"][-1] == {"role": "user", "content": "Continue."}
    assert [note.rule for note in rendered.notes] == [rule]


def test_mis_07_a_marked_beginning_of_an_answer_ends_the_request():
    messages = [ENDS[0], ENDS[1] | {"prefix": True}]
    history = history_from(messages, "openai-chat", provider="mistral")
    rendered = render(history, "mistral")
    assert rendered.body["messages"] == messages
    assert rendered.notes == ()
    assert validate("mistral", rendered.body, model=rendered.model) == []


def test_ant_47_nothing_stands_behind_a_paused_turn():
    paused: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {},
    }
    messages: list[Any] = [ENDS[0], {"role": "assistant", "content": [paused]}]
    history = history_from(messages, "anthropic", provider="anthropic")
    for model in ("claude-sonnet-4-5", "claude-sonnet-5", "claude-opus-5-5"):
        rendered = render(history, "anthropic", model=model)
        assert rendered.body["messages"] == messages
        assert rendered.notes == ()
        assert validate("anthropic", rendered.body, model=model) == []
