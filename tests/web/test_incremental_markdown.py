"""Markdown rendered in pieces equals Markdown rendered at once."""

from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.web.markdown import IncrementalMarkdown, render_markdown

#: Starts, ends and insides of all constructs.
PIECES = [
    "\n", "\n\n", " ", "    ", "\t", "# ", "##", "- ", "-", "* ", "1.", "2. ", "1", "> ", ">", "```", "```python\n", "~~~", "`",
    "|", "|a|b|\n|-|-:|\n", "|-|", "---", "***", "===", "**", "*", "_", "~~", "[x]", "- [ ] ", "[a](http://b)", "[a]: /b", "![i](http://j/k.png)",
    "$$", "$", "$x^2$", "\\[", "\\]", "\\(", "\\)", "\\frac{1}{2}", "<b>", "<!--", "&amp;", "\\", "\r", "\r\n", "\x00", "日本語", "words and words", "a", "def f(): pass\n", ":", "+ ",
]  # fmt: skip

TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=30).map("".join)


@given(TEXTS, st.data())
def test_pieces_render_as_the_whole(text: str, data: st.DataObject):
    markdown = IncrementalMarkdown()
    whole = render_markdown(text)
    rest = text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        markdown.feed(rest[:size])
        rest = rest[size:]
        assert whole.startswith(markdown.html.final)
    assert markdown.finish() == whole


@given(TEXTS)
def test_single_characters_render_as_the_whole(text: str):
    markdown = IncrementalMarkdown()
    shown = ""
    for letter in text:
        shown += markdown.feed(letter).final
    assert shown == markdown.html.final
    assert markdown.finish() == render_markdown(text)


def test_a_paragraph_is_final_when_the_next_block_has_begun():
    markdown = IncrementalMarkdown()
    assert markdown.feed("One.\n\nTw").final == ""
    assert markdown.feed("o.\n").final == "<p>One.</p>\n"
    assert markdown.html.tail == "<p>Two.</p>\n"


def test_a_loose_list_stays_one_list():
    markdown = IncrementalMarkdown()
    for piece in ("1. a\n\n", "2", ". b\n"):
        markdown.feed(piece)
    assert markdown.finish().count("<ol>") == 1


#: Mostly words, with characters that may change the meaning of earlier words.
WORDS = st.lists(
    st.sampled_from(
        [
            "word",
            "W1",
            "2",
            " ",
            "  ",
            ", ",
            ".",
            "!",
            "? ",
            "é",
            "日本",
            "²",
            "\u00a0",
            ";",
            "&am",
            "p",
            "**bold** ",
            "**two words**, ",
            "`code` ",
            " `f(a_b)` and ",
            "** ",
            "` ",
            "don't ",
            '("so"): ',
            "a-b/c = d; ",
            "“x” – y…",
            "*it* ",
            "a_b ",
            "_it_",
            "(x)",
            "!",
            "[",
            "<http://a.b>",
            "a < b ",
            "~~no~~.",
            ".\n\n",
            " \n \nNext ",
            "\n\n    code",
            "end.\n\n- item",
            "<b>",
            "<script>",
            "x <i>**y**</i> ",
        ]
    )
    | st.sampled_from(PIECES)
    | st.text(max_size=2),
    min_size=1,
    max_size=3,
).map("".join)
PROSE = st.lists(WORDS, min_size=1, max_size=25)


@given(PROSE)
def test_plain_words_are_shown_as_a_new_rendering_shows_them(pieces: list[str]):
    """The open end equals that of a text that was not shown before."""
    markdown = IncrementalMarkdown()
    for number, piece in enumerate(pieces, start=1):
        before = markdown.html.tail
        shown = markdown.feed(piece)
        if shown.grown is not None:
            assert shown.tail == before.removesuffix("</p>\n") + shown.grown + "</p>\n"
            assert not shown.final
        fresh = IncrementalMarkdown()
        fresh.feed("".join(pieces[:number]))
        assert markdown.html.final + shown.tail == fresh.html.final + fresh.html.tail
