"""The embedded model through the same interface as every other provider."""

import asyncio
from pathlib import Path

import pytest
from tests.servers import Reset, serving

from multi_llm_chat import FallbackProvider, create_provider
from multi_llm_chat.agent.local_provider import LocalProvider
from multi_llm_chat.errors import StreamBroken
from multi_llm_chat.events import Finish, TextDelta
from multi_llm_chat.protocol.retry import RetryPolicy

HELLO = [{"role": "user", "content": "Say hello in one short sentence."}]
STEADY = {"temperature": 0.0, "max_tokens": 24}


@pytest.fixture
def provider(models: Path) -> LocalProvider:
    return LocalProvider(model=str(models / "smollm2-135m.gguf"), options=STEADY)


def test_it_streams_completes_and_calls_alike(provider: LocalProvider):
    with provider.stream(HELLO) as stream:
        events = list(stream)
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert isinstance(events[-1], Finish)
    assert stream.reply.text == text
    assert provider.complete(HELLO).text == text
    assert "".join(chunk["content"] for chunk in provider.call_api(HELLO)) == text
    assert stream.reply.turn.role == "local"

    async def ask() -> str:
        return (await provider.acomplete(HELLO)).text

    assert asyncio.run(ask()) == text


def test_it_is_stopped_with_what_it_has_said(provider: LocalProvider):
    stream = provider.stream(HELLO)
    first = next(stream)
    stream.stop()
    with pytest.raises(StreamBroken) as broken:
        list(stream)
    assert isinstance(first, TextDelta)
    assert broken.value.partial.parts[0].content.startswith(first.text)


def test_it_takes_over_where_the_network_fails(provider: LocalProvider):
    with serving([Reset()]) as server:
        once = RetryPolicy(attempts=1)
        absent = create_provider(
            "claude", api_key="k", base_url=server.url, retry=once, options=STEADY
        )
        reply = FallbackProvider([absent, provider]).complete(HELLO)
    assert reply.provider == "local"
    assert reply.turn.role == "local"
    assert reply.text == provider.complete(HELLO).text
    assert any("next provider" in note.message for note in reply.notes)


def test_in_a_chain_it_reads_the_others_words_as_its_own(provider: LocalProvider):
    history = [*HELLO, {"role": "claude", "content": "Hello."}, *HELLO]
    own = [*HELLO, {"role": "local", "content": "Hello."}, *HELLO]
    assert FallbackProvider([provider]).complete(history).text == provider.complete(own).text
