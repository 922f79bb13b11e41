"""``request``, ``ask`` and ``ask_sync``: the building blocks of a provider's other methods."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.replies import whole_of
from tests.asking import HISTORY
from tests.servers import Reset, serving

from multi_llm_chat import ModelRequest, Options, ToolRegistry, create_provider
from multi_llm_chat.agent.providers import ClaudeProvider, FallbackProvider, LLMProvider
from multi_llm_chat.errors import UsageError
from multi_llm_chat.history.reader import read_history
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.repair.policy import RepairPolicy

TURNS = read_history(HISTORY)
ONCE = RetryPolicy(attempts=1)


def test_a_request_has_what_the_provider_and_the_call_say() -> None:
    provider = LLMProvider(
        "groq",
        model="m",
        api_key="k",
        base_url="http://here/v1",
        speaker="bob",
        options={"temperature": 0.5},
        headers={"X-Team": "blue"},
    )
    policy = RepairPolicy(foreign="drop")
    schema = {"type": "object"}
    request = provider.request(
        HISTORY, "Be brief.", options={"max_tokens": 3}, schema=schema, policy=policy, stream=False
    )
    assert request == ModelRequest(
        TURNS,
        "groq",
        model="m",
        system_prompt="Be brief.",
        policy=policy,
        options=Options(temperature=0.5, max_tokens=3, schema=schema),
        stream=False,
        speaker="bob",
        base_url="http://here/v1",
        headers={"X-Team": "blue"},
    )


def test_both_ways_perform_the_request_that_was_made() -> None:
    with serving(whole_of("anthropic")) as server:
        provider = ClaudeProvider(api_key="k", base_url=server.url)
        request = provider.request(HISTORY, stream=False)

        async def ask() -> str:
            async with provider, provider.ask(request) as stream:
                _ = [event async for event in stream]
                return stream.reply.text

        with provider.ask_sync(request) as stream:
            _ = list(stream)
        assert stream.reply.text == asyncio.run(ask()) == provider.complete(HISTORY).text
        provider.close()
    bodies = [sent.body for sent in server.requests]
    assert bodies[0] == bodies[1] == bodies[2]


def test_what_a_request_leaves_open_is_the_providers() -> None:
    with (
        serving(whole_of("anthropic")) as server,
        ClaudeProvider(api_key="k", base_url=server.url, model="own") as provider,
    ):
        bare = ModelRequest(TURNS, "claude", stream=False)
        for request in (bare, replace(bare, model="other", speaker="bob")):
            with provider.ask_sync(request) as stream:
                _ = list(stream)
                assert stream.reply.turn.role == (request.speaker or "claude")
    assert [sent.json["model"] for sent in server.requests] == ["own", "other"]


def test_a_request_for_another_provider_takes_nothing_of_it_along() -> None:
    with (
        serving(whole_of("anthropic")) as server,
        ClaudeProvider(api_key="k", base_url=server.url, model="own") as provider,
    ):
        request = ModelRequest(
            TURNS,
            "gemini",
            model="gemini-x",
            speaker="bob",
            base_url="http://127.0.0.1:1",
            headers={"X-Google": "secret"},
            stream=False,
        )
        with provider.ask_sync(request) as stream:
            _ = list(stream)
        assert stream.reply.turn.role == "claude"
    [sent] = server.requests
    assert sent.json["model"] == "own"
    assert "x-google" not in sent.headers


def test_a_request_cannot_send_the_key_to_another_address() -> None:
    with (
        serving(whole_of("anthropic")) as server,
        serving(whole_of("anthropic")) as other,
        ClaudeProvider(api_key="k", base_url=server.url) as provider,
    ):
        request = ModelRequest(TURNS, "anthropic", base_url=other.url, stream=False)
        with provider.ask_sync(request) as stream:
            _ = list(stream)
    assert (len(server.requests), other.connections) == (1, 0)


def test_members_of_one_kind_are_asked_each_with_its_own_model() -> None:
    with serving([Reset()]) as first, serving(whole_of("anthropic")) as second:
        inner = FallbackProvider(
            [
                ClaudeProvider(api_key="k1", base_url=first.url, model="m1", retry=ONCE),
                ClaudeProvider(api_key="k2", base_url=second.url, model="m2", retry=ONCE),
            ]
        )
        with FallbackProvider([inner]) as chain:  # a chain may be a member too
            reply = chain.complete(HISTORY)
    assert reply.turn.model == "m2"
    [sent] = second.requests
    assert (sent.json["model"], sent.headers["x-api-key"]) == ("m2", "k2")


def test_a_keyword_that_no_call_has_is_named() -> None:
    provider = ClaudeProvider(api_key="k")
    wrong: dict[str, Any] = {"colour": "red"}
    for call in (provider.call_api, provider.stream, provider.astream, provider.request):
        with pytest.raises(TypeError, match="colour"):
            call(HISTORY, **wrong)
    with pytest.raises(UsageError, match="Unknown options: colour"):
        provider.request(HISTORY, options={"colour": "red"})


def test_tools_are_functions_registries_definitions_or_a_mixture():
    def add(first: int, second: int) -> int:
        """Add two numbers."""
        return first + second

    registry = ToolRegistry()
    registry.tool(name="subtract")(add)
    given: list[Any] = [
        add,
        registry,
        {"name": "look", "description": "", "inputSchema": {"type": "object"}},
    ]
    provider = create_provider("openai", api_key="k")
    assert [tool.name for tool in provider.request("hi", tools=given).tools] == [
        "add",
        "subtract",
        "look",
    ]
    assert [tool.name for tool in provider.request("hi", tools=registry).tools] == ["subtract"]
    assert [tool.name for tool in provider.request("hi", tools=add).tools] == ["add"]


def test_the_error_for_a_misplaced_setting_says_where_it_belongs():
    provider: Any = create_provider("openai", api_key="k")
    with pytest.raises(TypeError, match="'temperature' is an option"):
        provider.complete("hi", temperature=0.5)
    with pytest.raises(TypeError, match="unknown argument 'temprature'"):
        provider.complete("hi", temprature=0.5)


def test_a_provider_speaks_under_another_name():
    provider = create_provider("openai", api_key="k")
    assert provider.with_speaker("gpt").request("hi").speaker == "gpt"
    assert provider.speaker == "chatgpt"
    chain = FallbackProvider([provider, create_provider("anthropic", api_key="k")])
    assert [each.speaker for each in chain.with_speaker("both").chain] == ["both", "both"]
