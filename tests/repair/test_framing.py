"""The outer shape of a request."""

from typing import Any

from multi_llm_chat.history.reader import read_history
from multi_llm_chat.repair import frame
from multi_llm_chat.repair.policy import Note, Target

PLAIN = Target("bot")
STRICT = Target("bot", system="leading", alternates=True)
CAREFUL = Target("bot", answers_after_tools=True)


def framed(
    target: Target, *turns: tuple[str, Any]
) -> tuple[list[tuple[str, str]], list[tuple[str, int | None]]]:
    read = read_history([{"role": role, "content": content} for role, content in turns])
    notes: list[Note] = []
    made = frame(list(enumerate(read)), target, notes)
    shown = [(turn.role, str(getattr(turn.parts[0], "content"))) for _, turn in made]  # noqa: B009
    return shown, [(note.rule, note.turn) for note in notes]


def test_a_legal_shape_stays():
    turns = [("system", "s"), ("user", "a"), ("bot", "b"), ("user", "c")]
    for target in (PLAIN, STRICT, CAREFUL):
        assert framed(target, *turns) == (turns, [])


def test_an_empty_conversation_gets_a_user_turn():
    assert framed(PLAIN) == ([("user", "Continue.")], [("ANT-08", None)])
    assert framed(PLAIN, ("system", "s")) == (
        [("system", "s"), ("user", "Continue.")],
        [("ANT-08", None)],
    )


def test_the_first_turn_behind_the_systems_is_the_users():
    shown, notes = framed(PLAIN, ("system", "s"), ("bot", "b"), ("user", "c"))
    assert shown == [
        ("system", "s"),
        ("user", "(the conversation so far)"),
        ("bot", "b"),
        ("user", "c"),
    ]
    assert notes == [("ANT-21", None)]


def test_the_last_turn_is_the_users_or_a_tools():
    assert framed(PLAIN, ("user", "a"), ("bot", "b"))[0][-1] == ("user", "Continue.")
    assert framed(PLAIN, ("user", "a"), ("system", "s"))[0][-1] == ("user", "Continue.")
    assert framed(PLAIN, ("user", "a"), ("bot", "b"), ("tool", "r"))[0][-1] == ("tool", "r")


def test_system_text_in_mid_conversation_becomes_user_text_where_it_must_lead():
    turns = [("user", "a"), ("system", "s"), ("user", "b")]
    assert framed(PLAIN, *turns) == (turns, [])
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
    assert framed(PLAIN, ("user", "a"), ("bot", "x"), ("bot", thought), ("user", "c"))[1] == []


def test_a_word_of_the_model_stands_between_results_and_the_user():
    shown, notes = framed(CAREFUL, ("user", "a"), ("bot", "x"), ("tool", "r"), ("user", "c"))
    assert shown == [("user", "a"), ("bot", "x"), ("tool", "r"), ("bot", "OK."), ("user", "c")]
    assert notes == [("MIS-06", 3)]
