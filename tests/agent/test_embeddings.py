"""Texts as vectors: in batches, in order, with typed errors; the vendors' own libraries read the simulator's replies."""

import asyncio
import json
from collections.abc import Iterable
from functools import partial
from typing import Any

import openai
import pydantic
import pytest
from google import genai
from hypothesis import given
from hypothesis import strategies as st
from openai.types import EmbeddingCreateParams
from tests.servers import Script, serving, whole
from tests.spans import recorded

from multi_llm_chat.agent.embeddings import Embeddings
from multi_llm_chat.agent.providers import FallbackProvider, LLMProvider, create_provider
from multi_llm_chat.errors import (
    AuthError,
    MissingKey,
    MultiLLMChatError,
    ProviderError,
    RateLimited,
    UsageError,
)
from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.protocol.retry import ONCE, RetryPolicy
from multi_llm_chat.testing.simulator import Simulator

WITH = [name for name, row in ROWS.items() if row.embeddings is not None]
WITHOUT = [name for name, row in ROWS.items() if row.embeddings is None]
FAST = RetryPolicy(first_wait=0.0, longest_wait=0.0)


def embed(
    provider: LLMProvider, texts: str | Iterable[str], *, is_async: bool, **settings: Any
) -> Embeddings:
    if not is_async:
        with provider:
            return provider.embed(texts, **settings)

    async def run() -> Embeddings:
        async with provider:
            return await provider.aembed(texts, **settings)

    return asyncio.run(run())


def provider_at(simulator: Simulator, name: str) -> LLMProvider:
    return create_provider(name, base_url=simulator.base_url(name), api_key="key")


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.mark.parametrize("name", WITH)
def test_every_row_with_an_endpoint_makes_vectors(name: str, is_async: bool) -> None:
    texts = ["one", "two", "one"]
    with Simulator() as simulator:
        provider = create_provider(name, base_url=simulator.base_url(name), api_key="key")
        found = embed(provider, texts, is_async=is_async)
    assert len(found.vectors) == 3
    assert found.vectors[0] == found.vectors[2] != found.vectors[1]
    assert (found.provider, found.model) == (name, ROWS[name].embeddings.default_model)  # type: ignore[union-attr]
    assert (found.input_tokens is None) == (name == "gemini")


@pytest.mark.parametrize("name", WITHOUT)
def test_a_provider_without_an_endpoint_says_so_before_any_network(name: str) -> None:
    with create_provider(name) as provider, pytest.raises(UsageError, match="no endpoint"):
        provider.embed("text")


def test_no_row_that_the_simulator_has_is_forgotten() -> None:
    with Simulator() as simulator:
        for name in WITHOUT:
            address = simulator.base_url(name)
            with (
                openai.OpenAI(base_url=address, api_key="k", max_retries=0) as client,
                pytest.raises(openai.NotFoundError),
            ):
                client.embeddings.create(model="m", input="x")


