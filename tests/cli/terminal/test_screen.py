"""Permanent and temporary lines, on an emulated terminal of changing size."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyte import HistoryScreen, Stream
from tests.cli.terminal.screens import all_rows

from multi_llm_chat.cli.terminal.screen import PLAIN, Capabilities, Screen, capabilities_of

LINES = st.lists(st.text("ab 日本é", max_size=10).map(str.rstrip), max_size=6)
FRAMES = st.lists(
    st.tuples(LINES, st.lists(st.sampled_from(["passing", "p" * 200, "日" * 50, ""]), max_size=9)),
    max_size=12,
)
LIVE = Capabilities(live=True, colour=True)


class Window(io.StringIO):
    """A window that shows what is written to it."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.emulated = HistoryScreen(columns, rows, history=1000)
        self._stream = Stream(self.emulated)

    def write(self, text: str) -> int:
        self._stream.feed(text.replace("\n", "\r\n"))
        return len(text)

    def size(self) -> tuple[int, int]:
        return self.emulated.columns, self.emulated.lines


def trimmed(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


@given(FRAMES, st.integers(20, 60), st.integers(4, 12))
def test_what_stays_is_there_once_and_what_passes_is_gone(
    frames: list[tuple[list[str], list[str]]], columns: int, rows: int
):
    window = Window(columns, rows)
    screen = Screen(window, LIVE, window.size)
    for lines, passing in frames:
        screen.add(lines, passing)
    screen.clear()
    assert all_rows(window.emulated) == trimmed([line for lines, _ in frames for line in lines])
    assert not window.emulated.cursor.hidden


@given(FRAMES, st.lists(st.integers(40, 90), min_size=12, max_size=12))
def test_a_window_may_change_its_width_at_any_time(
    frames: list[tuple[list[str], list[str]]], widths: list[int]
):
    window = Window(80, 10)
    screen = Screen(window, LIVE, window.size)
    for (lines, passing), width in zip(frames, widths, strict=False):
        screen.add(lines, passing)
        window.emulated.resize(10, width)
    screen.clear()
    assert all_rows(window.emulated) == trimmed([line for lines, _ in frames for line in lines])


def test_a_frame_like_the_last_one_is_not_written_again():
    output = io.StringIO()
    screen = Screen(output, LIVE, lambda: (80, 24))
    screen.add((), ["waiting"])
    written = output.getvalue()
    screen.add((), ["waiting"])
    assert output.getvalue() == written


@pytest.mark.parametrize("able", [PLAIN, Capabilities(live=False, colour=True)])
def test_nothing_passes_where_nothing_can_be_erased(able: Capabilities):
    output = io.StringIO()
    screen = Screen(output, able)
    screen.add(["stays"], ["passes"])
    screen.clear()
    assert output.getvalue() == "stays\n"


class Teletype(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("output", "plain", "environment", "able"),
    [
        (Teletype(), False, {"TERM": "xterm"}, LIVE),
        (Teletype(), False, {"TERM": "xterm", "NO_COLOR": "1"}, Capabilities(live=True, colour=False)),
        (Teletype(), False, {"TERM": "dumb", "FORCE_COLOR": "1"}, PLAIN),
        (Teletype(), True, {"TERM": "xterm"}, PLAIN),
        (io.StringIO(), False, {"TERM": "xterm"}, PLAIN),
        (io.StringIO(), False, {"FORCE_COLOR": "1"}, Capabilities(live=False, colour=True)),
        (io.StringIO(), False, {"FORCE_COLOR": "0"}, PLAIN),
        (io.StringIO(), False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, PLAIN),
    ],
)  # fmt: skip
def test_capabilities_come_from_the_output_and_the_environment(
    output: io.StringIO, plain: bool, environment: dict[str, str], able: Capabilities
):
    assert capabilities_of(output, plain=plain, environment=environment) == able
