"""One real client against ``mlc simulate``, in a network namespace that has only the loopback interface.

``unshare -n python -m tests.clients.session CLIENT``: starts the simulator as an agent's model, lets the client write a note with its
shell and read it (two rounds of tools), and prints a report as JSON. The environment variable ``CLIENTS`` names the folder into which
npm installed the clients.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

VARIABLE = "CLIENTS"
QUESTION = "Write a note with your shell and tell me what it says."
SECONDS = 240


class Launch(Struct, frozen=True):
    """How to start a client: its arguments, its environment, and files below its home (``~``) or its working folder."""

    arguments: list[str]
    environment: dict[str, str]
    files: dict[str, str] = {}


def _claude(url: str) -> Launch:
    environment = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    model = ["--model", "claude-opus-5", "--allowedTools", "Bash"]
    return Launch(["claude", "-p", QUESTION, *model], environment)


def _codex(url: str) -> Launch:
    settings = (
        'model = "gpt-5.2"\nmodel_provider = "sim"\n[model_providers.sim]\nname = "sim"\n'
        f'base_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
    )
    flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return Launch(
        ["codex", "exec", *flags, QUESTION],
        {"OPENAI_API_KEY": "sk-test"},
        {"~/.codex/config.toml": settings},
    )


def _gemini(url: str) -> Launch:
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    environment = {
        "GEMINI_API_KEY": "k",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return Launch(
        ["gemini", "-p", QUESTION, "--yolo", "-m", "gemini-3.7-flash"],
        environment,
        {"~/.gemini/settings.json": json.dumps(settings)},
    )


def _opencode(url: str) -> Launch:
    provider: dict[str, Any] = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "sk-test"},
        "models": {"gpt-4.1": {"name": "gpt-4.1"}},
    }
    settings = {"provider": {"sim": provider}, "permission": "allow"}
    return Launch(
        ["opencode", "run", "-m", "sim/gpt-4.1", QUESTION],
        {},
        {"opencode.json": json.dumps(settings)},
    )


def _qwen(url: str) -> Launch:
    environment = {
        "OPENAI_API_KEY": "sk-test",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": "gpt-4.1",
    }
    return Launch(["qwen", "-p", QUESTION, "--yolo", "--auth-type", "openai"], environment)


CLIENTS: dict[str, Callable[[str], Launch]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "qwen": _qwen,
}


class Report(Struct, frozen=True):
    """The result of the session."""

    code: int
    note: str
    output: str
    errors: str


def run(name: str, folder: Path) -> Report:
    """Start the simulator and the client."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    command = [sys.executable, "-m", "multi_llm_chat", "simulate", "--script", "agent"]
    simulator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert simulator.stdout is not None
    try:
        found = re.search(r"http://[\w.:]+", simulator.stdout.readline())
        assert found is not None
        return _run_client(CLIENTS[name](found[0]), folder)
    finally:
        simulator.terminate()
        simulator.wait()


def _run_client(launch: Launch, folder: Path) -> Report:
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as work:
        for name, text in launch.files.items():
            place = Path(name.replace("~", home)) if name.startswith("~") else Path(work, name)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        base = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TERM": "dumb",
            "NO_COLOR": "1",
            "CI": "1",
        }
        program = str(folder / "node_modules" / ".bin" / launch.arguments[0])
        done = subprocess.run(
            [program, *launch.arguments[1:]],
            check=False,
            cwd=work,
            env=base | launch.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
        note = Path(work, "note.txt")
        text = note.read_text(encoding="utf-8") if note.exists() else ""
        return Report(done.returncode, text.strip(), done.stdout[-4000:], done.stderr[-4000:])


if __name__ == "__main__":
    made = run(sys.argv[1], Path(os.environ[VARIABLE]).resolve())
    sys.stdout.write(json.dumps({name: getattr(made, name) for name in made.__struct_fields__}))
