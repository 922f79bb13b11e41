"""Small programs that use the terminal as the command line does; a line on standard input is their cue to continue."""

import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from multi_llm_chat.cli import terminal
from multi_llm_chat.errors import RateLimited
from multi_llm_chat.events import (
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolFinished,
    ToolStarted,
    Usage,
)
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.tools.approval import ApprovalRequest
from multi_llm_chat.tools.mcp.server_messages import Elicitation

WEATHER = """# 天気について

東京の天気は**晴れ**です。日本語の長い文が、画面の右端で正しく折り返されることを確かめます。

1. Look at the `sky`
2. Take an umbrella
   - or *two*

```python
def rain(mm: float) -> bool:
    return mm > 0.1  # 雨
```

| city | °C |
|------|---:|
| 東京 | 21 |
| Berlin | 9 |

> Done.
"""
READ = ToolCall("read_file", {"path": "notes.txt", "limit": 3}, "c1")
FIND = ToolCall("search", {"query": "傘"}, "c2")


def cue() -> None:
    """Wait for the test's cue."""
    sys.stdin.readline()


def in_pieces(board: terminal.Board, speaker: str, text: str, size: int = 5) -> None:
    for at in range(0, len(text), size):
        board.event(speaker, TextDelta(text[at : at + size]))


def answer() -> None:
    with terminal.open_board() as board:
        board.begin("claude", "claude-model")
        board.event("claude", ThinkingDelta("hm"))
        in_pieces(board, "claude", "Let me look.")
        for index, call in enumerate((READ, FIND)):
            board.event("claude", ToolCallEnd(index, call))
            board.event("claude", ToolStarted(call))
        lines = "\n".join(f"line {number}" for number in range(9))
        refused = ToolResult("search", "no index", "c2", is_error=True)
        board.event("claude", ToolFinished(FIND, refused, 0.25))
        board.event("claude", ToolFinished(READ, ToolResult("read_file", lines, "c1"), 2.0))
        in_pieces(board, "claude", WEATHER)
        board.event("claude", Usage(1200, 340, 1000))
        board.event("claude", Finish("length"))
        board.end("claude", terminal.AnswerSummary(cost=Decimal("0.0123")))


def several(columns: str = "0") -> None:
    with terminal.open_board(columns=int(columns)) as board:
        for speaker in ("claude", "gemini", "mistral"):
            board.begin(speaker)
        board.event("gemini", TextDelta("gemini speaks"))
        board.event("claude", TextDelta("claude speaks"))
        board.fail("mistral", RateLimited("Too many requests.", retry_after=12))
        cue()
        board.end("gemini")
        cue()
        board.end("claude")


def resized() -> None:
    with terminal.open_board() as board:
        board.begin("claude")
        for number in range(6):
            long = " ".join(f"p{number}w{word}" for word in range(24))
            in_pieces(board, "claude", f"{long}\n\n- item {number}")
            cue()
            board.event("claude", TextDelta(" end\n\n"))


def long() -> None:
    with terminal.open_board() as board:
        board.begin("claude")
        for number in range(10_000):
            board.event("claude", TextDelta(f"{number} 行\n"))


def hostile() -> None:
    with terminal.open_board() as board:
        board.begin("\x1b]0;owned\x07evil", "\x1b[2J")
        call = ToolCall("\x1b[Hrun", {"a\x1b[1m": "\x9b2J"}, "c")
        board.event("\x1b]0;owned\x07evil", ToolCallEnd(0, call))
        result = ToolResult("run", "\x1b[31mred\rback", "c")
        board.event("\x1b]0;owned\x07evil", ToolFinished(call, result, 1))
        text = "\x1b]0;owned\x07\x1b[2J\x1b[H❯ fake\x08\x08\n```\x1b[5m\n\x1b[6n\n```\n[x](http://a\x1b]8;;b)"
        for letter in text:
            board.event("\x1b]0;owned\x07evil", TextDelta(letter))
        board.fail("\x1b]0;owned\x07evil", RuntimeError("\x1b[2Jfailed"))


def stopping() -> None:
    stopped = threading.Event()
    with terminal.open_board() as board:
        try:
            with terminal.stopped_by_interrupt(stopped.set):
                board.begin("claude")
                board.event("claude", TextDelta("the first words"))
                stopped.wait()
                board.notice("asked to stop")
                threading.Event().wait()
        except KeyboardInterrupt:
            board.notice("asked to leave")


def asking(*which: str) -> None:
    """Ask questions from a thread while an answer is shown."""
    with terminal.open_board() as board:
        questions = terminal.TerminalQuestions(board)
        board.begin("claude")
        for number, name in enumerate(which):
            board.event("claude", TextDelta(f"\n\nready for {number}"))
            cue()
            answers: list[object] = []
            ask = QUESTIONS[name]
            thread = threading.Thread(target=lambda: answers.append(ask(questions)))  # noqa: B023  # joined below
            thread.start()
            board.event("claude", TextDelta(f", more about {number}"))
            thread.join()
            board.event("claude", TextDelta(f"\n\nanswer {number}: `{answers[0]}`"))


def _approve(questions: terminal.TerminalQuestions) -> object:
    call = ToolCall(
        "write_file", {"path": "傘.txt", "content": "\n".join("abcdefghijklmnop")}, "c1"
    )
    return questions.approve(ApprovalRequest(call, "write_file", "files", "Writes.", "talk"))


def _elicit(questions: terminal.TerminalQuestions) -> object:
    schema = {
        "type": "object",
        "properties": {
            "email": {"type": "string", "format": "email", "description": "Where to"},
            "count": {"type": "integer", "minimum": 1, "title": "How many", "default": 2},
            "colour": {"enum": ["red", "green"]},
        },
        "required": ["email"],
    }
    return questions.elicit(Elicitation("shop", "Please order", schema=schema))


def _visit(questions: terminal.TerminalQuestions) -> object:
    return questions.elicit(Elicitation("shop", "Sign in", "url", url="https://shоp.example/a?b=c"))


QUESTIONS: dict[str, Callable[[terminal.TerminalQuestions], object]] = {
    "approve": _approve,
    "elicit": _elicit,
    "visit": _visit,
}


def prompting(folder: str) -> None:
    vocabulary = terminal.Vocabulary(
        speakers={"claude": "claude-model", "gemini": "gemini-model"},
        groups={"both": ["claude", "gemini"]},
        commands={"help": "what can be done", "attach": "add a file"},
    )
    prompt = terminal.ChatPrompt(Path(folder), lambda: vocabulary, lambda: "the toolbar")
    while (message := prompt.read()) is not None:
        sys.stdout.write(f"got {message!r}\n")
    sys.stdout.write("left\n")


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    globals()[name](*arguments)
