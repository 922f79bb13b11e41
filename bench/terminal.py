"""The CPU time to show an answer, and to reach the first prompt.

An answer arrives at eighty tokens a second of simulated time, and is drawn as often as the board draws. The baseline is
rich's own way: rendering the whole text again for each frame.
"""

import io
import os
import pty
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from bench.measuring import Result, fresh
from bench.startup import cpu_milliseconds
from multi_llm_chat.cli.terminal.renderer import Renderer
from multi_llm_chat.cli.terminal.screen import Capabilities, Screen
from multi_llm_chat.cli.terminal.view import TerminalAnswer
from multi_llm_chat.events import TextDelta

#: The limit of CPU seconds for each (DESIGN, sections 4 and 6).
BUDGETS = {"2,000 tokens": 0.5, "first prompt": 0.45}
TOKENS_A_SECOND = 80
FRAMES_A_SECOND = 10
SIZE = (100, 40)

_SECTION = '''
## 第{number}節 About the *weather* in {number} places

The forecast uses **three** models and a `blend({number})` of them; see [the notes](https://example.org/{number}).
日本語の段落もあります。全角文字の幅を正しく数えて、折り返しの位置を決めなければなりません。

1. Read the observations of the last {number} hours
2. Compare them with the models
   - temperature and *pressure*
   - wind, in knots

```python
def blend(models: list[Model], weights: list[float]) -> Forecast:
    """Mix forecasts; the weights must add up to one."""
    total = sum(weights)
    if not math.isclose(total, 1.0):  # 合計は一
        raise ValueError(f"weights add up to {{total}}, not to 1")
    return Forecast([sum(w * m[i] for w, m in zip(weights, models)) for i in range({number}, 24)])
```

| place | °C | wind |
|-------|---:|-----:|
| 東京 | 2{number} | 12 |
| Berlin | 9 | 3{number} |

> What falls today will not fall tomorrow.
'''


def answer(tokens: int) -> list[str]:
    """Return a long answer in deltas of about a token."""
    text = "# Weather\n"
    number = 0
    while len(text) < tokens * 4:
        number += 1
        text += _SECTION.format(number=number)
    return [text[at : at + 4] for at in range(0, tokens * 4, 4)]


def show(deltas: list[str]) -> tuple[float, int]:
    """Show the answer; return the CPU seconds and the bytes written."""
    now = 0.0
    output = io.StringIO()
    screen = Screen(output, Capabilities(live=True, colour=True), lambda: SIZE)
    before = time.process_time()
    view = TerminalAnswer(Renderer(screen.capabilities, SIZE[0]), "claude", "model", lambda: now)
    drawn = 0.0
    for delta in deltas:
        view.take(TextDelta(delta))
        now += 1 / TOKENS_A_SECOND
        if now - drawn >= 1 / FRAMES_A_SECOND:
            drawn = now
            lines = view.settled(SIZE[0])
            screen.add(lines, view.tail(SIZE[0], SIZE[1] - 2) + view.status(SIZE[0]))
    view.end()
    screen.add(view.settled(SIZE[0]))
    return time.process_time() - before, len(output.getvalue())


def show_again_and_again(deltas: list[str]) -> float:
    """Return the CPU seconds of rendering the whole text so far for each frame."""
    console = Console(file=io.StringIO(), force_terminal=True, width=SIZE[0])
    before = time.process_time()
    each = int(TOKENS_A_SECOND / FRAMES_A_SECOND)
    for count in range(each, len(deltas) + each, each):
        console.print(Markdown("".join(deltas[:count])))
    return time.process_time() - before


def ten_thousand_lines(kind: str) -> float:
    """Return the CPU seconds for an answer of ten thousand lines, in deltas of ten lines."""
    lines = {
        "code": ["```\n", *(f"value_{number} = compute({number})\n" for number in range(10_000)), "```\n"],
        "paragraphs": [f"Line {number} of the answer.\n\n" for number in range(5_000)],
        "list": [f"- item {number} of the list\n" for number in range(10_000)],
    }[kind]  # fmt: skip
    return show(["".join(lines[at : at + 10]) for at in range(0, len(lines), 10)])[0]


def first_prompt(folder: str) -> float:
    """Return the CPU seconds that ``mlc`` has used when its first prompt is on the screen."""
    control, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "multi_llm_chat", "chat"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=Path(__file__).parents[1],
        env=os.environ | {"MULTI_LLM_CHAT_HOME": folder, "ANTHROPIC_API_KEY": "key"},
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    while "❯".encode() not in seen:
        new = os.read(control, 4096)
        if b"\x1b[6n" in new:  # it queries the cursor position
            os.write(control, b"\x1b[1;1R")
        seen += new
    fields = (
        Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    )
    process.kill()
    process.wait()
    os.close(control)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run() -> Result:
    """Measure answers and the first prompt."""
    deltas = answer(2_000)
    figures = {"2,000 tokens": min(fresh(show, deltas)[0] for _ in range(3))}
    figures["2,000 tokens, all rendered for each frame"] = fresh(show_again_and_again, deltas)
    for kind in ("code", "paragraphs", "list"):
        figures[f"10,000 lines of {kind}"] = fresh(ten_thousand_lines, kind)
    with tempfile.TemporaryDirectory() as folder:
        figures["first prompt"] = min(first_prompt(folder) for _ in range(9))
    library = ["-c", "import prompt_toolkit"]
    figures["import prompt_toolkit alone"] = min(cpu_milliseconds(library) for _ in range(9)) / 1e3
    limits = {name: f" (limit {budget})" for name, budget in BUDGETS.items()}
    return Result(
        "The terminal, CPU",
        {name: f"{value:7.2f} s{limits.get(name, '')}" for name, value in figures.items()},
        figures,
        [
            f"{name} took {figures[name]:.2f} s CPU, {budget} are allowed"
            for name, budget in BUDGETS.items()
            if figures[name] > budget
        ],
    )
