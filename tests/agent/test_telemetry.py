"""Spans, metrics and log records: the same on every path, and without message texts unless the user enables them."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.asking import HISTORY, Asker
from tests.spans import Recorded, recorded

from multi_llm_chat import Agent
from multi_llm_chat.agent.providers import FallbackProvider, LLMProvider, create_provider
from multi_llm_chat.errors import AuthError
from multi_llm_chat.protocol.retry import RetryPolicy
from multi_llm_chat.runs.execute_with_tools import execute_with_tools, execute_with_tools_sync
from multi_llm_chat.testing.simulator import Call, Gate, Say, Simulator, Status

SECRET_WORDS = "the bird flies at noon"
ROUND = [Say(calls=[Call("get_weather", {"city": "Rome"})]), Say("Fine.")]
FAST = RetryPolicy(first_wait=0.0, longest_wait=0.0)


@pytest.fixture
def seen() -> Recorded:
    """Return what OpenTelemetry records in this test."""
    found = recorded()
    found.clear()
    return found


def attributes(span: Any) -> dict[str, Any]:
    return dict(span.attributes)


def provider_at(model: Simulator, name: str = "openai-chat", **settings: Any) -> LLMProvider:
    return create_provider(name, base_url=model.base_url(name), api_key="key", **settings)


def test_a_call_is_a_span_however_it_is_made(asker: Asker, seen: Recorded) -> None:
    for ask in (asker.complete, asker.stream, asker.call_api):
        seen.clear()
        with Simulator([Say(SECRET_WORDS)]) as model:
            ask(provider_at(model), options={"temperature": 0.5, "max_tokens": 50})
        (span,) = seen.spans
        known = attributes(span)
        assert span.name == f"chat {known['gen_ai.request.model']}"
        assert span.kind.name == "CLIENT"
        assert known["gen_ai.operation.name"] == "chat"
        assert known["gen_ai.provider.name"] == "openai"
        assert known["gen_ai.request.temperature"] == 0.5
        assert known["gen_ai.request.max_tokens"] == 50
        assert known["gen_ai.response.finish_reasons"] == ("stop",)
        assert known["gen_ai.usage.input_tokens"] > 0
        assert known["gen_ai.usage.output_tokens"] > 0
        assert known["server.address"] == "127.0.0.1"
        assert ("gen_ai.response.time_to_first_chunk" in known) == (ask != asker.complete)
        assert "error.type" not in known
        assert SECRET_WORDS not in str(known)
        assert "Hello?" not in str(known)


def test_a_retry_is_an_event_with_its_reason_a_count_and_a_record(
    asker: Asker, seen: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="multi_llm_chat.calls")
    before = sum(point.value for point in seen.points("multi_llm_chat.retries"))
    with Simulator([Status(529), Status(429), Say("Yes.")]) as model:
        asker.complete(provider_at(model, "anthropic", retry=FAST))
    (span,) = seen.spans
    reasons = [event.attributes["multi_llm_chat.retry.reason"] for event in span.events if event.attributes]  # fmt: skip
    assert reasons == ["asked again after Overloaded (529)", "asked again after RateLimited (429)"]
    assert attributes(span)["multi_llm_chat.retries"] == 2
    assert sum(point.value for point in seen.points("multi_llm_chat.retries")) == before + 2
    records = [record for record in caplog.records if record.name == "multi_llm_chat.calls"]
    assert [getattr(record, "multi_llm_chat.retry.reason") for record in records] == reasons
    assert all(getattr(record, "gen_ai.provider.name") == "anthropic" for record in records)


def test_a_repair_is_named_by_its_rule_and_a_failure_by_its_class(
    asker: Asker, seen: Recorded
) -> None:
    with Simulator([Status(401, SECRET_WORDS)]) as model:
        failure = asker.complete(provider_at(model)).failure
    assert isinstance(failure, AuthError)
    (span,) = seen.spans
    assert attributes(span)["error.type"] == "AuthError"
    assert attributes(span)["http.response.status_code"] == 401
    assert span.status.status_code.name == "ERROR"
    assert SECRET_WORDS not in span.to_json()


def test_a_chain_has_a_span_for_each_provider(asker: Asker, seen: Recorded) -> None:
    with Simulator({"anthropic": [Status(401)], "gemini": [Say("Here.")]}) as model:
        chain = [provider_at(model, "anthropic"), provider_at(model, "gemini")]
        assert asker.complete(FallbackProvider(chain)).reply
    first, second = map(attributes, seen.spans)
    assert (first["gen_ai.provider.name"], first["error.type"]) == ("anthropic", "AuthError")
    assert second["gen_ai.provider.name"] == "gcp.gemini"
    assert "error.type" not in second


def test_a_plug_in_that_asks_the_network_counts_once(asker: Asker, seen: Recorded) -> None:
    class Louder(LLMProvider):
        def call_api(self, *arguments: Any, **settings: Any) -> Any:
            return super().call_api(*arguments, **settings)

    with Simulator([Say("Yes.")]) as model:
        asker.complete(Louder("openai-chat", base_url=model.base_url("openai-chat"), api_key="k"))
    assert [span.name.split(" ")[0] for span in seen.spans] == ["chat"]


def test_a_reply_that_its_reader_leaves_ends_its_span(seen: Recorded) -> None:
    gate = Gate(3)  # the rest of the reply arrives after the reader has left
    endless = Say("one two three four", delta_size=3, faults=[gate])
    with Simulator([endless]) as model, provider_at(model) as provider:
        with provider.stream(HISTORY) as stream:
            next(stream)
        gate.open()
        (span,) = seen.spans
    assert attributes(span)["error.type"] == "interrupted"


def get_weather(city: str) -> str:
    """The weather."""
    return f"{SECRET_WORDS} in {city}"


def by_agent(provider: LLMProvider) -> None:
    with Agent(provider, tools=[get_weather]) as agent:
        agent.run_sync("How is it in Rome?")


def by_stored_agent(provider: LLMProvider) -> None:
    with Agent(provider, tools=[get_weather], store=":memory:") as agent:
        agent.run_sync("How is it in Rome?")


def by_loop(provider: LLMProvider) -> None:
    async def run() -> None:
        await execute_with_tools(provider, "How is it in Rome?", [get_weather])
        await provider.aclose()

    asyncio.run(run())


def by_sync_loop(provider: LLMProvider) -> None:
    with provider:
        execute_with_tools_sync(provider, "How is it in Rome?", [get_weather])


@pytest.mark.parametrize("path", [by_agent, by_stored_agent, by_loop, by_sync_loop])
def test_a_run_is_a_span_with_its_calls_and_tools_below(
    path: Callable[[LLMProvider], None], seen: Recorded
) -> None:
    with Simulator(ROUND) as model:
        path(provider_at(model))
    (run,) = seen.named("invoke_agent")
    (tool,) = seen.named("execute_tool")
    calls = seen.named("chat")
    assert len(calls) == 2
    assert run.context is not None
    assert all(span.parent and span.parent.span_id == run.context.span_id for span in (tool, *calls))  # fmt: skip
    assert attributes(tool)["gen_ai.tool.name"] == "get_weather"
    assert attributes(run)["multi_llm_chat.stop_reason"] == "answered"
    used = sum(attributes(call)["gen_ai.usage.output_tokens"] for call in calls)
    assert attributes(run)["gen_ai.usage.output_tokens"] == used
    assert SECRET_WORDS not in "".join(span.to_json() for span in seen.spans)
    assert "Rome" not in "".join(span.to_json() for span in seen.spans)


def test_words_are_in_spans_where_the_user_asks_for_them(
    seen: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    with Simulator(ROUND) as model:
        by_agent(provider_at(model))
    (tool,) = seen.named("execute_tool")
    last = attributes(seen.named("chat")[-1])
    assert attributes(tool)["gen_ai.tool.call.arguments"] == '{"city":"Rome"}'
    roles = [message["role"] for message in json.loads(last["gen_ai.input.messages"])]
    assert roles == ["user", "assistant", "tool"]
    (answer,) = json.loads(last["gen_ai.output.messages"])
    assert answer["parts"] == [{"type": "text", "content": "Fine."}]


def test_metrics_count_tokens_and_seconds(seen: Recorded) -> None:
    def counted(metric: str) -> int:
        return sum(point.count for point in seen.points(metric))

    names = [
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
    ]
    before = [counted(name) for name in names]
    with Simulator(ROUND) as model:
        by_agent(provider_at(model))
    assert [counted(name) - was for name, was in zip(names, before, strict=True)] == [2, 4, 1, 1]
    assert "Rome" not in str([point.attributes for name in names for point in seen.points(name)])


def test_nothing_is_built_where_nothing_asks_for_it() -> None:
    program = """
import sys
from multi_llm_chat.agent import telemetry
assert not telemetry.is_observed()
assert telemetry.begin_call("openai", "m", None) is None
assert "opentelemetry" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
