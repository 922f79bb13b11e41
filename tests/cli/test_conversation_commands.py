"""Conversations, keys, servers and settings on the command line."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from tests.cli.commands import shell

from multi_llm_chat.testing.simulator import Say


def test_conversations_are_listed_found_shown_renamed_archived_and_deleted(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("Tulips are from Asia."), Say("No.")]) as (mlc, _):
        mlc.run("Where are tulips from?")
        mlc.run("Is it raining?")
        listed = json.loads(mlc.run("history", "list", "--json"))
        assert [each["title"] for each in listed] == ["Is it raining?", "Where are tulips from?"]
        tulips = listed[1]["id"]
        assert tulips in mlc.run("history", "search", "asia")
        mlc.run("history", "search", "zebra", code=1)
        assert "Tulips are from Asia." in mlc.run("history", "show", "Where are tulips from?")
        mlc.run("history", "rename", tulips, "花")
        assert mlc.run("history", "show", "花", "--format", "markdown").startswith("# 花\n")
        mlc.run("history", "archive", "花")
        assert "花" not in mlc.run("history", "list")
        assert "花" in mlc.run("history", "list", "--archived")
        mlc.run("history", "delete", tulips)
        mlc.run("history", "show", tulips, code=2)
        assert mlc.run("history", "restore", tulips) == "花\n"


def test_conversations_go_out_and_in(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("Hello.")]) as (mlc, _):
        mlc.run("Hi")
        exported = mlc.run("export")
        mlc.run("export", "-o", "all.md", "--format", "markdown")
        assert "Hello." in (tmp_path / "all.md").read_text()
        other = str(tmp_path / "other.db")
        mlc.run("import", "-", "--db", other, input=exported)
        assert mlc.run("export", "--db", other) == exported
        mlc.run("import", "-", input="nonsense", code=2)
        assert "not JSON" in mlc.errors
        for missing in ("gone.json", "gone"):
            mlc.run("import", missing, code=2)
            assert f"There is no file or folder {missing}" in mlc.errors


def test_keys_are_kept_privately_and_never_shown(tmp_path: Path) -> None:
    with shell(tmp_path) as (mlc, _):
        mlc.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
        mlc.run("keys", "set", "groq", input="gsk_0123456789abcdef\n")
        assert mlc.run("keys", "list").split() == ["GROQ_API_KEY", "…cdef", "secrets"]
        file = tmp_path / "data" / "secrets.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "@groq" in mlc.run("speakers")
        mlc.run("keys", "remove", "groq")
        assert mlc.run("keys", "list") == ""
        mlc.run("keys", "remove", "groq", code=2)
        mlc.run("keys", "set", "ollama", input="x\n", code=2)
        mlc.run("keys", "set", "groq", input="two words\n", code=2)


def test_servers_are_added_tested_and_removed(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    with shell(tmp_path) as (mlc, _):
        mlc.run(
            "mcp", "add", "files", sys.executable, "-m", "multi_llm_chat.tools.filesystem", "files"
        )
        mlc.run("mcp", "add", "far", "https://example.invalid/mcp")
        assert stat.S_IMODE((tmp_path / "config" / "mcp.json").stat().st_mode) == 0o600
        listed = mlc.run("mcp", "list")
        assert "multi_llm_chat.tools.filesystem" in listed
        assert "https://example.invalid/mcp" in listed
        assert "read_file" in mlc.run("mcp", "test", "files")
        mlc.run("mcp", "remove", "far")
        assert "read_file" in mlc.run("tools")
        mlc.run("mcp", "remove", "far", code=2)
        mlc.run("mcp", "add", "bad", "{}", code=2)
        (tmp_path / "config" / "mcp.json").write_text("{")
        mlc.run("mcp", "add", "x", "true", code=2)
        assert (tmp_path / "config" / "mcp.json").read_text() == "{"


def test_models_are_listed_and_errors_are_reported(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[], gemini=[]) as (mlc, _):
        assert "claude" in mlc.run("models", "claude")
        assert set(json.loads(mlc.run("models", "--json"))) == {"claude", "gemini"}
        mlc.environment["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
        mlc.run("models", "claude", code=1)
        assert "claude: " in mlc.errors


def test_the_doctor_and_the_configuration(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[]) as (mlc, _):
        assert "✓ anthropic" in mlc.run("doctor", "--online")
        assert str(tmp_path) in mlc.run("config", "path")
        assert json.loads(mlc.run("config", "show"))["foreign"] == "label"
        mlc.environment["EDITOR"] = "true"
        mlc.run("config", "edit")
        assert "default_speaker" in (tmp_path / "config" / "config.toml").read_text()
        (tmp_path / "config" / "config.toml").write_text("speeker = 1")
        mlc.run("doctor", code=1)
        mlc.run("hello", code=2)
        assert "'speeker' is no setting" in mlc.errors
        found = json.loads(mlc.run("doctor", "--json", code=1))
        assert {"wrong", "ok"} <= {each["state"] for each in found}


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_shells_can_complete(tmp_path: Path, name: str) -> None:
    with shell(tmp_path) as (mlc, _):
        assert "_MLC_COMPLETE" in mlc.run("completion", name)


def test_the_database_can_be_in_another_place(tmp_path: Path) -> None:
    with shell(tmp_path, anthropic=[Say("Hello.")]) as (mlc, _):
        mlc.run("Hi", "--db", str(tmp_path / "there.db"))
        assert mlc.run("history", "list") == ""
        assert "Hi" in mlc.run("history", "list", "--db", str(tmp_path / "there.db"))
        mlc.run("history", "list", "--db", os.devnull + "/x.db", code=1)
