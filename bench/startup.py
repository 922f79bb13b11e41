"""Startup cost: CPU time of fresh processes, compared with a bare interpreter."""

import os
import subprocess
import sys
from pathlib import Path

from bench.measuring import Result

#: The limit of CPU milliseconds for each (DESIGN, section 4).
BUDGETS = {
    "import multi_llm_chat": 50,
    "mlc --help": 120,
}

COMMANDS = {
    "bare python": ["-c", "pass"],
    "import multi_llm_chat": ["-c", "import multi_llm_chat"],
    "import and render": ["-c", "import multi_llm_chat as m; m.render([{'role': 'user', 'content': 'Hi'}], 'anthropic')"],
    "mlc --help": ["-m", "multi_llm_chat", "--help"],
    "import msgspec (limit)": ["-c", "import msgspec"],
    "import openai": ["-c", "import openai"],
    "import anthropic": ["-c", "import anthropic"],
    "import google.genai": ["-c", "from google import genai"],
}  # fmt: skip


def cpu_milliseconds(arguments: list[str]) -> float:
    """Return user and system time of one child process."""
    before = os.times()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=Path(__file__).parents[1],
    )
    after = os.times()
    used = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return used * 1e3


def run() -> Result:
    """Measure each start."""
    best = {
        name: min(cpu_milliseconds(command) for _ in range(5)) for name, command in COMMANDS.items()
    }
    limits = {name: f" (limit {budget})" for name, budget in BUDGETS.items()}
    return Result(
        "Start-up, CPU of a fresh process",
        {name: f"{value:7.0f} ms{limits.get(name, '')}" for name, value in best.items()},
        best,
        [
            f"{name} took {best[name]:.0f} ms CPU, {budget} are allowed"
            for name, budget in BUDGETS.items()
            if best[name] > budget
        ],
    )
