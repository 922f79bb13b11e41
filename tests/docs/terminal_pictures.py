"""Pictures of the terminal for the documentation, as SVG: real commands, with the simulator in the place of providers.

python -m tests.docs.terminal_pictures
"""

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text
from tests.docs.pages import ROOT
from tests.programs import simulated_providers

from multi_llm_chat.testing.simulator import Say

WIDTH = 100
#: rich's own form without the fonts that it would fetch from another site.
FORM = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""

HISTORY = [
    {"role": "user", "content": "What is the weather in Tokyo?"},
    {"role": "assistant", "tool_calls": [
        {"id": "call:0", "type": "function", "function": {"name": "weather.get", "arguments": '{"city": "Tokyo"}'}},
    ]},
    {"role": "user", "content": "Never mind. Say hello."},
]  # fmt: skip

#: What is typed, by the name of the picture.
SCENES = {
    "terminal-ask": [
        'mlc "@all Is 2^31 - 1 a prime?"',
        "mlc history list",
    ],
    "terminal-repair": [
        "mlc repair chat.json --for anthropic --check",
        "mlc repair chat.json --for anthropic --model claude-sonnet-5",
    ],
}
REPLIES = {
    "anthropic": [Say("Yes: **2147483647** is prime, the eighth Mersenne prime.")],
    "gemini": [Say("Yes. Euler proved it in 1772.")],
}


def draw(name: str, commands: list[str]) -> str:
    """Run the commands in a new home, and draw what the terminal shows."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder, simulated_providers(REPLIES) as (found, _):
        (Path(folder) / "chat.json").write_text(json.dumps(HISTORY), encoding="utf-8")
        kept = {
            key: value for key, value in found.items() if key.startswith(("ANTHROPIC", "GEMINI"))
        }
        environment = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": folder, "COLUMNS": str(WIDTH),
            "MLC_HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder, "XDG_STATE_HOME": folder,
            "FORCE_COLOR": "1", "TERM": "xterm-256color", "LANG": "C.UTF-8", **kept,
        }  # fmt: skip
        for command in commands:
            console.print(Text(f"$ {command}", style="bold"))
            done = subprocess.run(
                command, shell=True, cwd=folder, env=environment, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            console.print(Text.from_ansi(done.stdout.rstrip()))
    drawn = console.export_svg(
        title=name.partition("-")[2], theme=MONOKAI, code_format=FORM, unique_id=name
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def main() -> None:
    """Draw all."""
    for name, commands in SCENES.items():
        (ROOT / "docs" / "screenshots" / f"{name}.svg").write_text(
            draw(name, commands), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
