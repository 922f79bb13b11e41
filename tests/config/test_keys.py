"""Where keys are found, and that they are never shown."""

import os
from pathlib import Path

import pytest

from multi_llm_chat.config.folders import Folders, program_folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.secrets import FileSecrets, MemorySecrets
from multi_llm_chat.errors import UsageError

KEY = "GROQ_API_KEY"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    found = program_folders({"MULTI_LLM_CHAT_HOME": str(tmp_path / "home")})
    found.config.mkdir(parents=True)
    return found


def keys_in(folders: Folders, tmp_path: Path, **environment: str) -> Keys:
    return Keys(
        folders=folders,
        environment=environment,
        secrets=FileSecrets(folders.secrets_file),
        working_folder=tmp_path,
    )


def test_the_first_place_that_has_a_key_decides(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"{KEY}=of-the-folder\n")
    keys = keys_in(folders, tmp_path)
    assert keys.value(KEY) == "of-the-folder"
    (folders.config / ".env").write_text(f'export {KEY}="of-the-config"\n')
    assert keys.value(KEY) == "of-the-config"
    keys.set(KEY, " of-the-secrets\n")
    assert keys.value(KEY) == "of-the-secrets"
    keys = keys_in(folders, tmp_path, **{KEY: "of-the-environment"})
    assert [(key.place, key.value) for key in keys.list([KEY, "OTHER", KEY])] == [
        ("environment", "of-the-environment")
    ]


def test_a_key_that_was_set_is_removed_and_others_are_not(folders: Folders, tmp_path: Path) -> None:
    keys = keys_in(folders, tmp_path)
    keys.set(KEY, "secret")
    assert keys.remove(KEY)
    assert not keys.remove(KEY)
    assert keys.find(KEY) is None


def test_a_key_is_never_shown(folders: Folders, tmp_path: Path) -> None:
    keys = keys_in(folders, tmp_path, LONG="gsk_0123456789abcdef", SHORT="abcdef")
    assert repr(keys.list(["LONG", "SHORT"])) == (
        "[FoundKey(LONG, environment, …cdef), FoundKey(SHORT, environment, …)]"
    )
    assert "gsk_" not in repr(keys)


@pytest.mark.parametrize("text", ["", "  ", "two words", "naïve", "line\nbreak"])
def test_what_can_be_no_key_is_refused(text: str) -> None:
    keys = Keys(environment={}, secrets=MemorySecrets())
    with pytest.raises(UsageError, match="copy it again") as raised:
        keys.set(KEY, text)
    assert not text.strip() or text not in str(raised.value)


def test_damaged_places_do_not_hide_the_others(folders: Folders, tmp_path: Path) -> None:
    folders.data.mkdir(parents=True)
    folders.secrets_file.write_text("{")
    (folders.config / ".env").write_bytes(b"\xff\xfe\x00")
    (tmp_path / ".env").write_text(f"{KEY}=found\n")
    assert keys_in(folders, tmp_path).value(KEY) == "found"


def test_only_keys_that_are_asked_for_are_read_and_nothing_is_put_into_the_environment(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("A=1\nB=${A}${HOME}\n")
    monkeypatch.delenv("A", raising=False)
    keys = keys_in(folders, tmp_path)
    assert keys.value("B") == "${A}${HOME}"
    assert "A" not in os.environ


def test_folders_are_the_platforms_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    folders = program_folders({"MULTI_LLM_CHAT_HOME": str(tmp_path)})
    assert folders.config_file == tmp_path / "config" / "config.toml"
    assert folders.store_file == tmp_path / "data" / "conversations.db"
    assert folders.servers_file.name == "mcp.json"
    usual = program_folders({})
    assert usual.config.name == "multi_llm_chat"
    assert len({usual.config, usual.data, usual.state}) >= 1
