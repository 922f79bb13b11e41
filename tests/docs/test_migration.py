"""The blocks of the libraries that one moves from: run with the library, in an environment of its own.

``make bench`` and ``python -m bench.peers.environments`` make these environments (``.peers``); without them the blocks are skipped.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, read_blocks
from tests.programs import simulated_providers

from multi_llm_chat.testing.simulator import Say, always

PAGES = sorted((ROOT / "docs" / "migration").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_the_other_library_run(page: Path, tmp_path: Path):
    python = (
        sys.executable if page.stem == "openai" else ROOT / ".peers" / page.stem / "bin" / "python"
    )
    if not Path(python).exists():
        pytest.skip(f"{page.stem} is not installed: python -m bench.peers.environments")
    program = tmp_path / "program.py"
    blocks = [block.code for block in read_blocks(page) if block.language == "py"]
    program.write_text("\n".join(blocks), encoding="utf-8")
    with simulated_providers(always(Say("Hello."))) as (environment, _):
        environment["OPENAI_BASE_URL"] = environment["OPENAI_CHAT_BASE_URL"]
        environment["ANTHROPIC_API_URL"] = environment["ANTHROPIC_BASE_URL"]
        done = subprocess.run(
            [python, program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "print(" not in program.read_text() or "Hello." in done.stdout
