"""Where secrets are stored."""

import stat
from pathlib import Path

import pytest

from multi_llm_chat.config.secrets import (
    FileSecrets,
    KeyringSecrets,
    MemorySecrets,
    SecretStore,
    open_secrets,
)
from multi_llm_chat.errors import StoreError


class Keyring:
    """The three functions of the package ``keyring``."""

    def __init__(self) -> None:
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.passwords.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self.passwords[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        del self.passwords[service, name]


@pytest.mark.parametrize("kind", ["file", "memory", "keyring"])
def test_secrets_are_kept_and_forgotten(kind: str, tmp_path: Path) -> None:
    stores: dict[str, SecretStore] = {
        "file": FileSecrets(tmp_path / "t.json"),
        "memory": MemorySecrets(),
        "keyring": KeyringSecrets(Keyring(), "tests"),
    }
    secrets = stores[kind]
    assert secrets.read("a") is None
    secrets.write("a", "one")
    secrets.write("b", "two")
    secrets.write("a", None)
    secrets.write("never there", None)
    assert (secrets.read("a"), secrets.read("b")) == (None, "two")


def test_a_readable_file_is_made_private_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"a": "old"}')
    path.chmod(0o644)
    FileSecrets(path).write("a", "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_file_is_said_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        FileSecrets(path).write("a", "b")
    assert path.read_text() == "{"


def test_without_a_keyring_the_file_is_used(tmp_path: Path) -> None:
    assert isinstance(open_secrets(None, "tests"), SecretStore)
    assert isinstance(open_secrets(tmp_path / "t.json", "tests"), SecretStore)
