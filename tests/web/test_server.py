"""``mlc serve`` as a process."""

import json
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest
from tests.web.server_process import RunningServer, command, environment, form_token

from multi_llm_chat.store import create
from multi_llm_chat.testing.simulator import Say, Simulator


def test_it_prints_its_link_serves_and_ends_on_sigint(tmp_path: Path):
    with Simulator({"anthropic": [Say("From afar.")]}) as simulator:
        settings = environment(
            tmp_path,
            ANTHROPIC_API_KEY="key-without-value",
            ANTHROPIC_BASE_URL=simulator.base_url("anthropic"),
        )
        with subprocess.Popen(
            command("serve", "--port", "0", "--no-open"),
            stdout=subprocess.PIPE,
            text=True,
            env=settings,
        ) as process:
            assert process.stdout is not None
            link = process.stdout.readline().split()[-1]
            url = link.partition("/?")[0]
            with httpx2.Client(base_url=url, follow_redirects=True, timeout=20) as client:
                html = client.get(link).text
                assert 'data-name="claude"' in html
                client.headers |= {"x-form-token": form_token(html), "origin": url}
                assert client.post("/c/one/messages", data={"text": "hi"}).status_code == 200
                with client.stream("GET", "/c/one/events?after=") as stream:
                    assert next(stream.iter_lines()) == "retry: 1000"
                    process.send_signal(signal.SIGINT)
                    assert process.wait(20) == 0


@pytest.mark.judge
def test_another_address_needs_a_password(tmp_path: Path):
    settings = environment(tmp_path, OPENAI_API_KEY="key-without-value")
    refused = subprocess.run(
        command("serve", "--host", "0.0.0.0", "--port", "0"),
        check=False,
        capture_output=True,
        text=True,
        env=settings,
        timeout=60,
    )
    assert refused.returncode == 1
    assert "set a password first" in refused.stderr
    kept = subprocess.run(
        command("serve", "--set-password"),
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


def test_a_port_in_use_is_reported(tmp_path: Path):
    with Simulator() as other:
        done = subprocess.run(
            command("serve", "--port", str(other.port)),
            check=False,
            capture_output=True,
            text=True,
            env=environment(tmp_path, OPENAI_API_KEY="key-without-value"),
            timeout=60,
        )
    assert done.returncode == 1
    assert "choose another with --port" in done.stderr


def test_a_title_with_marks_of_an_earlier_version_is_shown_plain(server: RunningServer):
    server.hub.store("local").run(create, "**Plan** for `main.py`", identifier="old")
    with server.signed_in_client() as visitor:
        for path in ("/", "/c/old"):
            page = visitor.get(path).text
            assert "Plan for main.py" in page
            assert "**Plan**" not in page
