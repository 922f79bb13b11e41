"""The assemblers for applications that read a provider's stream themselves."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.compat.assemblers import (
    AnthropicToolCallAssembler,
    GeminiToolCallAssembler,
    OpenAIToolCallAssembler,
    parse_openai_tool_call,
)


def objects(value: Any) -> Any:
    """Turn dictionaries into objects with attributes, as in an SDK; arguments stay unchanged."""
    if not hasattr(value, "items"):
        return value
    return SimpleNamespace(**{k: v if k == "args" else objects(v) for k, v in value.items()})


def same(value: Any) -> Any:
    return value


either = pytest.mark.parametrize("form", [same, objects], ids=["mappings", "attributes"])


@either
def test_openai_calls_come_out_when_known_complete(form: Any) -> None:
    assembler = OpenAIToolCallAssembler()
    deltas = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"loc'}},
        {"index": 0, "function": {"arguments": '": "Tokyo"}'}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}},
        {"index": 2, "id": "c", "function": {"name": "h", "arguments": "{bad"}},
    ]
    outcomes = [assembler.process_tool_call(form(delta)) for delta in deltas]
    done = {"name": "f", "arguments": {"loc": "Tokyo"}, "tool_call_id": "a"}
    assert outcomes == [None, None, None, done, None]
    empty, bad = assembler.finalize()
    assert empty == {"name": "g", "arguments": {}, "tool_call_id": "b"}
    assert (bad["name"], bad["arguments"], bad["raw_arguments"]) == ("h", {}, "{bad")
    assert bad["error"]
    assert assembler.finalize() == []


def test_openai_interleaved_calls_are_not_cut_short() -> None:
    assembler = OpenAIToolCallAssembler()
    for index, arguments in ((0, '{"a'), (1, '{"b'), (0, '":1}'), (1, '":2}')):
        function = {"arguments": arguments}
        if arguments.startswith("{"):
            function["name"] = f"f{index}"
        delta = {"index": index, "id": f"id{index}", "function": function}
        assert assembler.process_tool_call(delta) is None
    assert [call["arguments"] for call in assembler.finalize()] == [{"a": 1}, {"b": 2}]


def test_str_02_openai_concatenated_calls_all_come_out() -> None:
    assembler = OpenAIToolCallAssembler()
    assembler.process_tool_call(
        {"index": 0, "function": {"name": "f", "arguments": '{"a":1}{"a":2}'}}
    )
    assert [call["arguments"] for call in assembler.finalize()] == [{"a": 1}, {"a": 2}]


def test_a_nameless_openai_call_waits_and_is_no_call() -> None:
    assembler = OpenAIToolCallAssembler()
    assert assembler.process_tool_call({"index": 0, "function": {"arguments": "{}"}}) is None
    assert assembler.process_tool_call(None) is None
    assert assembler.finalize() == []


@either
def test_a_whole_openai_call_is_parsed(form: Any) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"n":1}'}}
    assert parse_openai_tool_call(form(call)) == {
        "name": "f",
        "arguments": {"n": 1},
        "tool_call_id": "a",
    }


def test_a_whole_openai_call_with_bad_arguments_says_so() -> None:
    parsed = parse_openai_tool_call({"id": "a", "function": {"name": "f", "arguments": "[1]"}})
    assert parsed == {
        "name": "f",
        "arguments": {},
        "tool_call_id": "a",
        "error": "The arguments must be a JSON object, not an array.",
        "raw_arguments": "[1]",
    }


@either
@pytest.mark.parametrize("key", ["function_call", "functionCall"])
def test_gemini_name_and_arguments_may_come_apart(form: Any, key: str) -> None:
    assembler = GeminiToolCallAssembler()
    parts: list[Any] = [
        {key: {"name": "f", "args": {}}},
        {key: {"args": {"n": 1}}},
        {key: {"name": "g", "args": {"m": 2}}},
        {key: {"name": "now"}},
        {"text": "words"},
        {key: {"name": "today", "args": {}}},
    ]
    outcomes = [assembler.process_function_call(form(part)) for part in parts]
    assert outcomes == [
        None,
        {"name": "f", "arguments": {"n": 1}, "tool_call_id": "call_0"},
        {"name": "g", "arguments": {"m": 2}, "tool_call_id": "call_1"},
        None,
        None,
        {"name": "now", "arguments": {}, "tool_call_id": "call_2"},
    ]
    assert assembler.finalize() == [{"name": "today", "arguments": {}, "tool_call_id": "call_3"}]


def test_gemini_arguments_may_come_before_their_name() -> None:
    assembler = GeminiToolCallAssembler()
    assert assembler.process_function_call({"args": {"n": 1}}) is None
    assert assembler.process_function_call({"name": "f", "id": "x"}) == {
        "name": "f",
        "arguments": {"n": 1},
        "tool_call_id": "call_0",
    }


@either
def test_anthropic_calls_come_out_with_their_blocks(form: Any) -> None:
    assembler = AnthropicToolCallAssembler()
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "f"}},
        {"type": "content_block_delta", "index": 0, "delta": {"partial_json": '{"n":'}},
        {"type": "content_block_delta", "index": 0, "delta": {"partial_json": "1}"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "b", "name": "g"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "ping"},
    ]  # fmt: skip
    outcomes = [assembler.process_event(form(event)) for event in events]
    assert [call for call in outcomes if call] == [
        {"name": "f", "arguments": {"n": 1}, "tool_call_id": "a"}
    ]
    assert assembler.finalize() == [{"name": "g", "arguments": {}, "tool_call_id": "b"}]


def test_str_14_an_anthropic_call_that_was_cut_off_has_an_error() -> None:
    assembler = AnthropicToolCallAssembler()
    block = {"type": "tool_use", "id": "a", "name": "f"}
    assembler.process_event({"type": "content_block_start", "index": 0, "content_block": block})
    assembler.process_event({"type": "content_block_stop", "index": 0})
    assembler.process_event({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}})
    (call,) = assembler.finalize()
    assert "cut off" in call["error"]


@given(st.permutations(range(4)), st.data())
def test_calls_come_out_in_the_order_of_their_index(order: list[int], data: st.DataObject):
    """Seed 000, risk 2: the order of indices is not guaranteed."""
    assembler = OpenAIToolCallAssembler()
    pieces = [(index, piece) for index in order for piece in ("first", "second")]
    pieces = data.draw(st.permutations(pieces)) if data.draw(st.booleans()) else pieces
    begun: set[int] = set()
    found: list[dict[str, Any]] = []
    for index, _ in pieces:
        fragment = '"}' if index in begun else '{"n": "'
        delta: dict[str, Any] = {"index": index, "function": {"arguments": fragment}}
        if index not in begun:
            delta |= {"id": f"call_{index}"}
            delta["function"]["name"] = f"tool{index}"
        begun.add(index)
        given_out = assembler.process_tool_call(delta)
        found += [given_out] if given_out else []
    found += assembler.finalize()
    assert [call["name"] for call in found] == [f"tool{index}" for index in range(4)]
    assert all(call["arguments"] == {"n": ""} for call in found)


def test_pending_calls_are_chunks_and_an_assembler_can_be_used_again():
    assembler = OpenAIToolCallAssembler()
    delta = {"index": 0, "id": "call_1", "function": {"name": "now", "arguments": "{}"}}
    for _ in range(2):
        assert assembler.process_tool_call(delta) is None
        assert list(assembler.finalize_pending_calls()) == [
            {
                "type": "tool_call",
                "content": {"name": "now", "arguments": {}, "tool_call_id": "call_1"},
            }
        ]
        assembler.reset()
