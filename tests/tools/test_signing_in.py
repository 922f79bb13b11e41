"""Remote servers that require a sign-in."""

import asyncio
import json
import stat
import urllib.request
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl
from tests.servers import choose_port
from tests.tools.conftest import Scene
from tests.tools.servers.guarded import GuardedServer

from multi_llm_chat.config.secrets import FileSecrets, MemorySecrets
from multi_llm_chat.tools.mcp import (
    Elicitation,
    ElicitationAnswer,
)
from multi_llm_chat.tools.mcp._oauth import sign_in
from multi_llm_chat.tools.mcp._server_requests import Answers, Callbacks
from multi_llm_chat.tools.mcp._server_transports import LimitedTransport, is_private
from multi_llm_chat.tools.mcp.server_settings import read_servers


@pytest.fixture
def guarded() -> Generator[GuardedServer]:
    server = GuardedServer()
    yield server
    server.close()


def visiting(asked: list[Elicitation]) -> object:
    """Return a user who opens the address in a browser."""

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


def test_a_token_that_expired_while_the_program_was_closed_is_renewed_without_the_user(
    guarded: GuardedServer, tmp_path: Path
) -> None:
    asked: list[Elicitation] = []
    kept = FileSecrets(tmp_path / "tokens.json")
    entries = {"guarded": {"trusted": True, "url": guarded.url}}
    for _ in range(2):
        scene = Scene(entries, elicit=visiting(asked), tokens=kept)
        with scene.servers:
            assert scene.call("treasure").content == "gold"
        # An hour later: the token no longer works, and has expired.
        guarded.guard.tokens.clear()
        state = json.loads(kept.read(f"{guarded.url} state") or "")
        kept.write(f"{guarded.url} state", json.dumps(state | {"expires": 1.0}))
    assert len(asked) == 1
    assert guarded.guard.renewals == 1


@pytest.mark.parametrize("secret", ["", "the secret of the program"])
def test_a_registration_of_the_settings_is_used(guarded: GuardedServer, secret: str) -> None:
    method = "client_secret_post" if secret else "none"
    asked: list[Elicitation] = []
    entry = {
        "trusted": True,
        "url": guarded.url,
        "oauth": {"clientId": "known", "clientSecret": secret},
    }
    port = choose_port()
    scene = Scene({"guarded": entry}, elicit=visiting(asked), redirect_port=port)
    guarded.guard.clients["known"] = OAuthClientInformationFull(
        client_id="known",
        client_secret=secret or None,
        redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
        token_endpoint_auth_method=method,
        grant_types=["authorization_code", "refresh_token"],
    )
    with scene.servers:
        assert scene.call("treasure").content == "gold"
    assert list(guarded.guard.clients) == ["known"]  # nothing was registered


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1", True),
        ("169.254.169.254", True),
        ("10.1.2.3", True),
        ("::1", True),
        ("8.8.8.8", False),
        ("no-such-host.invalid", False),
    ],
)
def test_addresses_of_this_network_are_known_as_such(host: str, private: bool) -> None:
    assert asyncio.run(is_private(host)) == private


def test_for_a_public_server_nothing_private_is_fetched() -> None:
    async def fetch() -> None:
        transport = LimitedTransport(httpx2.AsyncHTTPTransport(), "8.8.8.8")
        async with httpx2.AsyncClient(transport=transport) as client:
            await client.get("http://169.254.169.254/latest/meta-data")

    with pytest.raises(httpx2.ConnectError, match="it is not fetched"):
        asyncio.run(fetch())


@pytest.fixture
def guarded_at_another_origin() -> Generator[GuardedServer]:
    """Run a server whose users sign in at another origin."""
    server = GuardedServer("localhost")
    yield server
    server.close()


def test_the_user_is_asked_once_before_another_origin_is_visited(
    guarded_at_another_origin: GuardedServer, tmp_path: Path
) -> None:
    kept = FileSecrets(tmp_path / "tokens.json")
    asked: list[Elicitation] = []
    visit: Any = visiting(asked)

    def elicit(question: Elicitation) -> ElicitationAnswer:
        if question.url is None:
            asked.append(question)
            return ElicitationAnswer("accept")
        return visit(question)

    entries = {"guarded": {"trusted": True, "url": guarded_at_another_origin.url}}
    for _ in range(2):
        scene = Scene(entries, elicit=elicit, tokens=kept)
        with scene.servers:
            assert scene.call("treasure").content == "gold"
        # An hour later: the token is renewed at the other origin.
        guarded_at_another_origin.guard.tokens.clear()
        state = json.loads(kept.read(f"{guarded_at_another_origin.url} state") or "")
        kept.write(f"{guarded_at_another_origin.url} state", json.dumps(state | {"expires": 1.0}))
    assert [question.mode for question in asked] == ["form", "url"]
    assert guarded_at_another_origin.issuer in asked[0].message
    assert guarded_at_another_origin.guard.renewals == 1


def test_an_origin_that_the_user_does_not_allow_is_not_visited(
    guarded_at_another_origin: GuardedServer,
) -> None:
    asked: list[Elicitation] = []

    def decline(question: Elicitation) -> ElicitationAnswer:
        asked.append(question)
        return ElicitationAnswer("decline")

    entries = {"guarded": {"trusted": True, "url": guarded_at_another_origin.url}}
    scene = Scene(entries, elicit=decline, backoff=())
    with scene.servers:
        (state,) = scene.servers.states()
    assert state.state == "failed"
    assert "was not allowed" in state.message
    assert [question.mode for question in asked] == ["form"]
    assert guarded_at_another_origin.guard.clients == {}


@pytest.mark.parametrize(
    ("supported", "method"),
    [
        (None, "client_secret_basic"),
        (["client_secret_basic"], "client_secret_basic"),
        (["client_secret_basic", "client_secret_post"], "client_secret_post"),
        (["private_key_jwt"], "client_secret_post"),
    ],
)
def test_a_secret_of_the_settings_is_sent_as_the_authorization_server_supports(
    guarded: GuardedServer, supported: list[str] | None, method: str
) -> None:
    """RFC 8414, section 2: a server that names no method supports ``client_secret_basic``."""
    entry = {"url": guarded.url, "oauth": {"clientId": "known", "clientSecret": "secret"}}
    (settings,) = read_servers({"mcpServers": {"guarded": entry}}).servers
    provider: Any = sign_in(
        settings, Answers(settings, Callbacks(), nullcontext, tuple), MemorySecrets(), 1
    )

    async def choose() -> str | None:
        await provider._initialize()
        provider.context.oauth_metadata = OAuthMetadata(
            issuer=AnyHttpUrl(guarded.issuer),
            authorization_endpoint=AnyHttpUrl(f"{guarded.issuer}/authorize"),
            token_endpoint=AnyHttpUrl(f"{guarded.issuer}/token"),
            token_endpoint_auth_methods_supported=supported,
        )
        provider.context.current_tokens = OAuthToken(access_token="a", refresh_token="r")
        request = await provider._refresh_token()
        is_basic = "authorization" in request.headers
        assert is_basic == (b"client_secret" not in request.content)
        return "client_secret_basic" if is_basic else "client_secret_post"

    assert asyncio.run(choose()) == method
