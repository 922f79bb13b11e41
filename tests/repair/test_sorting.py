"""Parts are cleaned and sorted into turns of one kind; valid turns stay unchanged."""

from typing import Any

import pytest
from hypothesis import given, settings
from tests.strategies.histories import nasty_histories

from multi_llm_chat import Media, Text, Thinking, ToolCall, ToolResult
from multi_llm_chat.history import Origin
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.repair import repair
from multi_llm_chat.repair.policy import Note, Target
from multi_llm_chat.repair.sorting import sort_turns


def sorted_parts(role: str, *parts: Any) -> tuple[list[tuple[str, tuple[Any, ...]]], list[str]]:
    notes: list[Note] = []
    placed = sort_turns(read_history([{"role": role, "content": list(parts)}]), notes)
    return [(turn.role, turn.parts) for _, turn in placed], [note.rule for note in notes]


CALL = {"type": "tool_call", "name": "f", "arguments": {"a": 1}, "tool_call_id": "c"}
RESULT = {"type": "tool_result", "name": "f", "content": "ok", "tool_call_id": "c"}
THINKING = {"type": "thinking", "content": "hm"}


SORTED: list[tuple[str, list[Any], list[Any], list[str]]] = [
    ("user", ["a", " ", ""], [("user", (Text("a"),))], ["ANT-06", "ANT-06"]),
    ("user", [" "], [], ["ANT-06", "ANT-07"]),
    ("user", ["\0"], [], ["ANT-22", "ANT-06", "ANT-07"]),
    ("user", ["a\ud800"], [("user", (Text("a\ufffd"),))], ["ANT-22"]),
    ("user", ["a", CALL], [("user", (Text("a"), Text('[call of f {"a":1}]')))], ["OAI-18"]),
    ("user", ["a", THINKING], [("user", (Text("a"),))], ["ANT-14"]),
    ("user", ["a", RESULT, "b"], [("user", (Text("a"),)), ("tool", (ToolResult("f", "ok", "c"),)), ("user", (Text("b"),))], ["GEM-10"]),
    ("bot", ["a", RESULT], [("bot", (Text("a"),)), ("tool", (ToolResult("f", "ok", "c"),))], ["GEM-10"]),
    ("tool", [{"type": "media", "mime": "x/y", "data": "AA=="}], [("user", (Media("x/y", "AA=="),))], ["GEM-10"]),
    ("tool", [RESULT | {"content": ""}], [("tool", (ToolResult("f", "(no output)", "c"),))], ["ANT-26"]),
    ("tool", [RESULT | {"content": {}}], [("tool", (ToolResult("f", "(no output)", "c"),))], ["ANT-26"]),
    ("tool", [RESULT | {"content": 0}], [("tool", (ToolResult("f", 0, "c"),))], []),
    ("tool", [RESULT | {"content": False}], [("tool", (ToolResult("f", False, "c"),))], []),
    ("tool", [RESULT | {"content": {"x": float("nan")}}], [("tool", (ToolResult("f", {"x": "nan"}, "c"),))], ["ANT-22"]),
    ("bot", [CALL | {"arguments": "nope"}], [("bot", (ToolCall("f", {"_raw": "nope"}, "c"),))], ["VLL-01"]),
    ("bot", [CALL | {"arguments": {"a": "\ud800"}}], [("bot", (ToolCall("f", {"a": "\ufffd"}, "c"),))], ["ANT-22"]),
    ("bot", [{"type": "thinking", "content": "h\ud800"}, "a"], [("bot", (Text("a"),))], ["ANT-11"]),
    ("bot", [], [], ["ANT-07"]),
]  # fmt: skip


@pytest.mark.parametrize(("role", "parts", "made", "rules"), SORTED)
def test_parts_find_their_turns(role: str, parts: list[Any], made: Any, rules: list[str]):
    assert sorted_parts(role, *parts) == (made, rules)


def test_what_obeys_is_passed_on_as_it_is():
    turns = read_history(
        [
            {"role": "user", "content": "a"},
            {"role": "bot", "content": ["b", CALL, THINKING]},
            {"role": "tool", "content": [RESULT]},
        ]
    )
    notes: list[Note] = []
    placed = sort_turns(turns, notes)
    assert [turn for _, turn in placed] == list(turns)
    assert all(kept is turn for (_, kept), turn in zip(placed, turns, strict=True))
    assert notes == []


def test_an_unreadable_placeholder_is_stored_and_never_sent():
    notes: list[Note] = []
    assert sort_turns(read_history([None, 7]), notes) == []
    assert [(note.rule, note.turn) for note in notes] == [("OAI-10", 0), ("OAI-10", 1)]


@settings(max_examples=200)
@given(history=nasty_histories)
def test_repair_is_deterministic_changes_nothing_and_needs_no_second_pass(history: list[Any]):
    turns = read_history(history)
    before = repr(turns)
    target = Target("claude", alternates=True)
    once = repair(turns, target)
    again = repair(turns, target)
    assert (again.placed, again.notes, again.ids) == (once.placed, once.notes, once.ids)
    assert repr(turns) == before
    twice = repair(once.turns, target)
    assert twice.turns == once.turns
    assert twice.notes == ()


@settings(max_examples=200)
@given(history=nasty_histories)
def test_every_note_points_to_a_turn_of_the_history(history: list[Any]):
    for note in repair(read_history(history), Target("claude")).notes:
        assert note.turn is None or 0 <= note.turn < len(history)
        assert note.message


def test_thinking_is_kept_only_where_it_came_from():
    def kept(**origin: str) -> bool:
        thinking = {"type": "thinking", "content": "hm", "origin": origin}
        target = Target("bot", origin=Origin("p", "host", "m"), default_endpoint="host")
        made = repair(read_history([{"role": "bot", "content": [thinking, "x"]}]), target)
        return any(isinstance(part, Thinking) for part in made.turns[0].parts)

    assert kept(provider="p", model="m")
    assert kept(provider="p", model="m", endpoint="host")
    assert not kept(provider="p", model="m", endpoint="other")
    assert not kept(provider="p", model="other")
    assert not kept(provider="other", model="m")
    assert not kept(provider="p")
    assert not kept()
