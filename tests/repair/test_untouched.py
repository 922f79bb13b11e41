"""A history that the quick check passes unchanged is one that all repair steps would pass unchanged."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.strategies.histories import (
    CALLS,
    IDS,
    MEDIA,
    NAMES,
    RESULTS,
    THINKING,
    WORDS,
    nasty_histories,
)

from multi_llm_chat.history.reader import ReadHistory, read_history, read_own_form
from multi_llm_chat.history.values import Part, Text, ToolCall, ToolResult, Turn
from multi_llm_chat.history.writer import write_history
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.protocol.rendered_request import target_of
from multi_llm_chat.repair import repair
from multi_llm_chat.repair._untouched import find_untouched
from multi_llm_chat.repair.engine import rebuild
from multi_llm_chat.repair.policy import PAIRS_ONLY, Note, RepairPolicy, Target
from multi_llm_chat.repair.sorting import Placed

#: The steps would change blank texts and the order of results, which some rows keep.
TARGETS = st.sampled_from(
    [
        replace(target_of(row, row.default_model), blank_texts=False, any_order=False)
        for row in ROWS.values()
    ]
)
POLICIES = st.sampled_from([RepairPolicy(), PAIRS_ONLY])


def _rarely(odd: st.SearchStrategy[Any], usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 30).flatmap(lambda chance: usual if chance else odd)


SAID = _rarely(WORDS, st.sampled_from(["Hello", "東京の天気は？", "25°C"]))
VALUES = _rarely(RESULTS, SAID | st.just({"deep": [1, {"er": 2.5}]}))


@st.composite
def nearly_legal(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw a conversation with one model that is usually valid."""
    own = draw(st.sampled_from(["assistant", "model", "claude", "chatgpt", "gemini"]))
    history: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 4))):
        history.append({"role": "user", "content": [draw(_rarely(MEDIA, SAID))]})
        parts = [draw(_rarely(THINKING | MEDIA | CALLS, SAID))] if draw(st.booleans()) else []
        results: list[dict[str, Any]] = []
        for slot in range(draw(st.integers(0, 3))):
            identifier = draw(_rarely(IDS, st.just(f"call{number:03}{slot:02}")))
            name = draw(_rarely(NAMES, st.just("search")))
            arguments = {"query": draw(VALUES)}
            parts.append(
                {
                    "type": "tool_call",
                    "name": name,
                    "arguments": arguments,
                    "tool_call_id": identifier,
                }
            )
            results.append(
                {
                    "type": "tool_result",
                    "name": draw(_rarely(st.just(""), st.just(name))),
                    "content": draw(VALUES),
                    "tool_call_id": identifier,
                }
            )
        history.append({"role": draw(_rarely(st.just("groq"), st.just(own))), "content": parts})
        if draw(_rarely(st.just(True), st.just(False))):
            results.reverse()
        meta = draw(_rarely(st.sampled_from([{"speaker": own}, {"speaker": "groq"}]), st.just({})))
        groups = [results] if results and draw(st.booleans()) else [[result] for result in results]
        history += [{"role": "tool", "content": group, "meta": meta} for group in groups]
    return history


def _rebuilt(turns: tuple[Turn, ...], target: Target, policy: RepairPolicy) -> Any:
    notes: list[Note] = []
    return _with_names(rebuild(turns, target, policy, notes)), notes


def _with_names(placed: list[Placed]) -> list[Placed]:
    """Return the turns with the name of its call in each result that has none; results follow in the order of the calls."""
    calls: list[ToolCall] = []
    named: list[Placed] = []
    for index, turn in placed:
        calls += [part for part in turn.parts if isinstance(part, ToolCall)]
        parts = [
            replace(part, name=calls.pop(0).name) if isinstance(part, ToolResult) else part
            for part in turn.parts
        ]
        named.append((index, replace(turn, parts=tuple(parts))))
    return named


@given(nearly_legal() | nasty_histories, TARGETS, POLICIES)
def test_the_steps_would_have_changed_nothing_else(
    history: Any, target: Target, policy: RepairPolicy
):
    turns = read_history(history)
    found = find_untouched(turns, target)
    if found is not None:
        assert (list(enumerate(found.turns)), []) == _rebuilt(turns, target, policy)
        parts = [part for turn in turns for part in turn.parts]
        assert found.is_plain == (not any(map(_is_special, parts)))
        texts = [part.content for part in parts if isinstance(part, (Text, ToolResult))]
        if found.characters is not None:
            assert all(len(text) <= found.characters for text in texts)


def _is_special(part: Part) -> bool:
    if isinstance(part, ToolResult):
        return isinstance(part.content, list | tuple)
    return not isinstance(part, (Text, ToolCall))


@given(nearly_legal() | nasty_histories, TARGETS, POLICIES)
def test_what_was_repaired_is_recognised(history: Any, target: Target, policy: RepairPolicy):
    turns = repair(read_history(history), target, policy).turns
    # A result may name the speaker whose call it answers, by the speaker's name at that time.
    assume(not any("speaker" in turn.meta for turn in turns))
    found = find_untouched(turns, target)
    assert found is not None
    assert found.turns == list(turns)


EXACT_TARGETS = st.sampled_from([target_of(row, row.default_model) for row in ROWS.values()])


def _in_usual_form(history: Any) -> ReadHistory:
    """Return the turns of the history that are in the usual form, with their contents."""
    usual = [turn for turn in write_history(read_history(history)) if read_own_form([turn])]
    return read_own_form(usual) or ReadHistory()


@given(nearly_legal() | nasty_histories, EXACT_TARGETS)
def test_known_contents_lead_to_the_same_turns(history: Any, target: Target):
    turns = _in_usual_form(history)
    assert find_untouched(turns, target) == find_untouched(tuple(turns), target)


CALL = {"type": "tool_call", "name": "f", "arguments": {"a": 1}, "tool_call_id": "call00000"}
RESULT = {"type": "tool_result", "name": "f", "content": "1", "tool_call_id": "call00000"}
LEGAL = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": [CALL]},
    {"role": "tool", "content": [RESULT]},
]


@pytest.mark.parametrize(
    "history",
    [
        LEGAL[:2],
        LEGAL[2:],
        [*LEGAL, {"role": "tool", "content": [RESULT]}],
        [*LEGAL[:2], {"role": "user", "content": "well?"}, LEGAL[2]],
        [*LEGAL, {"role": "user", "content": " "}],
        [*LEGAL, {"role": "user", "content": "a\0b"}],
        [*LEGAL, {"role": "user", "content": "\ud800"}],
        [*LEGAL, {"role": "other", "content": "I am somebody else"}],
        [*LEGAL, None],
        [{"role": "user", "content": [CALL]}],
        [
            LEGAL[0],
            {"role": "assistant", "content": [CALL | {"arguments": {"a": float("nan")}}]},
            LEGAL[2],
        ],
        [LEGAL[0], {"role": "assistant", "content": [CALL | {"arguments": "{"}]}, LEGAL[2]],
        [*LEGAL[:2], {"role": "tool", "content": [RESULT | {"content": ""}]}],
        [*LEGAL[:2], {"role": "tool", "content": [RESULT], "meta": {"speaker": "other"}}],
    ],
)
def test_what_must_be_repaired_is_left_to_the_steps(history: list[Any]):
    target = target_of(ROWS["azure"], "gpt-4.1")  # one that accepts no blank texts
    assert find_untouched(read_history(LEGAL), target) is not None
    assert find_untouched(read_history(history), target) is None
