"""Markdown that comes in pieces looks as if it had come at once."""

from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.web.markdown import Growing, render_markdown

#: Beginnings, ends and insides of everything that has a meaning.
PIECES = [
    "\n", "\n\n", " ", "    ", "\t", "# ", "##", "- ", "-", "* ", "1.", "2. ", "1", "> ", ">", "```", "```python\n", "~~~", "`",
    "|", "|a|b|\n|-|-:|\n", "|-|", "---", "***", "===", "**", "*", "_", "~~", "[x]", "- [ ] ", "[a](http://b)", "[a]: /b", "![i](http://j/k.png)",
    "$$", "$", "$x^2$", "\\[", "\\]", "\\(", "\\)", "\\frac{1}{2}", "<b>", "<!--", "&amp;", "\\", "\r", "\r\n", "\x00", "日本語", "words and words", "a", "def f(): pass\n", ":", "+ ",
]  # fmt: skip

TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=30).map("".join)


@given(TEXTS, st.data())
def test_text_in_pieces_becomes_what_the_whole_becomes(text: str, data: st.DataObject):
    growing = Growing()
    whole = render_markdown(text)
    rest = text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        growing.add(rest[:size])
        rest = rest[size:]
        assert whole.startswith(growing.html.final)
    assert growing.finish() == whole


@given(TEXTS)
def test_text_that_comes_letter_by_letter_becomes_what_the_whole_becomes(text: str):
    growing = Growing()
    shown = ""
    for letter in text:
        shown += growing.add(letter).final
    assert shown == growing.html.final
    assert growing.finish() == render_markdown(text)


def test_a_paragraph_is_final_when_the_next_block_has_begun():
    growing = Growing()
    assert growing.add("One.\n\nTw").final == ""
    assert growing.add("o.\n").final == "<p>One.</p>\n"
    assert growing.html.tail == "<p>Two.</p>\n"


def test_numbers_of_a_loose_list_do_not_tear_it_apart():
    growing = Growing()
    for piece in ("1. a\n\n", "2", ". b\n"):
        growing.add(piece)
    assert growing.finish().count("<ol>") == 1
