"""Answers on a real terminal."""

import re

from inline_snapshot import snapshot
from tests.cli.terminal.screens import Terminal


def test_an_answer_with_tools_and_wide_text_stays_as_it_was_written():
    with Terminal("answer", columns=60) as terminal:
        shown = terminal.finish()
    assert COLOURS.search(terminal.raw)
    shown = re.sub(r"(thought for|·) \d\.\d s", r"\1 0.0 s", shown)
    assert shown == snapshot("""\
claude claude-model
✻ thought for 0.0 s
Let me look.

✓ read_file path="notes.txt" limit=3  2 s
    line 0
    line 1
    line 2
    line 3
    … 5 more lines
✗ search query="傘"  0.2 s
    no index

天気について

東京の天気は晴れです。日本語の長い文が、画面の右端で正しく折
り返されることを確かめます。

  1 Look at the sky
  2 Take an umbrella
     • or two

python ─────────────────────────────────────────────────────
def rain(mm: float) -> bool:
    return mm > 0.1  # 雨
────────────────────────────────────────────────────────────

 city    °C
 ──────────
 東京    21
 Berlin   9

▌ Done.

! The answer was cut off: it reached the limit of its
length.

1,200 in (1,000 cached) · 340 out · 0.0 s · $0.0123\
""")


def test_a_narrow_window_cuts_nothing_off():
    with Terminal("answer", columns=30) as terminal:
        shown = terminal.finish()
    assert "東京の天気は晴れです。日本語の" in shown.replace("\n", "")
    assert "確かめます。" in shown
    assert all(word in shown for word in ("umbrella", "Berlin", "def rain", "雨", "Done."))


def test_of_several_speakers_the_first_streams_and_the_others_follow_in_order():
    with Terminal("several") as terminal:
        terminal.wait_for("claude speaks", "gemini writing", "mistral done")
        assert "gemini speaks" not in terminal.text()
        terminal.send("\n")
        terminal.wait_for("gemini done")
        assert "gemini speaks" not in terminal.text()
        terminal.send("\n")
        rows = terminal.finish().split("\n")
    order = [
        "claude",
        "claude speaks",
        "gemini",
        "gemini speaks",
        "mistral",
        "✗ Too many requests.",
    ]
    assert [row for row in rows if row in order] == order
    assert "  Wait 12 s, then /retry, or ask another speaker." in rows


def test_on_a_wide_window_speakers_may_stand_side_by_side():
    with Terminal("several", "3", columns=130) as terminal:
        terminal.wait_until(lambda text: bool(re.search("claude speaks +gemini speaks", text)))
        terminal.send("\n\n")
        shown = terminal.finish()
    assert re.search(r"^claude +gemini +mistral$", shown, re.MULTILINE)
    assert len(re.findall("gemini speaks", shown)) == 1


def test_a_window_that_is_too_narrow_has_no_columns():
    with Terminal("several", "3", columns=100) as terminal:
        terminal.send("\n\n")
        assert "claude speaks\n" in terminal.finish()


def test_a_resized_window_shows_every_word_once():
    sizes = [(50, 24), (100, 24), (70, 30), (40, 30), (90, 30), (60, 30)]
    with Terminal("resized", columns=80) as terminal:
        for number, (columns, rows) in enumerate(sizes):
            terminal.wait_for(f"item {number}", "writing")
            terminal.resize(columns, rows)
            terminal.send("\n")
        shown = terminal.finish()
    for number in range(6):
        # The emulator, not our code, cut off the text from before the window became narrower.
        assert len(re.findall(rf"p{number}w0\b", shown)) == 1
        assert len(re.findall(rf"item {number} end", shown)) == 1
    assert "writing" not in shown


def test_ten_thousand_lines_are_all_there():
    with Terminal("long", columns=40, rows=12) as terminal:
        rows = terminal.finish().split("\n")
    assert rows[1:10_001] == [f"{number} 行" for number in range(10_000)]


def test_a_model_cannot_reach_the_terminal():
    with Terminal("hostile") as terminal:
        shown = terminal.finish()
        assert terminal.screen.title == ""
    assert shown.startswith("␛]0;owned␇evil ␛[2J")
    assert "✓ ␛[Hrun" in shown
    assert "␛[2J␛[H❯ fake␈␈" in shown
    allowed = rb"\x1b\[[0-9;]*m|\x1b\[\?(?:2026|25|7)[hl]|\x1b\[\d+A|\x1b\[J"
    assert b"\x1b" not in re.sub(allowed, b"", terminal.raw)
    assert not {b"\x07", b"\x08", b"\x9b"} & {bytes([code]) for code in terminal.raw if code < 32}


def test_the_first_interrupt_stops_and_the_second_leaves():
    with Terminal("stopping") as terminal:
        terminal.wait_for("the first words")
        terminal.send("\x03")
        terminal.wait_for("! asked to stop")
        terminal.send("\x03")
        shown = terminal.finish()
        assert "! asked to leave" in shown
        assert "the first words\n\n! Stopped. What was said so far is kept." in shown
        assert "^C" not in shown
        assert not terminal.screen.cursor.hidden


COLOURS = re.compile(rb"\x1b\[[0-9;]*3[0-9]m")


def test_colours_can_be_refused():
    with Terminal("answer", NO_COLOR="1") as terminal:
        assert "東京の天気は晴れです" in terminal.finish()
    assert not COLOURS.search(terminal.raw)
    assert b"\x1b[?25l" in terminal.raw


def test_a_terminal_that_can_do_nothing_gets_text():
    with Terminal("answer", TERM="dumb") as terminal:
        assert "東京の天気は**晴れ**です" in terminal.finish()
    assert b"\x1b" not in terminal.raw
