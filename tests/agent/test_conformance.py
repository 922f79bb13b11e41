"""The conformance kit for provider authors accepts correct providers, and finds the faults of others."""

# The classes here are written as an application would write them.
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from multi_llm_chat import LLMProvider, ModelRequest, create_provider
from multi_llm_chat.errors import BadRequest
from multi_llm_chat.events import Finish, ResponseEvent, TextDelta
from multi_llm_chat.testing import ConformanceFailure, Say, Simulator, conform


class Good(LLMProvider):
    def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
        if tools and history[-1]["role"] == "user":
            yield {"type": "tool_call", "content": {"name": tools[0]["name"], "arguments": {}}}
        else:
            yield {"type": "text", "content": "Hello."}


class Events:
    async def ask(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        yield TextDelta(f"{len(request.turns)} turns")
        yield Finish("stop")


@pytest.mark.parametrize(
    "provider",
    [Good, Good(), Events, Events(), "simulated"],
    ids=["a subclass", "its object", "a class", "an object", "a name"],
)
def test_what_is_right_passes(provider: object):
    assert conform(provider) == []


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "anthropic", "gemini", "groq"])
def test_our_own_providers_pass(provider: str):
    with Simulator(lambda _: Say("Hello.")) as simulator:
        made = create_provider(provider, api_key="k", base_url=simulator.base_url(provider))
        assert conform(made) == []


def test_it_may_be_called_in_an_event_loop():
    async def run() -> list[ConformanceFailure]:
        return conform(Good())

    assert asyncio.run(run()) == []


class Changing(LLMProvider):
    def format_history(self, history: Any) -> Any:
        return []

    def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
        yield "x"


class Odd(LLMProvider):
    def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
        yield 7


class Same(LLMProvider):
    def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Iterator[Any]:
        call: dict[str, Any] = {"name": "get_weather", "arguments": {}, "tool_call_id": "a"}
        yield {"type": "tool_call", "content": call}
        yield {"type": "tool_call", "content": call}


class Nameless(Good):
    @property
    def name(self) -> str:
        return ""


class Refusing(LLMProvider):
    def call_api(self, history: Any, system_prompt: Any = None, tools: Any = None) -> Any:
        raise BadRequest("no")
        yield


@pytest.mark.parametrize(
    ("made", "check"),
    [
        (Changing, "tokens messages and models"),
        (Odd, "chunks"),
        (Same, "a tool"),
        (Nameless, "a name a speaker and a model"),
        (Refusing, "awkward histories"),
        (Refusing, "a whole reply"),
    ],
)
def test_what_is_wrong_is_found(made: Callable[[], LLMProvider], check: str):
    assert check in {failure.check for failure in conform(made())}
