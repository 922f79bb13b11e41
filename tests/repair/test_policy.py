"""The caller chooses what happens to content that cannot be sent unchanged."""

import copy
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.repair.test_pairing import bot, call, outline, repaired, result, rules, tool, user

from multi_llm_chat import RepairPolicy, Text, Turn, UsageError, render
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.repair.policy import PAIRS_ONLY
from multi_llm_chat.testing import validate

WORDS = {"type": "text", "content": "ciao"}


def test_the_default_loses_nothing_the_user_saw():
    assert RepairPolicy() == RepairPolicy(unanswered="answer", orphans="note", foreign="label")


def test_the_seeds_policy_removes_what_has_no_partner():
    assert RepairPolicy(unanswered="drop", orphans="drop", foreign="adopt") == PAIRS_ONLY


@pytest.mark.parametrize("field", ["unanswered", "orphans", "foreign"])
def test_an_unknown_choice_is_refused_on_reading(field: str):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({field: "perhaps"}, RepairPolicy)


def test_unanswered_calls_are_answered_with_an_error():
    made = repaired(bot(call("a"), call("b")), tool(result("b", "2")))
    assert outline(made) == ["?a", "?b", "a=[no result: the call was interrupted]", "b=2"]
    assert rules(made) == [("OAI-02", 0)]
    answer = made.turns[1].parts[0]
    assert (getattr(answer, "is_error"), getattr(answer, "synthetic")) == (True, True)  # noqa: B009


def test_a_call_that_was_never_run_says_so():
    broken = {"type": "tool_call", "name": "f", "arguments": "{", "tool_call_id": "a"}
    made = repaired(bot(broken))
    assert outline(made) == ["?a", "a=[not run: the arguments were not a JSON object]"]


def test_unanswered_calls_are_dropped_and_the_words_beside_them_kept():
    made = repaired(bot(WORDS, call("a")), user("hi"), unanswered="drop")
    assert outline(made) == ["ciao", "hi"]
    assert rules(made) == [("OAI-02", 0)]


def test_a_turn_of_which_nothing_is_left_goes():
    made = repaired(bot(call("a")), user("hi"), unanswered="drop")
    assert outline(made) == ["hi"]
    assert rules(made) == [("OAI-02", 0), ("ANT-07", 0)]


EXCHANGE: list[dict[str, Any]] = [
    user("hi"),
    bot(WORDS, call("a"), role="gemini"),
    tool(result("a", "1")),
    user("and?"),
]


def test_foreign_speakers_become_text_under_their_name():
    made = repaired(*EXCHANGE, foreign="label")
    assert outline(made) == ["hi", "[gemini] ciao", "[gemini used f {}: 1]", "and?"]
    assert [turn.role for turn in made.turns] == ["user"] * 3
    assert rules(made) == [("OAI-18", 1)]


def test_foreign_speakers_are_adopted():
    made = repaired(*EXCHANGE, foreign="adopt")
    assert outline(made) == ["hi", "ciao", "?a", "a=1", "and?"]
    assert [turn.role for turn in made.turns] == ["user", "bot", "tool", "user"]


def test_foreign_speakers_are_dropped_with_their_tool_exchanges():
    assert outline(repaired(*EXCHANGE, foreign="drop")) == ["hi", "and?"]


def test_foreign_failures_and_missing_results_become_text():
    failed = repaired(
        bot(call("a"), role="gemini"), tool(result("a", "no", is_error=True)), foreign="label"
    )
    assert outline(failed) == ["[gemini used f {} (failed): no]"]
    assert outline(repaired(bot(call("a"), role="gemini"), foreign="label")) == [
        "[gemini used f {}: no result]"
    ]


def test_foreign_thinking_is_never_sent():
    made = repaired(
        bot({"type": "thinking", "content": "secret"}, WORDS, role="gemini"), foreign="label"
    )
    assert outline(made) == ["[gemini] ciao"]


@pytest.mark.parametrize("role", ["bot", "assistant", "model"])
def test_own_turns_are_the_speakers_and_the_anonymous_ones(role: str):
    made = repaired(bot(WORDS, role=role), foreign="drop")
    assert [turn.role for turn in made.turns] == ["bot"]


@pytest.mark.parametrize("provider", sorted(ROWS))
def test_a_step_of_ones_own_changes_what_is_sent_and_the_rest_is_repaired(provider: str):
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "My number is 555-1234."},
        {"role": "claude", "content": [{"type": "tool_call", "content": {"name": "f", "arguments": {}, "tool_call_id": "a"}}]},
        {"role": "user", "content": "And now?"},
    ]  # fmt: skip

    def redact(turns: Sequence[Turn]) -> list[Turn]:
        return [
            replace(turn, parts=tuple(Text(part.content.replace("555-1234", "[number]")) if isinstance(part, Text) else part for part in turn.parts))
            for turn in turns
        ]  # fmt: skip

    before = copy.deepcopy(history)
    rendered = render(history, provider, policy=RepairPolicy(steps=(redact,)))
    assert "555" not in str(rendered.body)
    assert "[number]" in str(rendered.body)
    assert history == before
    assert any("redact" in note.message for note in rendered.notes)
    assert any(
        "unanswered" in note.message or "wrote a turn" in note.message for note in rendered.notes
    )
    assert validate(provider, rendered.body, model=rendered.model) == []


def test_a_step_that_fails_or_is_none_is_named():
    def broken(_: Sequence[Turn]) -> list[Turn]:
        raise KeyError("x")

    with pytest.raises(UsageError, match="step broken failed: KeyError"):
        render([{"role": "user", "content": "x"}], "openai", policy=RepairPolicy(steps=(broken,)))
    wrong: Any = "redact"
    with pytest.raises(UsageError, match="functions"):
        RepairPolicy(steps=(wrong,))


@pytest.mark.parametrize("name", ["unanswered", "orphans", "foreign"])
@given(word=st.text(max_size=8) | st.none() | st.integers())
def test_a_word_that_is_no_policy_is_a_usage_error(name: str, word: Any):
    words = {"unanswered": ["answer", "drop"], "orphans": ["note", "drop"], "foreign": ["label", "adopt", "drop"]}[name]  # fmt: skip
    assume(word not in words)
    with pytest.raises(UsageError, match=name):
        RepairPolicy(**{name: word})
