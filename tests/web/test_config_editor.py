"""Edits of the user's files preserve what the user wrote; uploads are checked by their bytes."""

import json
from pathlib import Path

import pytest
from tests.web.server_process import run_server

from multi_llm_chat.config.config_file import read_settings
from multi_llm_chat.config.folders import Folders
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.values import Media
from multi_llm_chat.web.config_editor import (
    HIDDEN,
    add_servers,
    change_settings,
    remove_server,
    replace_server,
    server_entry,
)
from multi_llm_chat.web.routes.conversations import LARGEST_FILE, check_upload


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "config", tmp_path / "data", tmp_path / "state")


def write(folders: Folders, text: str) -> None:
    folders.config.mkdir(parents=True)
    folders.config_file.write_text(text, encoding="utf-8")


def test_comments_and_order_stay(folders: Folders):
    write(
        folders,
        '# mine\nsystem_prompt = "Be brief." # always\n\n[speakers.claude]\nprovider = "anthropic"\n',
    )
    change_settings(
        folders, lambda document, _: document["speakers"].update({"gpt": {"provider": "openai"}})
    )
    text = folders.config_file.read_text(encoding="utf-8")
    assert text.startswith('# mine\nsystem_prompt = "Be brief." # always\n')
    assert set(read_settings(folders.config_file).speakers) == {"claude", "gpt"}


def test_an_invalid_change_is_not_written(folders: Folders):
    write(folders, "# mine\n")
    with pytest.raises(UsageError, match="all"):
        change_settings(folders, lambda document, _: document.update({"groups": {"all": ["x"]}}))
    assert folders.config_file.read_text(encoding="utf-8") == "# mine\n"


def test_a_missing_file_is_created(folders: Folders):
    change_settings(folders, lambda document, _: document.update({"default_speaker": "claude"}))
    assert read_settings(folders.config_file).default_speaker == "claude"


def test_servers_are_added_to_existing_ones(folders: Folders):
    folders.config.mkdir(parents=True)
    folders.servers_file.write_text(
        '{"other": 1, "mcpServers": {"a": {"command": "x"}}}', encoding="utf-8"
    )
    assert add_servers(folders, '{"mcpServers": {"b": {"url": "https://b.example/mcp"}}}') == ["b"]
    kept = json.loads(folders.servers_file.read_text(encoding="utf-8"))
    assert kept == {
        "other": 1,
        "mcpServers": {"a": {"command": "x"}, "b": {"url": "https://b.example/mcp"}},
    }
    assert folders.servers_file.stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="already"):
        add_servers(folders, '{"mcpServers": {"a": {"command": "y"}}}')


def test_an_edited_server_keeps_the_secrets_that_the_page_does_not_show(folders: Folders):
    folders.config.mkdir(parents=True)
    entry = {
        "command": "x",
        "args": ["a"],
        "env": {"TOKEN": "very secret", "MODE": "fast"},
        "own": 1,
    }
    folders.servers_file.write_text(
        json.dumps({"mcpServers": {"a": entry, "b": {"command": "y"}}}), encoding="utf-8"
    )
    shown = server_entry(folders, "a")
    assert shown == entry | {"env": {"TOKEN": HIDDEN, "MODE": HIDDEN}}
    assert shown is not None
    assert server_entry(folders, "unknown") is None
    wanted = shown | {"args": ["b"], "env": {"TOKEN": HIDDEN, "MODE": "slow"}}
    saved = replace_server(folders, "a", json.dumps(wanted))
    assert saved == entry | {"args": ["b"], "env": {"TOKEN": "very secret", "MODE": "slow"}}
    kept = json.loads(folders.servers_file.read_text(encoding="utf-8"))
    assert kept == {"mcpServers": {"a": saved, "b": {"command": "y"}}}
    for broken in ("no json", "{}", '{"command": "x", "url": "https://x.example"}'):
        with pytest.raises(UsageError):
            replace_server(folders, "a", broken)
    remove_server(folders, "a")
    assert json.loads(folders.servers_file.read_text(encoding="utf-8")) == {
        "mcpServers": {"b": {"command": "y"}}
    }
    for change in (lambda: remove_server(folders, "a"), lambda: replace_server(folders, "a", "{}")):
        with pytest.raises(UsageError, match="no server"):
            change()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mcpServers": {"odd": {}}}', "no json"])
def test_an_invalid_server_is_refused(folders: Folders, text: str):
    with pytest.raises(UsageError):
        add_servers(folders, text)
    assert not folders.servers_file.exists()


@pytest.mark.parametrize(
    ("data", "declared", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n....", "text/html", "image/png"),
        (b"\xff\xd8\xff\xe0", "", "image/jpeg"),
        (b"GIF89a..", "image/png", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "", "image/webp"),
        (b"%PDF-1.7 \x00", "", "application/pdf"),
        (b"a,b\n1,2\n", "text/csv", "text/csv"),
        (b"<script>alert(1)</script>", "text/html", "text/plain"),
        ("日本語".encode(), "", "text/plain"),
    ],
)
def test_the_bytes_of_a_file_decide_its_type(data: bytes, declared: str, mime: str):
    media = check_upload(data, "name", declared)
    assert isinstance(media, Media)
    assert media.mime == mime


@pytest.mark.parametrize(
    "data", [b"MZ\x00\x01", b"\xff\xfe\x00a", b"\x80\x81", b"x" * (LARGEST_FILE + 1)]
)
def test_other_files_are_refused_by_name(data: bytes):
    with pytest.raises(UsageError, match="holiday"):
        check_upload(data, "holiday.bin", "image/png")


def test_saving_a_speaker_keeps_its_chain_of_providers(tmp_path: Path):
    chain = '[speakers.team]\nprovider = ["anthropic", "openai"]\n\n'
    with run_server(tmp_path, config=chain) as server, server.signed_in_client() as visitor:
        file = server.hub.workspace.folders.config_file
        shown = "anthropic → openai"
        assert f'value="{shown}"' in visitor.get("/settings/models").text
        form = {"name": "team", "provider": shown, "system_prompt": "Be brief."}
        assert visitor.post("/settings/speaker", json=form).status_code == 200
        saved = read_settings(file).speakers["team"]
        assert saved.provider == ("anthropic", "openai")
        assert saved.system_prompt == "Be brief."
        form["provider"] = "openai"
        assert visitor.post("/settings/speaker", json=form).status_code == 200
        assert read_settings(file).speakers["team"].provider == "openai"


def test_the_price_is_known_before_a_message_is_sent(tmp_path: Path):
    prices = '[prices."claude-*"]\ninput = 1000.0\noutput = 1000.0\n\n'
    with run_server(tmp_path, config=prices) as server, server.signed_in_client() as visitor:
        price = visitor.get("/c/new/estimate", params={"to": "claude"}).json()["text"]
        assert price == "about $0.460"
        both = visitor.get("/c/new/estimate", params={"to": ["claude", "gemini"]}).json()["text"]
        assert both > price
        assert visitor.get("/c/new/estimate", params={"to": "unknown"}).json()["text"] == ""
