"""Remote servers that demand a sign-in, and where the tokens are kept."""

import stat
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.tools.conftest import Scene
from tests.tools.servers.guarded import GuardedServer

from multi_llm_chat.errors import StoreError
from multi_llm_chat.tools.mcp import (
    Elicitation,
    ElicitationAnswer,
    FileTokens,
    MemoryTokens,
    TokenStore,
    open_tokens,
)
from multi_llm_chat.tools.mcp.tokens import KeyringTokens


@pytest.fixture
def guarded() -> Generator[GuardedServer]:
    server = GuardedServer()
    yield server
    server.close()


def visiting(asked: list[Elicitation]) -> object:
    """A user who opens the address in a browser."""

    def elicit(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        assert question.url is not None
        with urllib.request.urlopen(question.url, timeout=20) as page:
            assert b"close this page" in page.read()
        return ElicitationAnswer("accept")

    return elicit


def test_the_user_signs_in_once_and_the_token_is_kept(
    guarded: GuardedServer, tmp_path: Path
) -> None:
    path = tmp_path / "folder" / "tokens.json"
    asked: list[Elicitation] = []
    for _ in range(2):
        scene = Scene(
            {"guarded": {"url": guarded.url}}, elicit=visiting(asked), tokens=FileTokens(path)
        )
        with scene.servers:
            assert scene.call("treasure").content == "gold"
    assert [(question.server, question.mode) for question in asked] == [("guarded", "url")]
    assert asked[0].url is not None
    assert asked[0].url.startswith(guarded.url.removesuffix("mcp"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert next(iter(guarded.guard.tokens)) in path.read_text()


def test_without_anybody_to_ask_the_server_is_not_used(guarded: GuardedServer) -> None:
    scene = Scene({"guarded": {"url": guarded.url}}, elicit=None, backoff=())
    with scene.servers:
        (state,) = scene.servers.states()
    assert state.state == "failed"
    assert "demands a sign-in" in state.message
    assert guarded.guard.tokens == {}


def test_an_authorization_of_the_settings_is_used_as_it_is(guarded: GuardedServer) -> None:
    asked: list[Elicitation] = []
    entry = {"url": guarded.url, "headers": {"authorization": "Bearer wrong"}}
    scene = Scene({"guarded": entry}, elicit=visiting(asked), backoff=())
    with scene.servers:
        (state,) = scene.servers.states()
    assert state.state == "failed"
    assert asked == []


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
def test_tokens_are_kept_and_forgotten(kind: str, tmp_path: Path) -> None:
    stores: dict[str, TokenStore] = {
        "file": FileTokens(tmp_path / "t.json"),
        "memory": MemoryTokens(),
        "keyring": KeyringTokens(Keyring()),
    }
    tokens = stores[kind]
    assert tokens.read("a") is None
    tokens.write("a", "one")
    tokens.write("b", "two")
    tokens.write("a", None)
    tokens.write("never there", None)
    assert (tokens.read("a"), tokens.read("b")) == (None, "two")


def test_a_readable_file_is_made_private_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"a": "old"}')
    path.chmod(0o644)
    FileTokens(path).write("a", "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_file_is_said_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        FileTokens(path).write("a", "b")
    assert path.read_text() == "{"


def test_without_a_keyring_the_file_is_used(tmp_path: Path) -> None:
    assert isinstance(open_tokens(None), TokenStore)
    assert isinstance(open_tokens(tmp_path / "t.json"), TokenStore)
