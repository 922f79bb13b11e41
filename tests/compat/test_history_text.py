"""A history as plain text: the first seed system's functions."""

from typing import Any

import pytest

from multi_llm_chat import UsageError
from multi_llm_chat.compat.history_text import (
    content_to_text,
    history_contains_tools,
    normalize_history_turns,
    validate_history_entry,
)

#: Seed 002's exact example: the call has no id.
CONTENT = [
    {"type": "text", "content": "Let me search."},
    {"type": "tool_call", "content": {"name": "search", "arguments": {"query": "python"}}},
    {"type": "text", "content": "Here are the results."},
]


def test_words_alone():
    assert (
        content_to_text(CONTENT, include_tool_data=False) == "Let me search. Here are the results."
    )
    assert content_to_text(CONTENT) == "Let me search. Here are the results."


def test_words_and_tool_data_in_the_order_of_the_parts():
    text = content_to_text(CONTENT, include_tool_data=True)
    assert text == 'Let me search. search {"query":"python"} Here are the results.'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("hi", "hi"),
        ("", ""),
        (None, ""),
        ([], ""),
        (["a", None, 3, {"type": "odd"}, {}, "b"], 'a null 3 {"type":"odd"} {} b'),
        (["a", "", "b"], "a b"),
        ({"type": "text", "content": "hi"}, "hi"),
        ([{"type": "tool_call", "name": "f", "arguments": {"都市": "東京"}}], 'f {"都市":"東京"}'),
        ([{"type": "tool_result", "name": "f", "content": {"t": 25}}], 'f {"t":25}'),
        ([{"type": "tool_result", "name": "f", "content": "25°C"}], "f 25°C"),
        ([{"type": "tool_result", "name": "f", "content": float("nan")}], 'f "nan"'),
        (
            [
                {"type": "thinking", "content": "hm"},
                {"type": "media", "mime": "image/png", "data": "AAAA"},
            ],
            "",
        ),
    ],
)
def test_each_kind_of_content(content: Any, text: str):
    assert content_to_text(content, include_tool_data=True) == text


def test_an_element_that_is_no_part_hides_no_word():
    assert content_to_text(["a", None, 3, {"type": "odd"}, "b"]) == "a b"


def test_other_content_is_an_error_in_the_seeds_words():
    with pytest.raises(ValueError, match="actual type") as caught:
        content_to_text({"text": "bad"})
    assert str(caught.value) == "History content must be a list or string (actual type: dict)"


def test_whether_a_history_contains_tools():
    assert not history_contains_tools([])
    assert not history_contains_tools([{"role": "user", "content": "tool_call"}])
    assert history_contains_tools([{"role": "gemini", "content": CONTENT}])
    assert history_contains_tools([{"role": "tool", "content": "ok"}])


def test_an_entry_is_returned_in_its_strict_form():
    assert validate_history_entry({"role": "user", "content": "hi"}) == {
        "role": "user",
        "content": [{"type": "text", "content": "hi"}],
    }


@pytest.mark.parametrize("entry", [None, "hi", 7, ["x"]])
def test_an_entry_is_a_dict(entry: Any):
    with pytest.raises(UsageError, match=f"actual type: {type(entry).__name__}"):
        validate_history_entry(entry)


def test_turns_stay_aligned_with_the_input():
    written = normalize_history_turns(
        ["x", {"role": "user", "content": ""}, {"role": "model", "content": "y"}]
    )
    assert [turn["role"] for turn in written] == ["system", "user", "model"]
    assert written[1]["content"] == []


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"role": "user"}, r"list or string \(actual type: NoneType\)"),
        ({"role": "user", "content": None}, r"list or string \(actual type: NoneType\)"),
        ({"role": "user", "content": {"text": "bad"}}, r"list or string \(actual type: dict\)"),
        ({"role": "user", "content": {"type": "text", "content": "x"}}, r"\(actual type: dict\)"),
        ({"role": "tool", "content": []}, "empty"),
        ({"role": "tool", "content": [{"type": "text", "content": "x"}]}, "results only"),
        ({"role": "tool", "content": ["x"]}, "results only"),
        ({"role": "tool", "content": [{"type": "tool_result", "content": "x"}]}, "tool_call_id"),
        ({"content": "x"}, "role"),
    ],
)
def test_the_validator_is_strict(entry: dict[str, Any], why: str):
    with pytest.raises(ValueError, match=why):
        validate_history_entry(entry)


def test_the_validator_takes_what_is_right():
    result = {"type": "tool_result", "name": "f", "content": "OK", "tool_call_id": "call_123"}
    assert validate_history_entry({"role": "tool", "content": [result]})["content"] == [result]
    assert validate_history_entry({"role": "tool", "content": "an old file's result"})
    assert validate_history_entry({"role": "anyone", "content": []}) == {
        "role": "anyone",
        "content": [],
    }


def test_an_unreadable_entry_is_named_by_its_index(caplog: pytest.LogCaptureFixture):
    normalize_history_turns(
        [{"role": "user", "content": "a"}, "b", {"role": "user", "content": "c"}, 7]
    )
    messages = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert ["index 1" in messages[0], "index 3" in messages[1], len(messages)] == [True, True, 2]
