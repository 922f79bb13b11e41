"""Outputs that cannot show every character, and an interrupt before the program has loaded: never a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import shell
from tests.cli.fork_server import FORKING, MLC, Program

from multi_llm_chat.testing.simulator import Say

WORDS = "naïve – “東京” ✓ …"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_every_command_prints_what_the_terminal_can_show(tmp_path: Path, encoding: str) -> None:
    with shell(tmp_path, anthropic=[Say(WORDS)] * 3) as (mlc, _):

        def run(*words: str, given: bytes = b"") -> str:
            environment = mlc.environment | {"PYTHONIOENCODING": encoding}
            done = FORKING.run(Program(MLC, words, environment, tmp_path), given)
            assert b"Traceback" not in done.errors, done.errors.decode(encoding)
            assert done.code == 0, done.errors.decode(encoding)
            return done.output.decode(encoding)

        assert run("ask", given=WORDS.encode()).startswith("na")
        found = json.loads(run("ask", WORDS, "--json"))
        assert found["answers"][0]["text"] == WORDS  # JSON loses nothing
        assert json.loads(run("history", "list", "--json"))[0]["title"]
        if encoding == "ascii":
            run("doctor")
            run("history", "list")
            run("history", "search", "naïve")
            run("speakers")
            run("chat", given=f"{WORDS}\n/help\n/history\n".encode())


def test_the_end_of_a_program_that_still_loads_is_quiet(tmp_path: Path) -> None:
    program = """
import runpy, sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "multi_llm_chat.cli.main":
            raise KeyboardInterrupt
        return None

sys.meta_path.insert(0, Interrupted())
runpy.run_module("multi_llm_chat", run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")
