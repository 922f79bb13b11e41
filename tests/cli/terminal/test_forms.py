"""Forms accept what their schema allows, and only that."""

from typing import Any

import pytest

from multi_llm_chat.cli.terminal.questions import fields_of

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "default": "Ann"},
        "age": {"type": "integer", "minimum": 0},
        "share": {"type": "number", "maximum": 1},
        "fine": {"type": "boolean", "default": True},
        "size": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"], "default": "l"},
        "day": {"type": "string", "oneOf": [{"const": "mon", "title": "Monday"}, {"const": "tue"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "default": ["a", "b"]},
        "date": {"type": "string", "format": "date"},
    },
    "required": ["name", "age"],
}  # fmt: skip
FIELDS = {field.name: field for field in fields_of(SCHEMA)}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("name", " Bob ", "Bob"),
        ("age", "41", 41),
        ("share", "0.5", 0.5),
        ("fine", "YES", True),
        ("fine", "n", False),
        ("size", "large", "l"),
        ("size", "s", "s"),
        ("day", "monday", "mon"),
        ("day", "tue", "tue"),
        ("tags", "b, a", ["b", "a"]),
        ("date", "2026-11-15", "2026-11-15"),
        ("date", "", None),
    ],
)
def test_what_fits_is_taken(name: str, text: str, value: Any):
    assert FIELDS[name].read(text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("name", ""),
        ("name", "x"),
        ("age", "-1"),
        ("age", "1.5"),
        ("age", "true"),
        ("age", "old"),
        ("share", "2"),
        ("share", "NaN"),
        ("fine", "maybe"),
        ("size", "medium"),
        ("tags", "c"),
        ("tags", ","),
        ("date", "tomorrow"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(name: str, text: str):
    with pytest.raises(ValueError, match=r"\w+"):
        FIELDS[name].read(text)


def test_defaults_and_choices_are_shown():
    assert [FIELDS[name].default for name in ("name", "age", "fine", "size", "tags")] == [
        "Ann", "", "yes", "Large", "a, b",
    ]  # fmt: skip
    assert FIELDS["size"].hint == "one of: Small, Large · may be left empty"
    assert FIELDS["fine"].hint == "yes or no · may be left empty"
    assert FIELDS["age"].hint == "required"


def test_a_form_without_fields_has_none():
    assert fields_of({}) == []
    assert fields_of({"properties": {"x": True}})[0].read("anything") == "anything"
