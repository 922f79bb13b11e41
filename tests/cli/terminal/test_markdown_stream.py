"""Markdown that arrives in pieces is finally shown as if it had arrived at once."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from multi_llm_chat.cli.terminal.markdown import MarkdownStream, whole
from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.screen import PLAIN, Capabilities

COLOURED = Renderer(Capabilities(live=True, colour=True))
UNCOLOURED = Renderer(PLAIN)

PIECES = [
    "# Title", "## 見出し", "- one", "- two", "  - nested", "   deep", "1. first", "2. second", "10) tenth", "* star",
    "```python", "```", "~~~", "````", "    indented", "def f(x): return x", "| a | b |", "|---|--:|", "| 1 | 2 |",
    "> quote", "> > deeper", "lazy", "---", "===", "***", "日本語の長い文です。折り返しが正しいか。", "word", "a **b** _c_ `d`",
    "[link](http://a.b)", "[foo]", "[foo]: http://later", "![pic](http://p.q)", "<div>", "</div>", "&amp;", "\\*",
    "", "", "", " ", "\t", "\x1b[31m", "é", "👩‍👩‍👧", "> - > - > - > - > - > - deep", "a" * 150,
    "<http://auto.link>", "&#27;[31m", "&#13;&#8238;&#x9b;2J", "`&#27;`",
]  # fmt: skip
LINES = st.lists(st.sampled_from(PIECES) | st.text(max_size=12), max_size=14)
TEXTS = LINES.map("\n".join) | st.text(max_size=80)
WIDTHS = st.integers(20, 100)


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[begin:end] for begin, end in zip([0, *places], [*places, len(text)], strict=True)]


@given(st.data(), TEXTS, WIDTHS)
@example(None, "para\n#x", 40)
@example(None, "para\n-\n- x", 40)
@example(None, "para\n```x`\n", 40)
@example(None, "| a | b |\n| - | - |\n| c | d |\ntext", 40)
def test_any_pieces_give_what_the_whole_text_gives(
    data: st.DataObject | None, text: str, width: int
):
    pieces = list(text) if data is None else data.draw(cuts(text))
    looks = [True] * len(pieces) if data is None else [data.draw(st.booleans()) for _ in pieces]
    stream, lines = MarkdownStream(COLOURED), list[str]()
    for piece, look in zip(pieces, looks, strict=True):
        stream.feed(piece)
        if look:
            lines += stream.finished(width)
            stream.tail(width, 5)
    lines += stream.finished(width) + stream.rest(width)
    assert lines == whole(COLOURED, text, width)


@given(TEXTS, WIDTHS)
def test_what_is_drawn_before_the_end_are_the_last_lines_of_the_text_so_far(text: str, width: int):
    stream = MarkdownStream(COLOURED)
    stream.feed(text)
    lines = stream.finished(width)
    lines += stream.tail(width, 1000)
    assert lines == whole(COLOURED, text, width)


@given(TEXTS, WIDTHS)
def test_no_line_is_wider_than_the_window(text: str, width: int):
    assert all(cell_len(line) <= width for line in whole(UNCOLOURED, text, width))


@given(LINES, st.integers(20, 100))
def test_no_word_is_lost(lines: list[str], width: int):
    words = {f"w{number}w" for number in range(len(lines))}
    text = "\n".join(f"{line} w{number}w" for number, line in enumerate(lines))
    shown = re.sub(r"[\s▌•│]+", "", "".join(whole(UNCOLOURED, text, width)))
    for word in words:
        assert word in shown


@given(TEXTS)
def test_the_only_escape_codes_are_our_own_colours(text: str):
    shown = "\n".join(whole(COLOURED, text, 60))
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", shown)
    plain = "\n".join(whole(UNCOLOURED, text, 60))
    assert not {"\x1b", "\r", "\x9b", "\x07", "\x08", "\u202e"} & set(plain)


def test_a_finished_block_is_given_out_while_the_next_one_is_written():
    stream = MarkdownStream(UNCOLOURED)
    stream.feed("# One\n\nTwo be")
    assert stream.finished(40) == []
    assert stream.tail(40, 9) == ["One", "", "Two be"]
    stream.feed("gins\n\nThree\n")
    assert stream.finished(40) == ["One", "", "Two begins"]
    assert stream.finished(40) == []
    assert stream.tail(40, 9) == ["", "Three"]
    assert stream.rest(40) == ["", "Three"]


def test_long_code_shows_its_newest_lines_until_it_ends():
    stream = MarkdownStream(UNCOLOURED)
    stream.feed("```python\n" + "".join(f"x = {number}\n" for number in range(5000)))
    assert stream.finished(30) == []
    assert stream.tail(30, 4)[:3] == ["x = 4997", "x = 4998", "x = 4999"]
    stream.feed("```\nafter\n")
    lines = stream.finished(30)
    assert len(lines) == 5002
    assert lines[1] == "x = 0"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b>bold</b> <script>", ["a <b>bold</b> <script>"]),
        ("see [here](http://evil.example)", ["see here (http://evil.example)"]),
        ("<http://a.b/c>", ["http://a.b/c"]),
        ("a&#8238;b&#13;", ["ab"]),
        ("one\ntwo", ["one", "two"]),
        ("ends \x1b]0;title\x07", ["ends ␛]0;title␇"]),
    ],
)
def test_nothing_is_hidden(text: str, shown: list[str]):
    assert whole(UNCOLOURED, text, 60) == shown