@pytest.mark.parametrize("name", ["openai", "gemini", "mistral", "dashscope"])
@given(count=st.integers(0, 130))
def test_batches_are_as_large_as_the_provider_takes_and_vectors_in_order(
    name: str, count: int
) -> None:
    texts = [f"text {number}" for number in range(count)]
    api = ROWS[name].embeddings
    assert api is not None
    with Simulator() as simulator:
        provider = create_provider(name, base_url=simulator.base_url(name), api_key="key")
        found = embed(provider, texts, is_async=False)
        assert len(simulator.requests) == -(-count // api.most_texts)
        single = create_provider(name, base_url=simulator.base_url(name), api_key="key")
        if texts:
            assert found.vectors[-1] == embed(single, texts[-1], is_async=True).vectors[0]
    assert len(found.vectors) == count


@pytest.mark.parametrize("name", ["openai", "gemini", "mistral"])
def test_the_length_of_vectors_is_chosen(name: str) -> None:
    with Simulator() as simulator:
        provider = create_provider(name, base_url=simulator.base_url(name), api_key="key")
        assert len(embed(provider, "x", is_async=False, dimensions=5).vectors[0]) == 5
    provider = create_provider("together", api_key="key")
    with provider, pytest.raises(UsageError, match="length of vectors"):
        provider.embed("x", dimensions=5)


def test_packed_vectors_are_read(is_async: bool) -> None:
    with Simulator() as simulator:
        make = partial(provider_at, simulator, "openai")
        plain = embed(make(), ["a", "b"], is_async=is_async)
        packed = embed(make(), ["a", "b"], is_async=is_async, extra={"encoding_format": "base64"})
    assert [pytest.approx(vector) for vector in plain.vectors] == list(packed.vectors)


def test_failures_are_typed_and_passing_ones_retried(is_async: bool) -> None:
    good = {"data": [{"index": 0, "embedding": [1, 2.5]}], "usage": {"prompt_tokens": 3}}
    busy = whole({"error": {"message": "slow down"}}, status=429)
    with serving(busy, whole(good)) as server:
        provider = create_provider("openai", base_url=server.url, api_key="key", retry=FAST)
        found = embed(provider, "x", is_async=is_async)
    assert (found.vectors, found.input_tokens) == (((1.0, 2.5),), 3)
    secret = "sk-verysecretkey"
    denied = whole({"error": {"message": f"Incorrect API key {secret}"}}, status=401)
    for reply, error in ((denied, AuthError), (busy, RateLimited)):
        with serving(reply) as server:
            provider = create_provider("openai", base_url=server.url, api_key=secret, retry=ONCE)
            with pytest.raises(error) as raised:
                embed(provider, "x", is_async=is_async)
        assert secret not in str(raised.value)


MISFITS: list[Any] = [
        {}, [], {"data": []}, {"data": [{"embedding": []}]}, {"data": [{"embedding": ["a"]}]},
        {"data": [{"embedding": "!"}]}, {"data": [{"embedding": [1]}, {"embedding": [2]}]},
        {"data": [{"index": 4, "embedding": [1]}]}, {"data": [{"embedding": [1e999]}]}, "nonsense",
]  # fmt: skip


@pytest.mark.parametrize("body", MISFITS)
def test_a_reply_that_does_not_fit_is_an_error(body: object, is_async: bool) -> None:
    reply: Script = whole(json.dumps(body).encode())
    with serving(reply) as server, pytest.raises(ProviderError):
        embed(create_provider("ollama", base_url=server.url), "x", is_async=is_async)


def test_a_reply_of_many_values_is_not_decoded(is_async: bool) -> None:
    reply: Script = whole(b'{"data":[' + b"[]," * 50_000 + b"[]]}")
    with serving(reply) as server, pytest.raises(ProviderError, match="JSON values for 1 texts"):
        embed(create_provider("ollama", base_url=server.url), "x", is_async=is_async)


@pytest.mark.parametrize("texts", ["", ["a", ""], ["a", 3]])
def test_what_cannot_be_embedded_is_refused(texts: Any) -> None:
    with create_provider("ollama") as provider, pytest.raises(UsageError, match="Text"):
        provider.embed(texts)


def test_a_missing_key_is_reported_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with create_provider("openai") as provider, pytest.raises(MissingKey):
        provider.embed("x")


def test_a_chain_asks_its_first_member() -> None:
    with Simulator() as simulator:
        chain = FallbackProvider([create_provider("ollama", base_url=simulator.base_url("ollama"))])
        assert embed(chain, "x", is_async=False).provider == "ollama"


def test_the_vendors_libraries_read_the_replies_and_send_the_same() -> None:
    with Simulator() as simulator:
        with openai.OpenAI(base_url=simulator.base_url("openai"), api_key="key") as client:
            theirs = client.embeddings.create(
                model="text-embedding-3-small",
                input=["a", "b"],
                dimensions=4,
                encoding_format="float",
            )
        provider = create_provider("openai", base_url=simulator.base_url("openai"), api_key="key")
        ours = embed(provider, ["a", "b"], is_async=False, dimensions=4)
        first, second = (request.body for request in simulator.requests)
        assert second == {key: value for key, value in first.items() if key != "encoding_format"}
        pydantic.TypeAdapter(EmbeddingCreateParams).validate_python(second)
        assert [tuple(each.embedding) for each in sorted(theirs.data, key=lambda each: each.index)] == list(ours.vectors)  # fmt: skip
        options = genai.types.HttpOptions(
            base_url=simulator.base_url("gemini").removesuffix("/v1beta")
        )
        google = genai.Client(api_key="key", http_options=options)
        config = genai.types.EmbedContentConfig(output_dimensionality=4)
        answer = google.models.embed_content(model="gemini-embedding-001", contents=["a", "b"], config=config)  # fmt: skip
        provider = create_provider("gemini", base_url=simulator.base_url("gemini"), api_key="key")
        ours = embed(provider, ["a", "b"], is_async=False, dimensions=4)
        third, fourth = simulator.requests[2:]
        assert third.path.rpartition("/")[2] == fourth.path.rpartition("/")[2]
        assert [tuple(each.values or ()) for each in answer.embeddings or ()] == list(ours.vectors)
        asked = [each["content"]["parts"] for each in third.body["requests"]]
        assert asked == [each["content"]["parts"] for each in fourth.body["requests"]]


def test_embeddings_are_observed(is_async: bool) -> None:
    seen = recorded()
    seen.clear()
    with Simulator() as simulator:
        make = partial(provider_at, simulator, "mistral")
        embed(make(), ["secret words"], is_async=is_async)
        with pytest.raises(MultiLLMChatError):
            embed(make(), ["x"], is_async=is_async, extra={"nonsense": 1})
    good, bad = seen.spans
    assert good.name == "embeddings mistral-embed"
    assert good.attributes is not None
    assert bad.attributes is not None
    assert good.attributes["gen_ai.usage.input_tokens"]
    assert bad.attributes["error.type"] == "BadRequest"
    assert "secret" not in good.to_json()
