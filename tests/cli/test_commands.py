"""The other commands through the real entry point."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from multi_llm_chat.testing.simulator import Say, Simulator

MLC = [sys.executable, "-m", "multi_llm_chat"]

#: The environment without the API keys of the user who runs the tests.
BARE = {key: value for key, value in os.environ.items() if not key.endswith(("_API_KEY", "_TOKEN"))}


def test_help_names_every_command():
    shown = subprocess.run([*MLC, "--help"], capture_output=True, text=True, check=True).stdout
    assert [name for name in ("chat", "local", "repair", "simulate") if name not in shown] == []


def test_several_speakers_answer_in_one_conversation(tmp_path: Path):
    with Simulator(
        {
            "openai": [Say("Hello from GPT.")],
            "anthropic": [Say("Hello from Claude."), Say("I saw it.")],
        }
    ) as simulator:
        environment = BARE | {
            "MULTI_LLM_CHAT_HOME": str(tmp_path),
            "OPENAI_API_KEY": "one", "OPENAI_BASE_URL": simulator.base_url("openai"),
            "ANTHROPIC_API_KEY": "two", "ANTHROPIC_BASE_URL": simulator.base_url("anthropic"),
        }  # fmt: skip
        said = "@all hello\njust a memo\n@claude did you see the memo?\n/quit\n"
        run = subprocess.run(
            [*MLC, "chat"],
            input=said,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "chatgpt:",
        "Hello from GPT.",
        "claude:",
        "Hello from Claude.",
        "claude:",
        "I saw it.",
    ]
    assert "noted" in run.stderr
    last = simulator.requests[-1].body["messages"]
    assert "[chatgpt] Hello from GPT." in str(last)
    assert "just a memo" in str(last)
    assert "@claude" not in str(last)


def test_the_simulator_runs_until_it_is_interrupted():
    with subprocess.Popen([*MLC, "simulate"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = ""
        while not (found := re.search(r"http://127\.0\.0\.1:\d+\S*", printed)):
            line = process.stdout.readline()
            assert line, printed
            printed += line
        base = re.match(r"http://127\.0\.0\.1:\d+", found[0])
        assert base is not None
        with urllib.request.urlopen(f"{base[0]}/v1/models") as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode in (0, 130)
