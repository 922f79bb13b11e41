"""Whatever a tool returns becomes the content of a result."""

import dataclasses
import enum
from datetime import date
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.history.reader import split_result
from multi_llm_chat.history.values import Media, Text
from multi_llm_chat.tools.tool_output import MEDIA_LIMIT, NOTHING, content_of, cut

PICTURE = b"\x89PNG\r\n\x1a\n1234"
AS_MEDIA = {"type": "media", "mime": "image/png", "data": "iVBORw0KGgoxMjM0"}


@dataclasses.dataclass
class Row:
    number: int


class Record(msgspec.Struct):
    row: Row


class Model(pydantic.BaseModel):
    word: str


class Level(enum.Enum):
    HIGH = "high"


class Odd:
    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", "text"),
        ("", ""),
        (None, NOTHING),
        (5, 5),
        ({"a": [1, None]}, {"a": [1, None]}),
        (Row(1), {"number": 1}),
        (Record(Row(2)), {"row": {"number": 2}}),
        ([Record(Row(2))], [{"row": {"number": 2}}]),
        (Model(word="hi"), {"word": "hi"}),
        ({"model": Model(word="hi")}, {"model": {"word": "hi"}}),
        (Level.HIGH, "high"),
        ({1: "one"}, {"1": "one"}),
        ({"when": date(2026, 1, 2)}, {"when": "2026-01-02"}),
        (Odd(), "odd"),
        ({"odd": Odd()}, {"odd": "odd"}),
        (float("nan"), "nan"),
        ("a\0b\ud800", "ab\ufffd"),
        (b"plain", "plain"),
        (b"\xff\xfe\x00", "[3 bytes that are neither text nor a known kind of picture]"),
        (PICTURE, [AS_MEDIA]),
        (Media("image/png", "iVBORw0KGgoxMjM0"), [AS_MEDIA]),
        (["see:", PICTURE, {"a": 1}], [
            {"type": "text", "content": "see:"}, AS_MEDIA, {"type": "text", "content": '{"a":1}'},
        ]),
        ([Text("one"), "two"], "one\ntwo"),
    ],
)  # fmt: skip
def test_values_become_content(value: Any, content: Any) -> None:
    assert content_of(value, 1_000) == content


def test_a_value_that_contains_itself_still_becomes_something() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert content_of(endless, 100) is not None


def test_a_long_text_keeps_its_beginning_and_end_and_a_mark_between() -> None:
    text = "a" * 500 + "b" * 10_000 + "c" * 500
    short = content_of(text, 400)
    assert short.startswith("a" * 300)
    assert short.endswith("c" * 100)
    assert "10,600 of 11,000 characters are left out here" in short


def test_long_json_becomes_a_cut_text() -> None:
    short = content_of({"rows": list(range(10_000))}, 200)
    assert isinstance(short, str)
    assert "are left out here" in short


def test_media_that_are_too_large_are_replaced_by_a_line() -> None:
    assert content_of(Media("image/png", "A" * (MEDIA_LIMIT + 1)), 1_000) == (
        "[image/png left out: it is too large, 20,000,001 characters]"
    )


@given(
    st.lists(st.text(max_size=50) | st.just(PICTURE) | st.builds(Text, st.text()), max_size=8),
    st.integers(10, 200),
)
def test_no_mixture_exceeds_the_limit_by_more_than_its_marks(values: list[Any], limit: int) -> None:
    text, _ = split_result(content_of(values, limit))
    assert len(text) <= limit + 150 + 200 * len(values)


@given(st.text(), st.integers(1, 100))
def test_what_fits_is_not_touched(text: str, limit: int) -> None:
    assert (cut(text, limit) == text) == (len(text) <= limit)
