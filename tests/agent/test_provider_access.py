"""Keys and base URLs: where they come from, and that keys are never shown."""

import asyncio
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.agent.replies import whole_of
from tests.asking import HISTORY, Asker
from tests.servers import Reset, Script, Send, serving, streamed, whole

from multi_llm_chat.agent.provider_access import ProviderAccess
from multi_llm_chat.agent.providers import (
    ChatGPTProvider,
    ClaudeProvider,
    GeminiProvider,
    create_provider,
)
from multi_llm_chat.chat.speakers import configured_speakers
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.config.secrets import MemorySecrets
from multi_llm_chat.config.settings import Settings
from multi_llm_chat.errors import AuthError, MultiLLMChatError, UsageError
from multi_llm_chat.protocol.providers import ROWS, provider_row
from multi_llm_chat.protocol.retry import ONCE
from multi_llm_chat.runs.execute_with_tools import execute_with_tools_sync
from multi_llm_chat.tools import ToolRegistry

MARKER = "sk-m4rk3r-0123456789"


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in ROWS.values():
        for variable in row.key_variables:
            monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (ChatGPTProvider, "OPENAI_API_KEY is not set"),
        (GeminiProvider, "GEMINI_API_KEY is not set"),
        (ClaudeProvider, "ANTHROPIC_API_KEY is not set"),
    ],
)
def test_without_a_key_every_call_fails_before_any_network(
    made: Callable[..., Any], message: str
) -> None:
    with serving(whole({})) as server:
        provider = made(base_url=server.url)
        for call in (
            provider.call_api,
            provider.acall_api,
            provider.stream,
            provider.astream,
            provider.complete,
        ):
            with pytest.raises(ValueError, match=message):
                call(HISTORY)
        with pytest.raises(ValueError, match=message):
            asyncio.run(provider.acomplete(HISTORY))
        with pytest.raises(ValueError, match=message):
            provider.list_models()
        assert server.connections == 0


@pytest.mark.usefixtures("no_keys")
def test_a_key_set_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(whole_of("anthropic")) as server, ClaudeProvider(base_url=server.url) as provider:
        with pytest.raises(UsageError):
            provider.complete(HISTORY)
        monkeypatch.setenv("ANTHROPIC_API_KEY", " from-environment\n")
        provider.complete(HISTORY)
        assert server.requests[0].headers["x-api-key"] == "from-environment"


def test_an_argument_wins_over_the_environment() -> None:
    row = provider_row("openai")
    environment = {"OPENAI_API_KEY": "environment", "OPENAI_BASE_URL": "http://environment/v9"}
    given = ProviderAccess(
        row, api_key="argument", base_url="http://argument/v9", environment=environment
    )
    assert (given.key(), given.base_url()) == ("argument", "http://argument/v9")
    from_environment = ProviderAccess(row, environment=environment)
    assert (from_environment.key(), from_environment.base_url()) == (
        "environment",
        "http://environment/v9",
    )
    assert ProviderAccess(row, environment={}).base_url() == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai-chat", "OPENAI_CHAT_BASE_URL"), ("groq", "GROQ_BASE_URL"), ("vllm", "VLLM_BASE_URL")],
)  # fmt: skip
def test_every_provider_has_a_variable_for_its_address(name: str, variable: str) -> None:
    access = ProviderAccess(provider_row(name), environment={variable: "http://here/x"})
    assert access.base_url() == "http://here/x"


@pytest.mark.parametrize(
    ("name", "url", "expected"),
    [
        ("openai", "http://localhost:8000", "http://localhost:8000/v1"),
        ("gemini", "http://localhost:8000", "http://localhost:8000/v1beta"),
        ("anthropic", "https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("deepseek", "http://localhost", "http://localhost"),
        ("openai", "http://localhost:8000/", "http://localhost:8000/"),
        ("openai", "http://localhost:8000/v2", "http://localhost:8000/v2"),
    ],
)
def test_an_address_without_a_path_gets_the_providers(name: str, url: str, expected: str) -> None:
    assert ProviderAccess(provider_row(name), base_url=url, environment={}).base_url() == expected


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x", "http://", "http://[::1", "http://me:secret@host/v1", "x"]
)
def test_an_unusable_address_is_the_callers_mistake(url: str) -> None:
    with pytest.raises(UsageError) as raised:
        ProviderAccess(provider_row("openai"), base_url=url, environment={}).base_url()
    assert "secret" not in str(raised.value)


def test_azure_needs_an_address_of_its_own() -> None:
    with pytest.raises(UsageError, match="AZURE_BASE_URL"):
        ProviderAccess(provider_row("azure"), environment={}).base_url()


@pytest.mark.parametrize("key", ["a b", "schlüssel", "a\nb", "“quoted”"])
def test_what_cannot_be_a_key_is_not_sent_and_not_shown(key: str) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as raised:
        ProviderAccess(provider_row("openai"), api_key=key, environment={}).key()
    assert key not in str(raised.value)


