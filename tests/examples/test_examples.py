"""The programs of ``examples/``, run unchanged: the simulator replaces the providers, over real HTTP."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.programs import simulated_providers

from multi_llm_chat.testing.simulator import Call, RecordedRequest, Say, Status, always

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 40
WEATHER = [Say(calls=[Call("get_weather", {"city": "Tokyo"})]), Say("It is sunny.")]


def run(name: str, script: Any, folder: Path, *arguments: str, typed: str = "") -> str:
    with simulated_providers(script) as (environment, _):
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / name), *arguments],
            env=environment, cwd=folder, input=typed, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_short_and_tested():
    here = Path(__file__).read_text(encoding="utf-8")
    for file in EXAMPLES.glob("*.py"):
        assert len(file.read_text(encoding="utf-8").splitlines()) <= LONGEST, file.name
        assert file.stem in here, file.name
    assert len(list(EXAMPLES.glob("*.py"))) == 13


def test_a_streamed_agent(tmp_path: Path):
    assert "It is sunny." in run("streamed_agent.py", WEATHER, tmp_path)


@pytest.mark.judge
def test_several_models_behind_fastapi(tmp_path: Path):
    program = (
        "import several_models, starlette.testclient\n"
        "client = starlette.testclient.TestClient(several_models.app)\n"
        "print(client.get('/ask', params={'question': 'Who are you?'}).text)\n"
    )
    script = {"anthropic": [Say("Claude.")], "gemini": [Say("Gemini.")]}
    with simulated_providers(script) as (environment, _):
        environment["PYTHONPATH"] = str(EXAMPLES)
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"type": "text_delta"' in done.stdout
    assert '"answered": ["claude", "gemini"]' in done.stdout


@pytest.mark.judge
def test_repair_for_three_sdks(tmp_path: Path):
    printed = run("repair_for_sdks.py", [Say("Hello.")] * 3, tmp_path)
    assert printed.count("Hello.") == 3
    assert "call" in printed  # a note says what was repaired


def test_typed_output(tmp_path: Path):
    script = [Say("Tokyo"), Say('{"name": "Tokyo", "population": 14000000}')]
    assert run("typed_output.py", script, tmp_path) == "Tokyo: 14,000,000\n"


@pytest.mark.judge
def test_mcp_with_approval(tmp_path: Path):
    pytest.importorskip("mcp_server_time")
    call = Call("get_current_time", {"timezone": "Europe/Rome"})
    script = [Say(calls=[call]), Say("It is noon.")]
    assert "It is noon." in run("mcp_with_approval.py", script, tmp_path, typed="y\n")


def test_a_durable_run_is_killed_and_resumed(tmp_path: Path):
    script = [
        Say(calls=[Call("work", {"step": 1})]),
        Say(calls=[Call("work", {"step": 2})]),
        Say("Done."),
    ]
    with simulated_providers(script) as (environment, simulator):
        program = [sys.executable, str(EXAMPLES / "durable_run.py")]
        first = subprocess.Popen([*program, "60"], env=environment, cwd=tmp_path)
        log = tmp_path / "work.log"
        while not (log.exists() and log.read_text(encoding="utf-8")):
            assert first.poll() is None
        first.kill()
        first.wait()
        second = subprocess.run(
            program, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        )
    assert second.stdout == "resumed: Done.\n"
    assert len(simulator.requests) == 3


def test_headers_and_base_url(tmp_path: Path):
    with simulated_providers([Say("Hello.")]) as (environment, simulator):
        subprocess.run(
            [sys.executable, str(EXAMPLES / "headers_and_base_url.py")], env=environment, cwd=tmp_path, check=True
        )  # fmt: skip
    assert simulator.requests[0].headers["x-team"] == "search"
    assert simulator.requests[0].body["user"] == "anna"


def test_deps(tmp_path: Path):
    def answer(request: RecordedRequest) -> Say:
        last = str(request.body["messages"][-1])
        if "tool_result" not in last:
            return Say(calls=[Call("in_stock", {"article": "pen"})])
        return Say("Yes." if "'3'" in last else "No.")

    assert run("deps.py", answer, tmp_path) == "Anna: Yes.\nBert: No.\n"


def test_fallback_and_budget(tmp_path: Path):
    calls = [Say(calls=[Call("search", {"words": str(number)})]) for number in range(9)]
    script = {"anthropic": [Status(401)] * 9, "gemini": calls}
    assert "gave up (iterations)" in run("fallback_and_budget.py", script, tmp_path)


@pytest.mark.judge
def test_a_cost_report(tmp_path: Path):
    printed = run("cost_report.py", always(Say("Because of the air.")), tmp_path).splitlines()
    assert [line.partition(":")[0] for line in printed] == ["claude", "openai", "gemini"]
    assert all("$0.0" in line for line in printed)


def test_tracing(tmp_path: Path):
    printed = run("tracing.py", WEATHER, tmp_path)
    assert "execute_tool get_weather" in printed
    assert printed.count("chat ") == 2


@pytest.mark.judge
def test_the_test_with_the_simulator(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "test_my_agent.py")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.judge
def test_many_prompts(tmp_path: Path):
    printed = run("many_prompts.py", always(Say("zéro")), tmp_path)
    assert printed == "500 answers, 0 failures; the first: zéro\n"


@pytest.mark.judge
def test_they_pass_mypy(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(EXAMPLES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
