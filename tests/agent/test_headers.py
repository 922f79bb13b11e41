"""Extra HTTP headers: they are sent, they replace ours except the key's, and they never appear in output."""

import traceback
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from rich.pretty import pretty_repr
from tests.agent.replies import whole_of
from tests.asking import HISTORY, Asker
from tests.servers import Received, Reset, Script, serving, streamed, whole

from multi_llm_chat.agent.providers import ClaudeProvider, LLMProvider, create_provider
from multi_llm_chat.errors import MultiLLMChatError, UsageError
from multi_llm_chat.protocol.retry import ONCE

SECRET = "hush0123456789"


def sent(asker: Asker, headers: Mapping[str, str], name: str = "anthropic") -> Received:
    with serving(whole_of(name.replace("-", "_"))) as server:
        asker.complete(create_provider(name, base_url=server.url, api_key="k", headers=headers))
    return server.requests[0]


def test_a_header_arrives(asker: Asker) -> None:
    assert sent(asker, {"X-Team": "blue team"}).headers["x-team"] == "blue team"


@pytest.mark.parametrize(
    ("name", "value"),
    [("Anthropic-Version", "2030-01-01"), ("USER-AGENT", "mine/1"), ("accept-encoding", "gzip"), ("content-type", "application/json; x=1")],
)  # fmt: skip
def test_a_header_of_the_callers_replaces_ours_in_any_case(
    asker: Asker, name: str, value: str
) -> None:
    request = sent(asker, {name: value})
    assert request.headers[name.lower()] == value


@pytest.mark.parametrize(
    ("provider", "name", "value"),
    [("anthropic", "X-API-Key", "k"), ("openai-chat", "authorization", "Bearer k")],
)
def test_the_key_cannot_be_replaced(asker: Asker, provider: str, name: str, value: str) -> None:
    assert sent(asker, {name: SECRET}, provider).headers[name.lower()] == value


def test_without_a_key_its_header_may_be_given(asker: Asker) -> None:
    with serving(whole_of("openai_chat")) as server:
        headers = {"Authorization": "Basic abc"}
        asker.complete(create_provider("ollama", base_url=server.url, headers=headers))
    assert server.requests[0].headers["authorization"] == "Basic abc"


def test_a_request_adds_to_the_headers_of_its_provider() -> None:
    with (
        serving(whole_of("anthropic")) as server,
        ClaudeProvider(
            api_key="k", base_url=server.url, headers={"X-A": "1", "X-B": "2"}
        ) as provider,
    ):
        request = replace(provider.request(HISTORY, stream=False), headers={"X-B": "3"})
        with provider.ask_sync(request) as stream:
            _ = list(stream)
    headers = server.requests[0].headers
    assert (headers["x-a"], headers["x-b"]) == ("1", "3")


def test_a_list_of_models_is_asked_for_with_them(asker: Asker) -> None:
    with serving(whole({"data": []})) as server:
        headers = {"X-Team": "blue"}
        asker.list_models(
            create_provider("openai", base_url=server.url, api_key="k", headers=headers)
        )
    assert server.requests[0].headers["x-team"] == "blue"


@pytest.mark.parametrize(
    "headers",
    [{"X": f"{SECRET}\r\nY: 1"}, {"X": f"{SECRET}é"}, {"a b": SECRET}, {"": SECRET}, {"Content-Length": SECRET}, {"host": SECRET}],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_when_the_provider_is_made(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError) as raised:
        LLMProvider("openai", headers=headers)
    assert SECRET not in str(raised.value)
    request = replace(LLMProvider("openai", api_key="k").request(HISTORY), headers=headers)
    with pytest.raises(UsageError):
        LLMProvider("openai", api_key="k").ask_sync(request)


def shown(value: object) -> list[str]:
    return [
        repr(value),
        pretty_repr(value),
        repr(vars(value)) if hasattr(value, "__dict__") else "",
    ]


def test_no_object_shows_a_header() -> None:
    with serving(whole_of("openai_chat")) as server:
        made: dict[str, Any] = {"base_url": server.url, "headers": {"X": SECRET}}
        provider = create_provider("openai-chat", api_key="k", **made)
        request = provider.request(HISTORY, stream=False)
        with provider, provider.ask_sync(request) as stream:
            next(stream)
            for value in (provider, request, stream, stream.reply):
                assert [text for text in shown(value) if SECRET in text] == []


ECHO = {"error": {"message": f"bad header X: {SECRET}"}}
TROUBLES: dict[str, Script] = {
    "refused": whole(ECHO, 401),
    "rejected": whole(ECHO, 400),
    "lost": [Reset()],
    "redirected": whole({}, 302, Location=f"http://x/?x={SECRET}"),
    "error inside": streamed(b'data: {"error":{"message":"no %s"}}\n\n' % SECRET.encode()),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES.keys())
@pytest.mark.parametrize("name", ["openai", "openai-chat", "anthropic", "gemini"])
def test_no_error_shows_a_header(asker: Asker, name: str, trouble: Script) -> None:
    with serving(trouble) as server:
        headers = {"X": SECRET}
        provider = create_provider(
            name, base_url=server.url, api_key="k", retry=ONCE, headers=headers
        )
        failure = asker.stream(provider).failure
    assert isinstance(failure, MultiLLMChatError)
    seen: BaseException | None = failure
    while seen is not None:
        texts = [*traceback.format_exception(seen), repr(seen), str(vars(seen)), str(seen.args)]
        assert [text for text in texts if SECRET in text] == []
        seen = seen.__cause__ or seen.__context__


def test_no_error_of_a_list_of_models_shows_a_header(asker: Asker) -> None:
    with serving(whole(ECHO, 400)) as server:
        headers = {"X": SECRET}
        provider = create_provider("openai", base_url=server.url, api_key="k", headers=headers)
        with pytest.raises(MultiLLMChatError) as raised:
            asker.list_models(provider)
    assert SECRET not in f"{raised.value!r} {raised.value.args}"
