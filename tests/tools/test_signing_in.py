"""Remote servers that demand a sign-in."""

import stat
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.tools.conftest import Scene
from tests.tools.servers.guarded import GuardedServer

from multi_llm_chat.config.secrets import FileSecrets
from multi_llm_chat.tools.mcp import (
    Elicitation,
    ElicitationAnswer,
)


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
            {"guarded": {"trusted": True, "url": guarded.url}},
            elicit=visiting(asked),
            tokens=FileSecrets(path),
        )
        with scene.servers:
            assert scene.call("treasure").content == "gold"
    assert [(question.server, question.mode) for question in asked] == [("guarded", "url")]
    assert asked[0].url is not None
    assert asked[0].url.startswith(guarded.url.removesuffix("mcp"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert next(iter(guarded.guard.tokens)) in path.read_text()


def test_without_anybody_to_ask_the_server_is_not_used(guarded: GuardedServer) -> None:
    scene = Scene({"guarded": {"trusted": True, "url": guarded.url}}, elicit=None, backoff=())
    with scene.servers:
        (state,) = scene.servers.states()
    assert state.state == "failed"
    assert "demands a sign-in" in state.message
    assert guarded.guard.tokens == {}


def test_an_authorization_of_the_settings_is_used_as_it_is(guarded: GuardedServer) -> None:
    asked: list[Elicitation] = []
    entry = {"trusted": True, "url": guarded.url, "headers": {"authorization": "Bearer wrong"}}
    scene = Scene({"guarded": entry}, elicit=visiting(asked), backoff=())
    with scene.servers:
        (state,) = scene.servers.states()
    assert state.state == "failed"
    assert asked == []
