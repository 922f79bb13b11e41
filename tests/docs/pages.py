"""The blocks of a page of the documentation, and the page as one script.

Rules:
1. The ``python`` blocks of a page, in their order, are one script. It runs in an empty folder; the simulator stands for the providers.
2. ``<!-- simulator … -->`` holds the replies as a Python expression (``Say``, ``Call``, …); without it every reply is "Hello.".
3. ``<!-- setup … -->`` holds Python that the reader has and the page does not show, such as a file; it is run before the block that follows.
4. A ``text`` block directly behind a ``python`` block is exactly what that block prints.
5. ``<!-- separate -->`` before a block begins another script: for alternatives to what stands above it.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.programs import simulated_providers

from multi_llm_chat.testing import simulator

ROOT = Path(__file__).parents[2]

_PIECE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]*)[^\n]*\n(?P<code>.*?)^(?P=indent)```$"
    r"|^<!-- (?P<word>simulator|setup|separate)(?P<value>.*?)-->$",
    re.DOTALL | re.MULTILINE,
)
_BORDER = "-- end of a block --\n"


class Block(NamedTuple):
    """A block of code; ``output`` is what the page shows below it."""

    language: str
    code: str
    line: int
    output: str | None = None


class Script(NamedTuple):
    """Blocks that run one after the other, and the replies they get."""

    blocks: list[Block]
    replies: Any


def all_pages() -> list[Path]:
    """The pages whose blocks run: README and everything below ``docs`` but for what other tests make or run."""
    made = {"rules.md", "cli.md"}
    found = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in made]
    return [ROOT / "README.md", *sorted(page for page in found if page.parent.name != "decisions")]


def read_blocks(page: Path) -> list[Block]:
    """All blocks of a page, without what the comments hold."""
    text = page.read_text(encoding="utf-8")
    found = (piece for piece in _PIECE.finditer(text) if piece["code"] is not None)
    return [_block(piece, text) for piece in found]


def _block(piece: "re.Match[str]", text: str) -> Block:
    indent = piece["indent"]
    code = re.sub(f"^{indent}", "", piece["code"], flags=re.MULTILINE)
    return Block(piece["language"], code, text.count("\n", 0, piece.start()) + 1)


def read_scripts(page: Path) -> list[Script]:
    """The scripts that the page's Python blocks make."""
    text = page.read_text(encoding="utf-8")
    scripts: list[Script] = []
    replies: Any = simulator.always(simulator.Say("Hello."))
    setup, is_new, end = "", True, -1
    for piece in _PIECE.finditer(text):
        match piece["word"], piece["language"]:
            case "simulator", _:
                replies = eval(piece["value"], vars(simulator).copy())
                is_new = True
            case "setup", _:
                setup += piece["value"] + "\n"
            case "separate", _:
                is_new = True
            case _, "python":
                block = _block(piece, text)
                if is_new:
                    scripts.append(Script([], replies))
                scripts[-1].blocks.append(block._replace(code=setup + block.code))
                setup, is_new, end = "", False, piece.end()
            case _, "text" if scripts and not text[end : piece.start()].strip():
                last = scripts[-1].blocks
                last[-1] = last[-1]._replace(output=_block(piece, text).code)
            case _:
                pass
    return scripts


def run_script(script: Script, folder: Path, python: str = sys.executable) -> None:
    """Run the blocks as one program, and compare what each prints with what the page shows."""
    border = f"\nprint({_BORDER.strip()!r}, flush=True)\n"
    program = folder / "page.py"
    program.write_text(border.join(block.code for block in script.blocks), encoding="utf-8")
    with simulated_providers(script.replies) as (environment, _):
        environment |= {"HOME": str(folder), "MLC_HOME": str(folder), "COLUMNS": "100"}
        done = subprocess.run(
            [python, program.name], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    printed = done.stdout.split(_BORDER)
    for block, output in zip(script.blocks, printed, strict=True):
        if block.output is not None:
            assert output.splitlines() == block.output.splitlines(), (
                f"line {block.line} prints:\n{output}"
            )
