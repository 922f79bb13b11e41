"""Flat messages: an unchanged message is the identical object, a changed one keeps its id and unknown keys."""

import json
from typing import Any

import pytest

from multi_llm_chat import Text, ToolCall, ToolResult
from multi_llm_chat.history.flat import read_flat, write_flat
from multi_llm_chat.repair.sorting import with_parts


def call(identifier: str = "c1", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": identifier, "type": "function", "function": {"name": "f", "arguments": arguments}}


@pytest.mark.parametrize(
    "message",
    [
        {"id": "1", "role": "user", "content": "hi", "mine": 1},
        {"id": "2", "role": "assistant", "content": "x", "tool_calls": [call()]},
        {"id": "3", "role": "assistant", "content": None, "tool_calls": [call()]},
        {"id": "4", "role": "tool", "content": "ok", "tool_call_id": "c1"},
    ],
    ids=lambda message: message["id"],
)
def test_an_unchanged_message_is_written_as_itself(message: dict[str, Any]):
    (written,) = write_flat(read_flat([message]))
    assert written is message


def test_legacy_calls_and_listed_ones_are_read_together():
    legacy = {"id": "t1", "name": "g", "input": {"a": 1}}
    (turn,) = read_flat(
        [{"role": "assistant", "content": "", "tool_calls": [call()], "tool_use": legacy}]
    )
    assert turn.parts == (ToolCall("f", {}, "c1", "{}"), ToolCall("g", {"a": 1}, "t1"))


def test_several_legacy_calls():
    legacy: list[Any] = [
        {"id": "t1", "name": "g", "input": {}},
        {"id": "t2", "name": "g", "input": {}},
    ]
    (turn,) = read_flat([{"role": "assistant", "content": "", "tool_use": legacy}])
    assert [part.tool_call_id for part in turn.parts if isinstance(part, ToolCall)] == ["t1", "t2"]


def test_legacy_keys_do_not_go_out():
    message: dict[str, Any] = {
        "id": "1",
        "role": "assistant",
        "content": "x",
        "tool_use": {"id": "t", "name": "g", "input": {}},
        "thinking": "hm",
        "mine": 1,
    }
    (written,) = write_flat(read_flat([message]))
    assert written == {
        "id": "1", "role": "assistant", "content": "x", "mine": 1,
        "tool_calls": [{"id": "t", "type": "function", "function": {"name": "g", "arguments": "{}"}}],
    }  # fmt: skip


def test_a_changed_message_keeps_its_id_its_keys_and_their_order():
    message = {"mine": 1, "id": "1", "content": "a", "role": "user"}
    (turn,) = read_flat([message])
    (written,) = write_flat([with_parts(turn, [Text("b")])])
    assert list(written.items()) == [("mine", 1), ("id", "1"), ("content", "b"), ("role", "user")]


def test_content_of_parts_is_read_as_text():
    (turn,) = read_flat([{"role": "user", "content": ["a", {"type": "text", "text": "b"}]}])
    assert turn.parts == (Text("a"), Text("b"))


def test_a_result_is_one_text_and_may_bear_its_name():
    (turn,) = read_flat(
        [{"role": "tool", "content": ["a", "b"], "tool_call_id": "c1", "name": "f"}]
    )
    assert turn.parts == (ToolResult("f", "a\nb", "c1"),)
    (bare,) = read_flat([{"role": "tool", "content": None, "tool_call_id": "c1"}])
    (written,) = write_flat([with_parts(bare, [ToolResult("f", "x", "c1")])], result_names=True)
    assert written == {"role": "tool", "content": "x", "tool_call_id": "c1", "name": "f"}


@pytest.mark.parametrize("value", [7, None, ["a"], "words"])
def test_what_is_no_message_becomes_a_message_of_the_user(value: Any):
    (turn,) = read_flat([value])
    (written,) = write_flat([turn])
    text = value if isinstance(value, str) else json.dumps(value)
    assert written == {"role": "user", "content": text}


PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///a"}}


@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system"])
def test_every_item_and_the_form_of_the_content_are_kept(role: str):
    content = [
        {"type": "text", "text": "a"},
        PICTURE,
        SOUND,
        {"type": "text", "text": "b"},
        RESOURCE,
    ]
    message = {"role": role, "content": content, "tool_call_id": "c1", "mine": 1}
    turns = read_flat([message])
    assert write_flat(turns) == [message]


def test_items_stay_where_calls_are_dropped():
    message = {
        "role": "assistant",
        "content": [PICTURE, {"type": "text", "text": "a"}],
        "tool_calls": [call()],
    }
    (turn,) = read_flat([message])
    kept = [part for part in turn.parts if not isinstance(part, ToolCall)]
    assert write_flat([with_parts(turn, kept)]) == [
        {"role": "assistant", "content": [PICTURE, {"type": "text", "text": "a"}]}
    ]


def test_object_arguments_are_written_as_text():
    (written,) = write_flat(
        read_flat(
            [{"role": "assistant", "content": "", "tool_calls": [call(arguments={"a": "é"})]}]
        )
    )
    assert written["tool_calls"] == [call(arguments='{"a":"é"}')]
