"""JSON that every parser accepts; a value that is already valid is returned unchanged."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies.histories import VALUES

from multi_llm_chat.history.json_values import TOO_DEEP, clean_json, clean_text, compact_json

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=200)
@given(value=PLAIN)
def test_a_clean_value_is_returned_unchanged(value: Any):
    assert clean_json(value) is value


@settings(max_examples=200)
@given(value=VALUES)
def test_every_value_becomes_json_and_stays_so(value: Any):
    cleaned = clean_json(value)
    json.dumps(cleaned, ensure_ascii=False, allow_nan=False).encode()
    assert clean_json(cleaned) == cleaned


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("a\0b", "ab"),
        ("a\ud800", "a\ufffd"),
        ("\udc00b", "\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ("é\0", "é"),
        ("", ""),
    ],
)
def test_text_without_halves_of_characters_and_without_nul(text: str, cleaned: str):
    assert clean_text(text) == cleaned


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        ({1: "a", None: "b"}, {"1": "a", "None": "b"}),
        ({"a\0": 1}, {"a": 1}),
        ((1, 2), [1, 2]),
        ({"k": {"x": math.nan}}, {"k": {"x": "nan"}}),
        (b"x", "b'x'"),
    ],
)
def test_other_values_become_json_as_far_as_possible(value: Any, cleaned: Any):
    assert clean_json(value) == cleaned


def test_nesting_is_bounded():
    value: Any = "bottom"
    for _ in range(500):
        value = [value]
    assert TOO_DEEP in json.dumps(clean_json(value))


def test_an_object_that_contains_itself_is_cut():
    value: dict[str, Any] = {}
    value["me"] = value
    assert TOO_DEEP in json.dumps(clean_json(value))


def test_compact_json_writes_characters_as_they_are():
    assert compact_json({"都市": ["東京", 1]}) == '{"都市":["東京",1]}'
