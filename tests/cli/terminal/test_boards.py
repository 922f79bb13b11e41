"""Boards without a terminal: output for pipes and files, and the texts around the answers."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any, TextIO

import pytest

from multi_llm_chat.agent.window.compression_notes import CompressionNote, Cut
from multi_llm_chat.cli.terminal import AnswerSummary, Board, open_board
from multi_llm_chat.cli.terminal.board import AnswerBoard
from multi_llm_chat.cli.terminal.screen import Capabilities, Screen
from multi_llm_chat.cli.terminal.words import (
    argument_lines,
    arguments_text,
    cost_text,
    error_lines,
    result_lines,
    seconds_text,
    usage_text,
)
from multi_llm_chat.errors import AuthError, ContextTooLong, RateLimited, UsageError
from multi_llm_chat.events import (
    Finish,
    HistoryCompressed,
    RunPaused,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    Usage,
)
from multi_llm_chat.history.values import Media, Text, ToolCall, ToolResult, Turn

LIVE = Capabilities(live=True, colour=True)
CALL = ToolCall("look", {"at": "空"}, "c1")
EVENTS = [
    ThinkingDelta("hm"),
    TextDelta("Let me see."),
    ToolCallStart(0, "c1", "look"),
    ToolCallDelta(0, "{}"),
    ToolCallEnd(0, CALL),
    Usage(10, 2),
    Finish("tool_calls"),
    TurnFinished(Turn("claude")),
    ToolStarted(CALL),
    ToolFinished(CALL, ToolResult("look", {"sky": "青い"}, "c1"), 0.3),
    RunPaused(()),
    TextDelta("It is *blue*\x1b[31m."),
    Usage(20, 3, 10),
    Finish("length"),
]


def written(make: Callable[[Board], object], **settings: Any) -> tuple[str, str]:
    output, notes = io.StringIO(), io.StringIO()
    with open_board(output, notes, **settings) as board:
        make(board)
    return output.getvalue(), notes.getvalue()


def one_answer(board: Board) -> None:
    board.begin("claude", "model")
    for event in EVENTS:
        board.event("claude", event)
    board.end("claude", AnswerSummary(cost=Decimal("0.5")))


def test_a_pipe_gets_the_words_and_nothing_else():
    output, notes = written(one_answer, environment={}, headers=False)
    assert output == "Let me see.\nIt is *blue*␛[31m.\n"
    assert notes.startswith(
        '(ran look at="空", 0.3 s)\n    {"sky": "青い"}\nThe answer was cut off'
    )
    assert "claude: 30 in (10 cached) · 5 out · " in notes
    assert notes.endswith("$0.5000\n")


def test_forced_colours_give_markdown_in_finished_blocks():
    output, notes = written(one_answer, environment={"FORCE_COLOR": "1"})
    assert notes == ""
    assert "\x1b[1;33mclaude" in output
    assert "It is \x1b[3mblue\x1b[0m␛[31m." in output
    assert "\x1b[?" not in output
    assert output.count("look") == 1


def test_in_text_too_speakers_come_in_the_order_they_were_asked():
    def make(board: Board) -> None:
        board.begin("a")
        board.begin("b")
        board.event("b", TextDelta("second"))
        board.end("b")
        board.event("a", TextDelta("first\n"))
        board.fail("a", AuthError("No key."))

    output, notes = written(make, environment={})
    assert output == "a:\nfirst\nb:\nsecond\n"
    assert "a: No key.\na: Check the key" in notes


def test_an_answer_that_was_interrupted_says_so_and_begins_anew():
    def make(board: Board) -> None:
        board.begin("a")
        board.event("a", TextDelta("half a"))
        board.resume("a")
        board.event("a", TextDelta("The whole answer."))
        board.end("a")

    for environment in ({}, {"FORCE_COLOR": "1"}):
        output, notes = written(make, environment=environment)
        assert "The answer was interrupted and begins anew." in output + notes
        assert (output + notes).count("The whole answer.") == 1
    assert "half a" not in output


def test_a_hint_after_a_single_question_names_no_command_of_a_conversation():
    for error in (RateLimited("Slow down."), RateLimited("Slow down.", retry_after=3), ContextTooLong("Too long.")):  # fmt: skip
        assert "/" in error_lines(error)[1]
        assert not re.search(r"(?<!mlc )/\w", error_lines(error, once=True)[1])


def test_what_was_not_ended_ends_as_stopped():
    def make(board: Board) -> None:
        board.begin("a")
        board.event("a", TextDelta("half"))
        board.notice("a notice")

    for environment in ({}, {"FORCE_COLOR": "1"}):
        output, notes = written(make, environment=environment)
        assert "half\n" in output
        assert "Stopped. What was said so far is kept." in output + notes
        assert "a notice" in output + notes


def test_a_call_id_may_be_used_again_in_a_later_round():
    def make(board: Board) -> None:
        board.begin("a")
        for result in ("one", "two"):
            board.event("a", ToolCallEnd(0, CALL))
            board.event("a", ToolFinished(CALL, ToolResult("look", result, "c1"), 1))

    output, _ = written(make, environment={"FORCE_COLOR": "1"})
    assert output.index("one") < output.index("two")


def test_columns_of_a_window_that_became_narrow_are_written_one_below_the_other():
    output, size = io.StringIO(), [(130, 24)]
    board = AnswerBoard(Screen(output, LIVE, lambda: size[-1]), columns=2)
    for speaker in ("a", "b"):
        board.begin(speaker)
        board.event(speaker, TextDelta(f"{speaker} says " + "word " * 30))
        board.end(speaker)
    size.append((70, 24))
    board.close()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", output.getvalue())
    assert all(len(line) <= 70 for line in shown.split("\n")[-8:])
    assert shown.rindex("a says") < shown.rindex("b says")


def test_a_shortened_history_and_a_pause_are_shown():
    note = CompressionNote(
        cut=Cut(), reason="window", tokens_before=9000, tokens_after=4000, budget=5000, fits=True,
        is_estimate=True, left_out=(0, 1), shortened=(), exchanges_gone=1,
    )  # fmt: skip

    def make(board: Board) -> None:
        board.begin("a")
        board.event("a", HistoryCompressed(note))
        board.event("a", RunPaused(()))

    for environment in ({}, {"FORCE_COLOR": "1"}):
        output, notes = written(make, environment=environment)
        assert "History shortened to fit the window" in output + notes


def pipe_board() -> tuple[AnswerBoard, TextIO, int]:
    reading, writing = os.pipe()
    output = os.fdopen(writing, "w", encoding="utf-8")
    return AnswerBoard(Screen(output, LIVE, lambda: (80, 24))), output, reading


def test_an_event_does_not_wait_for_a_terminal_that_was_halted():
    board, output, reading = pipe_board()
    board.begin("a")
    for number in range(6_000):  # more than a pipe's buffer holds
        board.event("a", TextDelta(f"paragraph {number}\n\n"))
    board.end("a")
    with ThreadPoolExecutor(1) as pool, os.fdopen(reading, encoding="utf-8") as source:
        everything = pool.submit(source.read)
        board.close()
        output.close()
        assert "paragraph 5999" in everything.result()


def test_a_terminal_that_is_gone_is_an_error_of_the_caller():
    board, output, reading = pipe_board()
    os.close(reading)
    board.begin("a")
    with pytest.raises(BrokenPipeError):
        board.close()
    with pytest.raises(BrokenPipeError):
        output.close()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (1.6, "2 s"), (75, "1 min 15 s"), (7300, "2 h 1 min")],
)
def test_durations_in_words(seconds: float, text: str):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("cost", "text"),
    [("0", "free"), ("0.00001", "<$0.0001"), ("0.0123", "$0.0123"), ("1234.5", "$1,234.50")],
)
def test_small_amounts_have_more_digits(cost: str, text: str):
    assert cost_text(Decimal(cost)) == text


def test_what_is_not_known_is_not_said():
    assert usage_text(None, None, None) == ""
    assert usage_text(Usage(), None, 2) == "2 s"
    assert usage_text(Usage(5, 9, thinking_tokens=4), None, None) == "5 in · 9 out (4 thinking)"


def test_arguments_are_short_on_a_card_and_whole_in_a_question():
    call = ToolCall("write", {"text": "a\nb", "list": [1, "x" * 90]}, "c")
    assert arguments_text(call) == 'text="a\\nb" list=[1, "' + "x" * 54 + "…"
    assert argument_lines(call) == ["text:", "  a", "  b", f'list: [1, "{"x" * 90}"]']
    broken = ToolCall("write", {}, "c", raw_arguments='{"a', error="not JSON")
    assert arguments_text(broken) == '{"a'
    assert argument_lines(broken) == ['{"a']


def test_results_are_cut_and_say_so():
    lines = "\n".join(map(str, range(9)))
    assert result_lines(ToolResult("t", lines)) == ["0", "1", "2", "3", "… 5 more lines"]
    assert result_lines(ToolResult("t", "0\n1\n2\n3\n4")) == ["0", "1", "2", "3", "4"]
    mixed = [Text("words"), Media("image/png", data="aGk=", name="sky.png"), "more"]
    assert result_lines(ToolResult("t", mixed)) == ["words", "[image/png sky.png]", "more"]


def test_errors_say_what_to_do():
    assert error_lines(RateLimited("Slow down.", retry_after=90))[1].startswith("Wait 1 min 30 s")
    assert error_lines(AuthError("No."))[1].startswith("Check the key")
    assert error_lines(UsageError("Say it so.")) == ["Say it so."]
    assert error_lines(KeyError()) == ["KeyError"]


LINES = {
    "text only": (
        "import io; from multi_llm_chat.cli.terminal import open_board; open_board(io.StringIO(), plain=True)",
        ["rich", "prompt_toolkit"],
    ),
    "prompt": (
        "from multi_llm_chat.cli.terminal import ChatPrompt, stopped_by_interrupt; ChatPrompt()",
        ["rich", "multi_llm_chat.http.async_transport", "multi_llm_chat.agent.providers"],
    ),
    "colours": (
        "import io; from multi_llm_chat.cli.terminal import open_board\n"
        "open_board(io.StringIO(), environment={'FORCE_COLOR': '1'}).close()",
        ["prompt_toolkit", "multi_llm_chat.http.async_transport"],
    ),
}


@pytest.mark.parametrize(("line", "heavy"), LINES.values(), ids=LINES.keys())
def test_heavy_libraries_are_loaded_only_where_they_are_used(line: str, heavy: list[str]):
    program = f"{line}\nimport sys\nprint(*[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == []
