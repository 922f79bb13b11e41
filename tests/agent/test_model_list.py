"""The list of models, in every form that providers return."""

from typing import Any

import pytest
from tests.asking import Asker
from tests.servers import Reset, serving, whole

from multi_llm_chat.agent.providers import ModelInfo, create_provider
from multi_llm_chat.errors import AuthError, ConnectionFailed, ProviderError


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("openai", {"data": [{"id": "gpt-5", "object": "model"}]}, [ModelInfo("gpt-5")]),
        ("together", [{"id": "a", "context_length": 8192}], [ModelInfo("a", "", 8192)]),
        (
            "groq",
            {"data": [{"id": "a", "context_window": 1000}, {}, 7]},
            [ModelInfo("a", "", 1000)],
        ),
        ("vllm", {"data": [{"id": "a", "max_model_len": 2048}]}, [ModelInfo("a", "", 2048)]),
        (
            "anthropic",
            {"data": [{"id": "claude-x", "display_name": "Claude X"}], "has_more": False},
            [ModelInfo("claude-x", "Claude X")],
        ),
        (
            "gemini",
            {"models": [{"name": "models/g", "displayName": "G", "inputTokenLimit": 9}]},
            [ModelInfo("g", "G", 9)],
        ),
        ("ollama", {"object": "list", "data": []}, []),
    ],
)
def test_a_list_is_read(asker: Asker, name: str, body: Any, expected: list[ModelInfo]) -> None:
    with serving(whole(body)) as server:
        models = asker.list_models(create_provider(name, base_url=server.url, api_key="k"))
    assert models == expected
    assert server.requests[0].method == "GET"
    assert server.requests[0].target.partition("?")[0].endswith("/models")


@pytest.mark.parametrize(
    ("entry", "abilities"),
    [
        ({}, None),
        ({"capabilities": {"image_input": {"supported": True}, "thinking": {"supported": False}}}, {"tools", "pictures"}),
        ({"capabilities": {"function_calling": True, "vision": False}}, {"tools"}),
        ({"supported_parameters": ["tools", "reasoning"]}, {"tools", "thinking"}),
        ({"architecture": {"input_modalities": ["text", "image"]}, "supported_parameters": []}, {"pictures"}),
        ({"capabilities": [1], "architecture": 7, "supported_parameters": "tools"}, None),
    ],
)  # fmt: skip
def test_abilities_are_those_that_the_provider_reports(
    asker: Asker, entry: Any, abilities: set[str] | None
) -> None:
    with serving(whole({"data": [{"id": "a", **entry}]})) as server:
        (model,) = asker.list_models(
            create_provider("openrouter", base_url=server.url, api_key="k")
        )
    assert model.abilities == abilities


@pytest.mark.parametrize(
    ("name", "first", "target"),
    [
        ("gemini", {"models": [{"name": "models/a"}], "nextPageToken": "t/1"}, "pageToken=t%2F1"),
        ("anthropic", {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}, "after_id=a"),
    ],
)
def test_all_pages_are_read(asker: Asker, name: str, first: Any, target: str) -> None:
    with serving(whole(first), whole({"data": [{"id": "b"}]})) as server:
        models = asker.list_models(create_provider(name, base_url=server.url, api_key="k"))
    assert [model.id for model in models] == ["a", "b"]
    assert server.requests[1].target.endswith(target)
    assert server.connections == 1


def test_pages_without_end_are_not_followed_for_ever(asker: Asker) -> None:
    with serving(whole({"models": [], "nextPageToken": "again"})) as server:
        asker.list_models(create_provider("gemini", base_url=server.url, api_key="k"))
    assert len(server.requests) == 50


def test_what_is_no_list_is_an_error(asker: Asker) -> None:
    with serving(whole({"error": {"message": "Invalid API key"}}, 401), whole({"a": 1})) as server:
        with pytest.raises(AuthError):
            asker.list_models(create_provider("openai", base_url=server.url, api_key="k"))
        with pytest.raises(ProviderError, match="no list of models"):
            asker.list_models(create_provider("openai", base_url=server.url, api_key="k"))
    with serving([Reset()]) as server, pytest.raises(ConnectionFailed):
        asker.list_models(create_provider("openai", base_url=server.url, api_key="k"))
