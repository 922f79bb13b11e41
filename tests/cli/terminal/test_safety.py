"""No output of a model, a tool or a server controls the terminal."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.cli.messages import one_line, sanitize

ANY_TEXT = st.text(st.characters(categories=None), max_size=60) | st.sampled_from([
    "\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x9b31m", "\x1b]8;;http://evil\x1b\\here", "a\rb", "\x08\x08", "\u202eevil",
])  # fmt: skip


@given(ANY_TEXT)
def test_no_control_character_but_line_feed_and_tab_is_left(text: str):
    left = {letter for letter in sanitize(text) if unicodedata.category(letter) in {"Cc", "Cs"}}
    assert left <= {"\n", "\t"}
    assert not {"\u202e", "\u2066", "\u2028"} & set(sanitize(text))


@given(ANY_TEXT)
def test_what_is_harmless_stays_as_it_is(text: str):
    assert sanitize(sanitize(text)) == sanitize(text)


@given(ANY_TEXT, ANY_TEXT)
def test_it_does_not_matter_where_a_text_is_cut(one: str, other: str):
    assert sanitize(one + other) == sanitize(one) + sanitize(other)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_words_in_any_script_are_not_touched(text: str):
    assert sanitize(text) == text


def test_what_was_taken_away_can_be_seen():
    assert sanitize("\x1b[2Jgone\x07") == "␛[2Jgone␇"
    assert one_line(" a\n\tb\x1b ") == "a b␛"
