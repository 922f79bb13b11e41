"""Who answers, with which model and how: options of ``ask`` and ``chat``."""

import json
from pathlib import Path

from tests.cli.commands import Shell, shell
from tests.cli.test_repl import talking

from multi_llm_chat.testing.simulator import Say, Simulator


def test_a_speaker_is_named_with_its_model_and_options(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("One."), Say("Two.")], gemini=[Say("Three.")]) as (
        mlc,
        simulator,
    ):
        mlc.run(
            *("ask", "hello", "-m", "Claude:claude-haiku-4-5", "-t", "0.3", "-s", "Be brief."),
            *("-o", "max_tokens=77", "-o", 'stop=["END"]', "-o", "extra.top_k=9"),
        )
        mlc.run("ask", "-c", "-m", "claude", "again")  # the settings are the conversation's
        mlc.run("ask", "-m", "gemini", "hello")  # and not those of any other conversation
    first, second, third = (request.body for request in simulator.requests)
    for body in (first, second):
        assert body["model"] == "claude-haiku-4-5"
        assert (body["temperature"], body["max_tokens"], body["top_k"]) == (0.3, 77, 9)
        assert body["stop_sequences"] == ["END"]
        assert "Be brief." in json.dumps(body["system"])
    assert "generationConfig" not in third or "temperature" not in third["generationConfig"]


def test_a_provider_without_a_key_is_named_with_its_model(tmp_path: Path) -> None:
    with Simulator({"ollama": [Say("From here.")]}) as simulator:
        mlc = Shell(tmp_path, ANTHROPIC_API_KEY="key", OLLAMA_BASE_URL=simulator.base_url("ollama"))
        assert mlc.run("ask", "-m", "ollama:llama3:8b", "hello") == "From here.\n"
    assert simulator.requests[0].body["model"] == "llama3:8b"


def test_mistakes_are_named(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[]) as (mlc, _):
        mlc.run("ask", "hello", "-m", "nosuch:model", code=2)
        assert "There is no speaker 'nosuch'; there are: claude, local" in mlc.errors
        mlc.run("ask", "hello", "-o", "tempratur=1", code=2)
        assert "Unknown options: tempratur" in mlc.errors
        mlc.run("ask", "hello", "-o", "temperature", code=2)
        assert "KEY=VALUE" in mlc.errors
        mlc.run("chat", "-m", "nosuch", code=2)
        assert "There is no speaker 'nosuch'" in mlc.errors


def test_a_wrong_option_is_named_before_a_missing_key(tmp_path: Path) -> None:
    mlc = Shell(tmp_path)
    mlc.run("ask", "hello", "-o", "temperature=hot", code=2)
    assert "The option temperature must be a number, not 'hot'" in mlc.errors


def test_a_conversation_has_the_options_of_its_command(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("Yes.")], gemini=[]) as (mlc, simulator):
        mlc.run("chat", "-m", "claude:claude-haiku-4-5", "-s", "Be brief.", "-t", "0", input="hi\n")
    body = simulator.requests[0].body  # no mention was needed: it is the only participant
    assert (body["model"], body["temperature"]) == ("claude-haiku-4-5", 0)


def test_the_embedded_model_is_named_where_others_have_keys(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("Just me."), Say("Me again.")]) as (mlc, simulator):
        assert mlc.run("hello", "--no-stream") == "Just me.\n"
        assert mlc.run("@all hello", "--no-stream") == "Me again.\n"
        mlc.environment["OLLAMA_HOST"] = "127.0.0.1:9"
        mlc.run("@local hello", code=1)
        assert "@local is asked" in mlc.errors
        assert "mlc local install" in mlc.errors
    assert len(simulator.requests) == 2


def test_nothing_is_downloaded_unasked(tmp_path: Path) -> None:
    mlc = Shell(tmp_path, OLLAMA_HOST="127.0.0.1:9")
    mlc.run("hello", code=1)
    assert "No key is set, and the embedded model" in mlc.errors
    assert "mlc local install" in mlc.errors
    mlc.run("chat", input="hello\n", code=1)
    assert "mlc local install" in mlc.errors
    assert not list(tmp_path.rglob("*.gguf*"))


def test_a_server_is_added_with_its_headers(tmp_path: Path) -> None:
    mlc = Shell(tmp_path)
    token = "Authorization: Bearer ${TOKEN}"
    mlc.run(
        "mcp", "add", "wiki", "https://wiki.example/mcp", "-H", token, "--header", "X-Team: a:b"
    )
    (written,) = json.loads(next(tmp_path.rglob("mcp.json")).read_text())["mcpServers"].values()
    assert written["headers"] == {"Authorization": "Bearer ${TOKEN}", "X-Team": "a:b"}
    mlc.run("mcp", "add", "wiki", "https://wiki.example/mcp", "-H", "nonsense", code=2)
    mlc.run("mcp", "add", "wiki", "npx", "-H", token, code=2)
    mlc.run("mcp", "add", "wiki", "--url", "https://wiki.example/mcp", code=2)
    assert "mlc mcp add NAME https://" in mlc.errors


def test_files_are_attached_under_quoted_names_and_a_refused_message_comes_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "my notes.txt").write_text("alpha")
    (tmp_path / "b.txt").write_text("beta")
    quoted = f'/attach "{tmp_path / "my notes.txt"}" {tmp_path / "b.txt"}\r'
    with talking(tmp_path, columns=200, anthropic=[Say("Read.")]) as (terminal, _, simulator):
        terminal.send(quoted)
        terminal.wait_for("my notes.txt goes with the next message", "b.txt goes")
        terminal.send(f"/attach {tmp_path / 'my notes.txt'}\r")  # one path, without quotes
        terminal.wait_until(lambda shown: shown.count("my notes.txt goes") == 2)
        (tmp_path / "b.txt").unlink()
        terminal.send("read them\r")
        terminal.wait_for("b.txt cannot be read")
        terminal.wait_until(lambda shown: shown.count("❯ read them") == 2)  # at the prompt again
        (tmp_path / "b.txt").write_text("gamma")
        terminal.send("\r")
        terminal.wait_for("Read.")
        terminal.wait_until(lambda shown: shown.count("❯") == 5)
        terminal.send("\x04")
        terminal.finish()
    asked = json.dumps(simulator.requests[0].body)
    assert "alpha" in asked
    assert "gamma" in asked
