"""Assembling calls from fragments, and the turn that they belong to."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.events import Event, Finish, ToolCallDelta, ToolCallEnd, ToolCallStart
from multi_llm_chat.history.values import Media, Origin, Text, Thinking, ToolCall
from multi_llm_chat.protocol.calls import CUT_OFF, CallAssembly, DecodeContext
from multi_llm_chat.protocol.lenient_json import ObjectEnd
from multi_llm_chat.protocol.turn_assembly import Assembly

Fragment = dict[str, Any]
NOTHING: dict[str, Any] = {}


def assemble(*fragments: Fragment, context: DecodeContext | None = None) -> list[ToolCall]:
    calls = CallAssembly(context or DecodeContext())
    for fragment in fragments:
        calls.add(**fragment)
    calls.close_all()
    return list(calls.calls)


def short(calls: list[ToolCall]) -> list[tuple[str, Any, str]]:
    return [(call.name, call.arguments, call.tool_call_id) for call in calls]


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        pytest.param(
            [{"wire_id": "a", "name": "f", "arguments": "{"}, {"arguments": "}"}],
            [("f", NOTHING, "a")],
            id="STR-01-no-key-and-no-id-continues-the-last-call",
        ),
        pytest.param(
            [
                {"wire_id": "a", "name": "f", "arguments": '{"n"'},
                {"wire_id": "b", "name": "g", "arguments": '{"m"'},
                {"wire_id": "a", "arguments": ":1}"},
                {"wire_id": "b", "arguments": ":2}"},
            ],
            [("f", {"n": 1}, "a"), ("g", {"m": 2}, "b")],
            id="STR-01-interleaved-by-id",
        ),
        pytest.param(
            [
                {"key": 0, "wire_id": "a", "name": "f", "arguments": '{"n"'},
                {"key": 0, "wire_id": "b", "name": "g", "arguments": "{}"},
                {"key": 0, "wire_id": "a", "arguments": ":1}"},
            ],
            [("f", {"n": 1}, "a"), ("g", NOTHING, "b")],
            id="STR-02-same-key-interleaved-by-id",
        ),
        pytest.param(
            [{"key": 0, "name": "f", "arguments": '{"a":1}{"b":2} {"c":3}'}],
            [("f", {"a": 1}, "call_0"), ("f", {"b": 2}, "call_1"), ("f", {"c": 3}, "call_2")],
            id="STR-02-concatenated",
        ),
        pytest.param(
            [
                {"key": 0, "name": "f", "arguments": {"a": 1}},
                {"key": 0, "name": "f", "arguments": {"a": 2}},
            ],
            [("f", {"a": 1}, "call_0"), ("f", {"a": 2}, "call_1")],
            id="STR-02-objects-under-one-key",
        ),
        pytest.param(
            [
                {"key": 0, "wire_id": "x", "name": "f", "arguments": '{"a":1}'},
                {"key": 0, "wire_id": "x", "name": "f", "arguments": '{"a":1}'},
            ],
            [("f", {"a": 1}, "x")],
            id="the-same-call-sent-twice-is-one",
        ),
        pytest.param(
            [
                {"key": 0, "wire_id": "x", "name": "f", "arguments": '{"a":1}'},
                {"key": 0, "wire_id": "x", "name": "f", "arguments": '{"a":2}'},
            ],
            [("f", {"a": 1}, "x"), ("f", {"a": 2}, "call_1")],
            id="STR-04-one-id-for-different-calls",
        ),
        pytest.param(
            [
                {"key": 0, "wire_id": "x", "name": "f", "arguments": piece}
                for piece in ('{"a":', '{"a":', "1}}")
            ],
            [("f", {"a": {"a": 1}}, "x")],
            id="STR-13-a-piece-like-the-one-before-is-more-of-it",
        ),
        pytest.param(
            [{"key": 0, "name": "f", "arguments": '{"a":1}'} for _ in range(2)],
            [("f", {"a": 1}, "call_0"), ("f", {"a": 1}, "call_1")],
            id="STR-02-equal-calls-without-ids-are-two",
        ),
        pytest.param(
            [{"key": 0, "name": "f"}, {"key": 0, "wire_id": "x", "arguments": "{}"}],
            [("f", NOTHING, "x")],
            id="STR-04-a-late-id",
        ),
        pytest.param(
            [{"key": 0, "name": "a"}, {"key": 1, "wire_id": "call_0", "name": "b"}],
            [("a", NOTHING, "call_0"), ("b", NOTHING, "call_1")],
            id="STR-04-an-id-like-a-minted-one",
        ),
        pytest.param(
            [{"key": 0, "name": "f", "arguments": None}, {"key": 1, "name": "g", "arguments": ""}],
            [("f", NOTHING, "call_0"), ("g", NOTHING, "call_1")],
            id="STR-12-nothing-is-no-arguments",
        ),
        pytest.param(
            [{"key": 0, "arguments": "{}"}, {"key": 1, "wire_id": "x"}],
            [],
            id="STR-13-a-call-that-never-got-a-name-is-none",
        ),
        pytest.param(
            [
                {"key": 0, "name": "get"},
                {"key": 0, "name": "get_all"},
                {"key": 0, "arguments": "{}"},
            ],
            [("get_all", NOTHING, "call_0")],
            id="STR-13-a-growing-name",
        ),
        pytest.param(
            [
                {"key": 0, "wire_id": "a", "name": "f", "arguments": '{"n":1}'},
                {"key": 1, "wire_id": "b", "name": "g"},
                {"key": 0, "wire_id": "a", "name": "f", "arguments": ""},
                {"key": 0, "arguments": " "},
                {"key": 1, "arguments": "{}"},
            ],
            [("f", {"n": 1}, "a"), ("g", NOTHING, "b")],
            id="empty-echoes-of-a-closed-call-are-nothing",
        ),
        pytest.param(
            [
                {"name": "f", "arguments": None, "separate": True},
                {"name": "f", "arguments": None, "separate": True},
            ],
            [("f", NOTHING, "call_0"), ("f", NOTHING, "call_1")],
            id="separate-calls-without-anything",
        ),
    ],
)
def test_fragments_become_calls(fragments: list[Fragment], expected: list[object]) -> None:
    assert short(assemble(*fragments)) == expected


def test_names_and_arguments_are_mapped_back() -> None:
    context = DecodeContext(
        names={"fs_read": "fs.read"},
        arguments={"fs.read": {"path_": "path!"}},
        id_prefix="t3",
    )
    text = '{"path_": "a", "mode": 1}'
    (call,) = assemble({"key": 0, "name": "fs_read", "arguments": text}, context=context)
    assert call == ToolCall("fs.read", {"path!": "a", "mode": 1}, "t3_0", text)


def test_known_names_without_arguments_are_calls_of_their_own() -> None:
    context = DecodeContext(names={"now": "now", "today": "today"})
    calls = assemble({"key": 0, "name": "now"}, {"key": 0, "name": "today"}, context=context)
    assert short(calls) == [("now", NOTHING, "call_0"), ("today", NOTHING, "call_1")]


def test_a_call_is_announced_when_name_and_arguments_are_known() -> None:
    calls = CallAssembly(DecodeContext())
    assert calls.add(key=0, wire_id="a", arguments='{"n"')[1] == []
    assert calls.add(key=0, name="f")[1] == []
    assert calls.add(key=0, arguments=":1}")[1] == [
        ToolCallStart(0, "a", "f"),
        ToolCallDelta(0, '{"n":1}'),
    ]
    assert calls.add(key=1, wire_id="b", name="g")[1] == [
        ToolCallEnd(0, ToolCall("f", {"n": 1}, "a", '{"n":1}'))
    ]
    assert calls.close_all() == [ToolCallStart(1, "b", "g"), ToolCallEnd(1, ToolCall("g", {}, "b"))]
    assert calls.close_all() == []


def test_str_14_a_call_that_the_limit_cut_off_cannot_be_run() -> None:
    calls = CallAssembly(DecodeContext())
    calls.add(key=0, wire_id="a", name="f", arguments='{"n":1}')
    calls.add(key=1, wire_id="b", name="g")
    calls.close_all(cut=True)
    assert [call.error for call in calls.calls] == [None, CUT_OFF]


def test_five_thousand_fragments_make_one_call() -> None:
    words = json.dumps({"text": "}{" * 5_000})
    fragments: list[Fragment] = [{"key": 0, "wire_id": "a", "name": "f"}]
    fragments += [{"key": 0, "arguments": words[at : at + 2]} for at in range(0, len(words), 2)]
    (call,) = assemble(*fragments)
    assert call.raw_arguments == words


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "key": st.none() | st.integers(0, 2),
                "wire_id": st.sampled_from(["", "a", "b", "call_0"]) | st.none(),
                "name": st.sampled_from(["", "f", "g"]) | st.none(),
                "arguments": st.sampled_from(["", "{", "}", '{"n":1}', '"x"', " "])
                | st.none()
                | st.just({"o": 1})
                | st.integers(),
                "separate": st.booleans(),
            },
        ),
        max_size=12,
    )
)
def test_any_fragments_give_calls_with_unique_ids_that_start_and_end_once(
    fragments: list[Fragment],
) -> None:
    assembly = Assembly(DecodeContext())
    events: list[Event] = []
    for fragment in fragments:
        events += assembly.add_call(**fragment)
    events += assembly.close("stop", "", None)
    starts = {e.index: e.tool_call_id for e in events if isinstance(e, ToolCallStart)}
    ends = {e.index: e.call for e in events if isinstance(e, ToolCallEnd)}
    assert len(set(starts.values())) == len(starts)
    assert starts == {index: call.tool_call_id for index, call in ends.items()}
    assert sorted(call.tool_call_id for call in ends.values()) == sorted(
        part.tool_call_id for part in assembly.parts if isinstance(part, ToolCall)
    )
    assert all(call.name for call in ends.values())


def test_a_turn_keeps_its_order_and_leaves_out_what_is_empty() -> None:
    origin = Origin("p", "e", "m")
    assembly = Assembly(DecodeContext(origin=origin))
    assembly.open_thinking().opaque["signature"] = "s"
    assembly.open_thinking()
    assembly.open_text()
    assembly.open_text().add("words")
    assembly.add_media(Media("image/png", "AA=="))
    assembly.add_call(name="f")
    assert assembly.parts == (Media("image/png", "AA=="),)
    assert assembly.close("stop", "end", None)[-1] == Finish("tool_calls", "end")
    assert assembly.parts == (
        Thinking("", origin, {"signature": "s"}),
        Text("words"),
        Media("image/png", "AA=="),
        ToolCall("f", NOTHING, "call_0"),
    )


def test_str_16_an_interrupted_turn_keeps_text_and_whole_calls_only() -> None:
    assembly = Assembly(DecodeContext(origin=Origin(model="m")))
    assembly.open_thinking().add("hm")
    assembly.open_text().add("words")
    assembly.add_call(key=0, name="f", arguments="{}")
    assembly.add_call(key=1, name="g", arguments="{")
    turn = assembly.partial()
    assert turn.model == "m"
    assert turn.parts == (Text("words"), ToolCall("f", NOTHING, "call_0", "{}"))


@pytest.mark.parametrize(
    ("said", "with_call", "settled"),
    [
        ("stop", True, "tool_calls"),
        ("length", True, "tool_calls"),
        ("other", True, "tool_calls"),
        ("safety", True, "safety"),
        ("refusal", True, "refusal"),
        ("tool_calls", False, "stop"),
        ("length", False, "length"),
    ],
)
def test_str_06_the_calls_decide_the_reason(said: Any, with_call: bool, settled: Any) -> None:
    assembly = Assembly(DecodeContext())
    if with_call:
        assembly.add_call(name="f", arguments="{}")
    assert assembly.close(said, "raw", None)[-1] == Finish(settled, "raw")


json_values = st.recursive(
    st.none() | st.integers() | st.text(max_size=6) | st.sampled_from(['"', "\\", "}{", '\\"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=4), json_values), st.integers(1, 4), st.booleans())
def test_the_end_of_an_object_is_known_when_it_comes(
    value: dict[str, Any], size: int, ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    end = ObjectEnd()
    for at in range(0, len(text), size):
        assert not end.reached()
        end.add(text[at : at + size])
    assert end.reached()
    end.add(" ")
    assert end.reached()
    end.add("{")
    assert not end.reached()


@pytest.mark.parametrize("text", ["", " ", "[]", "1", '"{}"', "x{}", "{", '{"a":"}', '{"a":"\\"}'])
def test_other_text_is_no_object_that_ended(text: str) -> None:
    end = ObjectEnd()
    end.add(text)
    assert not end.reached()
