"""Writing is strict: there is one form, and reading it back gives the same value."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from tests.strategies.histories import nasty_histories

from multi_llm_chat import Media, Text, Thinking, ToolCall, ToolResult, Turn
from multi_llm_chat.history import Origin
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.history.writer import write_history, write_part


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (Text("hi"), {"type": "text", "content": "hi"}),
        (ToolCall("f", {"a": 1}, "c"), {"type": "tool_call", "content": {"name": "f", "arguments": {"a": 1}, "tool_call_id": "c"}}),
        (ToolCall("f", {"a": 1}, "c", '{"a":1}'), {"type": "tool_call", "content": {"name": "f", "arguments": {"a": 1}, "tool_call_id": "c"}}),
        (ToolCall("f", {"a": 1}, "c", '{"a": 1}'), {"type": "tool_call", "content": {"name": "f", "arguments": {"a": 1}, "tool_call_id": "c", "raw_arguments": '{"a": 1}'}}),
        (ToolCall("f", {}, "c", "{", "bad"), {"type": "tool_call", "content": {"name": "f", "arguments": {}, "tool_call_id": "c", "raw_arguments": "{", "error": "bad"}}),
        (ToolResult("f", "ok", "c"), {"type": "tool_result", "name": "f", "content": "ok", "tool_call_id": "c"}),
        (ToolResult("f", "no", "c", True, True), {"type": "tool_result", "name": "f", "content": "no", "tool_call_id": "c", "is_error": True, "synthetic": True}),
        (ToolResult("f", {"t": 1}), {"type": "tool_result", "name": "f", "content": {"t": 1}}),
        (Thinking("hm"), {"type": "thinking", "content": "hm"}),
        (Thinking("hm", Origin("gemini", "", "m"), {"k": 1}), {"type": "thinking", "content": "hm", "origin": {"provider": "gemini", "model": "m"}, "opaque": {"k": 1}}),
        (Media("image/png", "AAAA"), {"type": "media", "mime": "image/png", "data": "AAAA"}),
        (Media("image/png", None, "https://x", "n"), {"type": "media", "mime": "image/png", "url": "https://x", "name": "n"}),
    ],
)  # fmt: skip
def test_a_part_has_one_form_and_says_nothing_that_is_not_so(part: Any, written: dict[str, Any]):
    assert write_part(part) == written
    (turn,) = read_history([{"role": "assistant", "content": [written]}])
    assert write_part(turn.parts[0]) == written


def test_a_turn_writes_only_the_keys_that_say_something():
    assert write_history([Turn("user", (Text("x"),))]) == [
        {"role": "user", "content": [{"type": "text", "content": "x"}]}
    ]
    whole = Turn("user", (), "t1", 7, "m", {"k": 1})
    assert write_history([whole]) == [
        {"role": "user", "content": [], "id": "t1", "created_at": 7, "model": "m", "meta": {"k": 1}}
    ]


@settings(max_examples=200)
@given(history=nasty_histories)
def test_what_was_written_reads_and_writes_as_itself(history: list[Any]):
    written = write_history(read_history(history))
    # repr, because a history may contain NaN, which is not equal to itself.
    assert repr(write_history(read_history(written))) == repr(written)


def test_a_written_history_survives_json():
    history = [
        {"role": "claude", "content": [{"type": "tool_call", "name": "f", "arguments": "[1]"}]},
        {"role": "tool", "content": "ok"},
    ]
    written = write_history(read_history(history))
    assert write_history(read_history(json.loads(json.dumps(written)))) == written