def test_a_local_server_needs_no_key_and_may_have_one() -> None:
    assert ProviderAccess(provider_row("ollama"), environment={}).key() is None
    assert ProviderAccess(provider_row("ollama"), api_key="k", environment={}).key() == "k"


def texts(failure: BaseException) -> Iterator[str]:
    """Return everything that a log or a screen could show of an error."""
    yield from traceback.format_exception(failure)
    seen: BaseException | None = failure
    while seen is not None:
        yield repr(seen)
        yield str(vars(seen))
        yield str(seen.args)
        seen = seen.__cause__ or seen.__context__


ECHO = {"error": {"message": f"Incorrect API key provided: {MARKER}. Check https://x."}}
TROUBLES: dict[str, Script] = {
    "key refused and echoed": whole(ECHO, 401),
    "rejected": whole(ECHO, 400),
    "lost": [Reset()],
    "cut": streamed([b"data: x"], ending=[Reset()]),
    "no HTTP": [Send(f"{MARKER} is no status line\r\n\r\n".encode()), Reset()],
    "redirected": whole({}, 302, Location=f"http://x/?key={MARKER}"),
    "error inside": streamed(b'data: {"error":{"message":"no %s"}}\n\n' % MARKER.encode()),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES.keys())
@pytest.mark.parametrize("name", ["openai", "openai-chat", "anthropic", "gemini"])
def test_no_error_shows_the_key(asker: Asker, name: str, trouble: Script) -> None:
    with serving(trouble) as server:
        provider = create_provider(name, base_url=server.url, api_key=MARKER, retry=ONCE)
        failure = asker.stream(provider).failure
    assert isinstance(failure, MultiLLMChatError)
    assert [text for text in texts(failure) if MARKER in text] == []


def test_no_object_shows_the_key() -> None:
    with serving(whole_of("openai_chat")) as server:
        provider = create_provider("openai-chat", base_url=server.url, api_key=MARKER)
        with provider, provider.stream(HISTORY) as stream:
            next(stream)
            shown = [provider, stream, vars(provider), vars(stream), stream.reply]
            assert [item for item in shown if MARKER in repr(item)] == []


@pytest.mark.usefixtures("no_keys")
def test_a_missing_key_is_an_error_of_access_and_of_the_caller() -> None:
    """SPEC, section 3: ``AuthError`` that is also a ``ValueError``, with seed 000's text."""
    with pytest.raises(AuthError) as caught:
        ChatGPTProvider().call_api(HISTORY)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UsageError)
    assert str(caught.value) == "OPENAI_API_KEY is not set"
    with pytest.raises(ValueError, match="OPENAI_API_KEY is not set"):
        execute_with_tools_sync(ChatGPTProvider(), HISTORY, ToolRegistry())


@pytest.mark.usefixtures("no_keys")
def test_googles_own_name_of_the_key_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "google-key")
    with serving(whole_of("gemini")) as server:
        assert GeminiProvider(base_url=server.url).complete(HISTORY).text
    assert server.requests[0].headers["x-goog-api-key"] == "google-key"
    monkeypatch.setenv("GEMINI_API_KEY", "gemini-key")
    with serving(whole_of("gemini")) as server:
        assert GeminiProvider(base_url=server.url).complete(HISTORY).text
    assert server.requests[0].headers["x-goog-api-key"] == "gemini-key"
    keys = Keys(environment={"GOOGLE_API_KEY": "google-key"}, secrets=MemorySecrets())
    speakers = configured_speakers(Settings(), keys)
    assert list(speakers) == ["gemini"]
    assert speakers["gemini"].provider.model


@pytest.mark.parametrize(
    ("made", "variable"), [(ChatGPTProvider, "CHATGPT_MODEL"), (GeminiProvider, "GEMINI_MODEL")]
)
def test_the_environment_names_the_model(
    made: Callable[..., Any], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "my-model")
    assert made().model == "my-model"
    assert made(model="other").model == "other"
    monkeypatch.delenv(variable)
    assert made().model == made().row.default_model


def test_a_model_may_be_named_as_google_lists_it() -> None:
    with serving(whole_of("gemini")) as server:
        provider = GeminiProvider(model="models/gemini-3.7-flash", api_key="k", base_url=server.url)
        provider.complete(HISTORY)
    assert "/models/gemini-3.7-flash:" in server.requests[0].target
    assert "models/models" not in server.requests[0].target


@pytest.mark.parametrize("given", ["http://here/gate", "http://here/gate/", "http://here/gate/v1"])
def test_anthropics_address_may_stand_without_its_version(given: str) -> None:
    access = ProviderAccess(provider_row("anthropic"), environment={"ANTHROPIC_BASE_URL": given})
    assert access.base_url() == "http://here/gate/v1"
