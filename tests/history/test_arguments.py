"""The forms of a call's arguments, and how they are read."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from multi_llm_chat.history.arguments import (
    MAX_DEPTH,
    parse_arguments,
    split_arguments,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=5)


@pytest.mark.parametrize("nothing", [None, "", "  \n", b"", {}], ids=repr)
def test_nothing_is_a_call_without_arguments(nothing: object) -> None:
    assert parse_arguments(nothing) == ({}, None, None)


def test_an_object_passes_through() -> None:
    assert parse_arguments({"a": [1, None]}) == ({"a": [1, None]}, None, None)


def test_valid_text_is_kept_as_it_was_written() -> None:
    text = '{ "b": 1,\t"a" : "\\u3042" }'
    assert parse_arguments(text) == ({"b": 1, "a": "あ"}, text, None)
    assert parse_arguments(text.encode()) == ({"b": 1, "a": "あ"}, text, None)


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ('{"a":', "not valid JSON: Expecting value at character 5"),
        ('{"a":1}}', "not valid JSON: Extra data"),
        ("[1]", "must be a JSON object, not an array"),
        ('"{}"', "must be a JSON object, not a string"),
        ("null", "must be a JSON object, not null"),
        ("true", "must be a JSON object, not a boolean"),
        ("3.5", "must be a JSON object, not a number"),
        ('{"a":NaN}', "NaN is not allowed"),
        ('{"a":-Infinity}', "-Infinity is not allowed"),
        ('{"a":1e999}', "out of range"),
        ('{"a":' + "9" * 5000 + "}", "too many digits"),
        ('{"a":"\\ud800"}', "half of a surrogate pair"),
        ('{"\ud800":1}', "half of a surrogate pair"),
        ('{"a":1,"\ud800":{},"\ud800":2}', "half of a surrogate pair"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "nested too deeply"),
        ('{"a":' + "[" * 40_000, "nested too deeply"),
        ('{"a":[' + "1," * 60_000 + "1]}", "more than 50,000 JSON values"),
        ("hello", "not valid JSON"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_bad_text_is_kept_beside_its_error(raw: str, complaint: str) -> None:
    arguments, text, error = parse_arguments(raw)
    assert arguments == {}
    assert text == raw
    assert error is not None
    assert complaint in error


@pytest.mark.parametrize(
    ("raw", "text"),
    [([1, 2], "[1,2]"), (5, "5"), (False, "false"), (b"\xff{", "\ufffd{"), ({1}, "<set>")],
)
def test_other_values_are_errors_with_a_text(raw: object, text: str) -> None:
    arguments, kept, error = parse_arguments(raw)
    assert (arguments, kept) == ({}, text)
    assert error


def test_the_deepest_allowed_nesting_is_read() -> None:
    text = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
    assert parse_arguments(text)[2] is None


def test_a_broad_object_is_not_a_deep_one() -> None:
    text = json.dumps({"a": [{} for _ in range(MAX_DEPTH * 2)]})
    assert parse_arguments(text)[2] is None


def test_a_great_integer_keeps_its_digits() -> None:
    assert parse_arguments('{"a":123456789012345678901234567890}')[0] == {
        "a": 123456789012345678901234567890
    }


@settings(max_examples=200)
@given(st.lists(st.sampled_from([*'{}[]",: \n\t-+.eE01', "\\u", "d83d", "de00", "\\", "true", "null", "NaN", "é", "\ud800", "9" * 30,
                                 '{"a":', '"b"', "1e308", "1e309", "1e-999", "-0", "-0.0", "0.1"]), max_size=12).map("".join))  # fmt: skip
@example('{"a":-0.0,"b":9223372036854775808,"a":"\\ud83d\\ude00"}')
@example('{"a":"\\ude00"}')
def test_sound_text_is_read_as_the_thorough_way_reads_it(text: str) -> None:
    """Bytes always take the thorough path."""
    text = '{"a":' + text
    for each in (text, text + "}"):
        found = parse_arguments(each)
        try:
            thorough = parse_arguments(each.encode())
        except UnicodeEncodeError:
            assert found[2] is not None
        else:
            assert repr(found) == repr(thorough)


def test_a_text_of_another_type_is_read() -> None:
    class Words(str):
        __slots__ = ()

    assert parse_arguments(Words('{"a":1}')) == ({"a": 1}, '{"a":1}', None)


@given(json_objects)
def test_every_object_comes_back(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    arguments, kept, error = parse_arguments(text)
    assert (arguments, kept, error) == (value, text, None)


@given(st.text(st.characters()) | st.binary() | json_values)
def test_nothing_raises(raw: object) -> None:
    arguments, text, error = parse_arguments(raw)
    if error is None:
        assert text is None or parse_arguments(text) == (arguments, text, None)
    else:
        assert arguments == {}
        assert text is not None


@settings(max_examples=100)
@given(st.lists(json_objects, min_size=2, max_size=3), st.sampled_from(["", " ", "\n"]))
def test_objects_written_one_behind_the_other_are_parted(
    values: list[dict[str, Any]], between: str
) -> None:
    text = between.join(json.dumps(value) for value in values) + between
    assert [json.loads(piece) for piece in split_arguments(text)] == values


@given(st.text())
def test_parting_loses_nothing_but_the_space_between(text: str) -> None:
    pieces = split_arguments(text)
    assert pieces == [text] or "".join("".join(pieces).split()) == "".join(text.split())


@pytest.mark.parametrize("text", ['{"a":1}', '{"a":1}{"b":', '{"a":1}x', "", '{"a":1} [2]'])
def test_anything_else_stays_whole(text: str) -> None:
    assert split_arguments(text) == [text]


@pytest.mark.parametrize("text", ["[]", " [ ] "])
def test_an_empty_list_is_no_arguments(text: str) -> None:
    """PHP and R write an empty object like this (tidyverse/ellmer tests/testthat/_vcr/chat-tools-dangling.yml, accepted by OpenAI)."""
    assert parse_arguments(text) == ({}, None, None)
    assert parse_arguments("[1]")[2] is not None
