"""``mlc serve`` as its users run it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
from tests.web.house import form_token, house

from multi_llm_chat.testing.simulator import Gate, Say, Simulator


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "multi_llm_chat", "serve", *arguments]


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    return kept | {"MULTI_LLM_CHAT_HOME": str(home)} | more


def test_it_tells_its_link_serves_and_ends_when_told_to(tmp_path: Path):
    with Simulator({"anthropic": [Say("From afar.")]}) as simulator:
        settings = environment(
            tmp_path,
            ANTHROPIC_API_KEY="key-without-value",
            ANTHROPIC_BASE_URL=simulator.base_url("anthropic"),
        )
        with subprocess.Popen(
            command("--port", "0", "--no-open"), stdout=subprocess.PIPE, text=True, env=settings
        ) as process:
            assert process.stdout is not None
            link = process.stdout.readline().split()[-1]
            url = link.partition("/?")[0]
            with httpx2.Client(base_url=url, follow_redirects=True, timeout=20) as client:
                html = client.get(link).text
                assert "@claude" in html
                client.headers |= {"x-form-token": form_token(html), "origin": url}
                assert client.post("/c/one/messages", data={"text": "hi"}).status_code == 200
                with client.stream("GET", "/c/one/events?after=") as stream:
                    assert next(stream.iter_lines()) == "retry: 1000"
                    process.send_signal(signal.SIGINT)
                    assert process.wait(20) == 0


def test_it_does_not_let_others_in_without_a_password(tmp_path: Path):
    settings = environment(tmp_path, OPENAI_API_KEY="key-without-value")
    refused = subprocess.run(
        command("--host", "0.0.0.0", "--port", "0"),
        check=False,
        capture_output=True,
        text=True,
        env=settings,
        timeout=60,
    )
    assert refused.returncode == 1
    assert "set a password first" in refused.stderr
    kept = subprocess.run(
        command("--set-password"),
        check=False,
        capture_output=True,
        text=True,
        env=settings,
        timeout=60,
        input="correct horse\ncorrect horse\n",
    )
    assert kept.returncode == 0
    secrets = json.loads((tmp_path / "data" / "web.json").read_text(encoding="utf-8"))
    assert secrets["password-hash"].startswith("$argon2id$")
    assert (tmp_path / "data" / "web.json").stat().st_mode & 0o077 == 0


def test_a_port_that_is_taken_is_told(tmp_path: Path):
    with Simulator() as other:
        done = subprocess.run(
            command("--port", str(other.port)),
            check=False,
            capture_output=True,
            text=True,
            env=environment(tmp_path, OPENAI_API_KEY="key-without-value"),
            timeout=60,
        )
    assert done.returncode == 1
    assert "choose another with --port" in done.stderr


def test_an_answer_that_a_crash_has_cut_off_is_given_after_the_next_start(tmp_path: Path):
    gate = Gate(3)
    with Simulator(
        {"anthropic": [Say("half an answer", delta_size=2, faults=[gate])]}
    ) as simulator:
        settings = environment(
            tmp_path,
            ANTHROPIC_API_KEY="key-without-value",
            ANTHROPIC_BASE_URL=simulator.base_url("anthropic"),
        )
        with subprocess.Popen(
            command("--port", "0", "--no-open"), stdout=subprocess.PIPE, text=True, env=settings
        ) as process:
            assert process.stdout is not None
            link = process.stdout.readline().split()[-1]
            url = link.partition("/?")[0]
            with httpx2.Client(base_url=url, follow_redirects=True, timeout=20) as client:
                client.headers |= {"x-form-token": form_token(client.get(link).text), "origin": url}
                assert client.post("/c/one/messages", data={"text": "hi"}).status_code == 200
                gate.wait_reached()
                process.kill()
    script = {"anthropic": [Say("The whole answer.")]}
    with house(tmp_path, script) as home, home.visitor() as visitor:
        home.simulator.requests.wait_for(1)
        html = ""
        while "The whole answer." not in html:
            html = visitor.get("/c/one/view").json()["html"]
        assert html.count("The whole answer.") == 1
        assert "half an" not in html
