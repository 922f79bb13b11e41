"""Reading is liberal: every form that other systems write is understood, and nothing else is guessed."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from tests.strategies.histories import nasty_histories

from multi_llm_chat import Media, Text, Thinking, ToolCall, ToolResult, Turn, UsageError
from multi_llm_chat.compat.history_text import normalize_history_turns, validate_history_entry
from multi_llm_chat.history import Extras, Native, Origin
from multi_llm_chat.history.json_values import as_object
from multi_llm_chat.history.reader import read_history, read_turn
from multi_llm_chat.history.writer import write_history


def parts_of(content: Any, role: str = "assistant") -> tuple[Any, ...]:
    (turn,) = read_history([{"role": role, "content": content}])
    return turn.parts


CALL = ToolCall("f", {"a": 1}, "c1")
RESULT = ToolResult("f", "ok", "c1")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        pytest.param("hi", (Text("hi"),), id="a string"),
        pytest.param("", (), id="an empty string says nothing"),
        pytest.param([], (), id="an empty list says nothing"),
        pytest.param(["a", {"type": "text", "content": "b"}], (Text("a"), Text("b")), id="strings among the parts"),
        pytest.param(("a", "b"), (Text("a"), Text("b")), id="a tuple"),
        pytest.param({"type": "text", "content": "hi"}, (Text("hi"),), id="one part alone"),
        pytest.param({"type": "text", "text": "hi"}, (Text("hi"),), id="text under OpenAI's key"),
        pytest.param({"type": "text", "content": None}, (Text(""),), id="null text"),
        pytest.param({"type": "text", "content": 7}, (Text("7"),), id="text that is a number"),
        pytest.param([{"type": "tool_call", "content": {"name": "f", "arguments": {"a": 1}, "tool_call_id": "c1"}}], (CALL,), id="a call"),
        pytest.param([{"type": "tool_call", "name": "f", "arguments": {"a": 1}, "tool_call_id": "c1"}], (CALL,), id="a flat call"),
        pytest.param([{"type": "tool_call", "tool_name": "f", "arguments": {"a": 1}, "id": "c1"}], (CALL,), id="tool_name and id"),
        pytest.param([{"type": "tool_call", "name": "f", "arguments": '{"a": 1}', "tool_call_id": "c1"}], (ToolCall("f", {"a": 1}, "c1", '{"a": 1}'),), id="arguments as JSON text, kept to the letter"),
        pytest.param([{"type": "tool_call", "name": "f", "arguments": None, "tool_call_id": "c1"}], (ToolCall("f", {}, "c1"),), id="no arguments"),
        pytest.param([{"type": "tool_call", "name": "f", "arguments": "", "tool_call_id": "c1"}], (ToolCall("f", {}, "c1"),), id="empty arguments"),
        pytest.param([{"type": "tool_result", "name": "f", "content": "ok", "tool_call_id": "c1"}], (RESULT,), id="a result"),
        pytest.param([{"type": "tool_result", "tool_name": "f", "result": "ok", "id": "c1"}], (RESULT,), id="result for content"),
        pytest.param([{"type": "tool_result", "name": "f", "content": {"t": 1}}], (ToolResult("f", {"t": 1}),), id="a structured result without an id"),
        pytest.param([{"type": "tool_result", "name": "f", "content": "x", "is_error": True}], (ToolResult("f", "x", "", True),), id="a failed result"),
        pytest.param([{"type": "thinking", "content": "hm"}], (Thinking("hm"),), id="thinking from nowhere"),
        pytest.param([{"type": "thinking", "thinking": "hm", "origin": "gemini"}], (Thinking("hm", Origin("gemini")),), id="an origin that is only a name"),
        pytest.param([{"type": "media", "mime": "image/png", "data": "AAAA"}], (Media("image/png", "AAAA"),), id="media"),
        pytest.param([{"type": "media", "url": "https://x/y"}], (Media("application/octet-stream", None, "https://x/y"),), id="media of an unknown kind"),
    ],
)  # fmt: skip
def test_content_is_read_in_every_form(content: Any, parts: tuple[Any, ...]):
    before = copy.deepcopy(content)
    assert parts_of(content) == parts
    assert content == before


def test_arguments_that_are_not_json_are_kept_and_never_run():
    (call,) = parts_of([{"type": "tool_call", "name": "f", "arguments": '{"a":', "id": "c1"}])
    assert (call.arguments, call.raw_arguments) == ({}, '{"a":')
    assert "not valid JSON" in call.error


def test_arguments_that_are_no_object_are_kept_and_never_run():
    (call,) = parts_of([{"type": "tool_call", "name": "f", "arguments": [1, 2], "id": "c1"}])
    assert (call.arguments, call.raw_arguments) == ({}, "[1,2]")
    assert call.error == "The arguments must be a JSON object, not an array."


@pytest.mark.parametrize(
    ("role", "read"),
    [
        ("user", "user"), ("system", "system"), ("tool", "tool"), ("gemini", "gemini"), ("my bot", "my bot"),
        ("assistant", "assistant"), ("model", "model"), ("developer", "system"), ("function", "tool"), ("human", "user"),
    ],
)  # fmt: skip
def test_the_role_is_who_spoke(role: str, read: str):
    assert read_history([{"role": role, "content": "x"}])[0].role == read


def test_a_string_in_a_tool_turn_is_a_result():
    (turn,) = read_history([{"role": "tool", "content": "25 degrees"}])
    assert turn.parts == (ToolResult("", "25 degrees"),)


def test_openais_keys_beside_the_content_are_understood():
    function = {"name": "f", "arguments": '{"a":1}'}
    turns = read_history(
        [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": function}]},
            {"role": "tool", "content": "ok", "tool_call_id": "c1", "name": "f"},
        ]
    )  # fmt: skip
    assert turns[0].parts == (ToolCall("f", {"a": 1}, "c1", '{"a":1}'),)
    assert turns[1].parts == (RESULT,)


def test_the_keys_of_a_turn_have_their_places():
    entry = {
        "role": "user",
        "content": "x",
        "id": "t1",
        "created_at": 7,
        "model": "m",
        "meta": {"k": 1},
    }
    assert read_history([entry]) == (Turn("user", (Text("x"),), "t1", 7, "m", {"k": 1}),)


SEED_TEXT = "History content must be a list or string (actual type: dict)"


@pytest.mark.parametrize(
    ("content", "kind"), [({"text": "bad"}, "dict"), (None, "NoneType"), (7, "int"), (True, "bool")]
)
def test_content_of_another_type_is_an_error_in_the_seeds_words(content: Any, kind: str):
    with pytest.raises(ValueError, match="History content") as caught:
        validate_history_entry({"role": "user", "content": content})
    assert str(caught.value) == f"History content must be a list or string (actual type: {kind})"


def test_with_strict_the_error_names_the_turn():
    with pytest.raises(UsageError) as caught:
        read_turn({"role": "user", "content": {"text": "bad"}}, 1, strict=True)
    assert str(caught.value).startswith(SEED_TEXT)
    assert caught.value.turn == 1


UNREADABLE = [
    ({"role": " "}, "role"),
    ({"role": "user", "content": [{"type": "picture", "x": 1}]}, "type 'picture'"),
    ({"role": "user", "content": [7]}, "int"),
    ({"role": "user", "content": {"text": "bad"}}, "actual type: dict"),
    ({"role": "assistant", "content": "x", "tool_calls": "f"}, "'tool_calls' must be a list"),
]


@pytest.mark.parametrize(("turn", "words"), UNREADABLE)
def test_with_strict_what_cannot_be_understood_is_an_error(turn: Any, words: str):
    with pytest.raises(UsageError, match=words) as caught:
        read_turn(turn, 0, strict=True)
    assert caught.value.turn == 0


@pytest.mark.parametrize("turn", [turn for turn, _ in UNREADABLE])
def test_what_cannot_be_understood_is_kept_and_fails_nothing(turn: Any):
    before, read, after = read_history(["a", turn, "b"])[0], read_history([turn])[0], "b"
    natives = [part for part in read.parts if isinstance(part, Native)]
    assert len(natives) == 1
    assert before.unreadable is not None
    assert after
    assert read_history(write_history([read])) == (read,)


def test_a_turn_without_a_role_is_the_users():
    assert read_history([{"content": "x"}]) == (Turn("user", (Text("x"),)),)


def test_extras_native_parts_and_file_ids_are_read_as_they_are_written():
    origin = Origin("anthropic", "", "claude-opus-5")
    extras = Extras(origin, {"citations": [{"url": "https://example.org", "title": "T"}]})
    turn = Turn(
        "claude",
        (
            Text("words", extras),
            ToolCall("f", {}, "1", None, None, extras),
            ToolResult("f", "x", "1", False, False, extras),
            Media("image/png", None, None, "p.png", "file_1", extras),
            Native("server_tool_use", "searched the web for x", origin, {"type": "x", "id": "y"}),
        ),
    )
    assert read_history(write_history([turn])) == (turn,)


@pytest.mark.parametrize("history", ["text", b"bytes", {"role": "user", "content": "x"}])
def test_a_history_is_a_list_of_turns(history: Any):
    with pytest.raises(UsageError, match="A history is a list of turns"):
        read_history(history)


@pytest.mark.parametrize("value", [None, 7, "text", ["a"]])
def test_what_is_not_a_turn_at_all_becomes_a_placeholder(value: Any):
    written = normalize_history_turns(
        [{"role": "user", "content": "a"}, value, {"role": "user", "content": "b"}]
    )
    assert len(written) == 3
    assert written[1] == {
        "role": "system",
        "content": [],
        "unreadable": f"not a turn: {type(value).__name__}",
    }
    assert normalize_history_turns(written) == written


def test_ids_are_made_from_the_place_and_unique_in_the_history():
    call: dict[str, Any] = {"type": "tool_call", "name": "f", "arguments": {}}
    taken: dict[str, Any] = {
        "type": "tool_call",
        "name": "f",
        "arguments": {},
        "tool_call_id": "call_1_1",
    }
    history: list[Any] = [
        {"role": "gemini", "content": [taken]},
        {"role": "gemini", "content": [call, call]},
    ]
    turns = read_history(history)
    identifiers = [
        part.tool_call_id for turn in turns for part in turn.parts if isinstance(part, ToolCall)
    ]
    assert identifiers == ["call_1_1", "call_1_0", "call_1_1_"]
    assert read_history(history) == turns


def test_ids_that_are_there_are_never_changed_on_reading():
    call: dict[str, Any] = {
        "type": "tool_call",
        "content": {"name": "f", "arguments": {}, "tool_call_id": "x y"},
    }
    turns = read_history([{"role": "a", "content": [call]}, {"role": "a", "content": [call]}])
    assert [
        turn.parts[0].tool_call_id for turn in turns if isinstance(turn.parts[0], ToolCall)
    ] == ["x y", "x y"]


@settings(max_examples=200)
@given(history=nasty_histories)
def test_one_turn_in_one_turn_out_and_every_call_has_an_id(history: list[Any]):
    before = repr(history)
    turns = read_history(history)
    assert len(turns) == len(history)
    assert all(
        part.tool_call_id for turn in turns for part in turn.parts if isinstance(part, ToolCall)
    )
    assert repr(history) == before
    assert read_history(turns) == turns


def test_a_type_that_is_no_text_is_kept_as_a_native_part():
    turns = read_history([{"role": "user", "content": {"type": ["text", None]}}])
    assert [type(part) for part in turns[0].parts] == [Native]


@given(history=nasty_histories)
def test_a_turn_is_read_the_same_with_and_without_further_fields(history: list[Any]):
    """Turns in our own output format take a shorter path."""
    further: list[Any] = []
    for turn in history:
        entry = as_object(turn)
        is_short = entry is not None and len(entry) == 2 and "content" in entry
        further.append({**(entry or {}), "meta": {}} if is_short else turn)
    assert read_history(further) == read_history(history)
