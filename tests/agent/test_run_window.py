"""Runs that would not fit the context window, over real HTTP: they are shortened, reported, and answered."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from multi_llm_chat.agent.providers import FallbackProvider, LLMProvider, create_provider
from multi_llm_chat.agent.window.run_window import Compression, provider_window
from multi_llm_chat.errors import ContextTooLong
from multi_llm_chat.events import HistoryCompressed, RunFinished, RunStarted, Usage
from multi_llm_chat.history.values import ToolResult
from multi_llm_chat.runs.agent_run import AgenticLoopResult, AgentRun, SyncAgentRun
from multi_llm_chat.runs.execute_with_tools import execute_with_tools_sync
from multi_llm_chat.testing.simulator import Call, Gate, Say, Simulator, Status
from multi_llm_chat.tools import ToolRegistry

DIALECTS = ["openai", "openai-chat", "anthropic", "gemini"]
#: Each provider's error message for a request that does not fit.
TOO_LONG = {
    "openai": Status(400, "Your input exceeds the context window of this model.", code="context_length_exceeded"),
    "openai-chat": Status(400, "This model's maximum context length is 8192 tokens.", code="context_length_exceeded"),
    "anthropic": Status(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    "gemini": Status(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
}  # fmt: skip


def conversation(provider: LLMProvider, exchanges: int) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for number in range(exchanges):
        call = {"name": "read", "arguments": {"page": number}, "tool_call_id": f"call_{number}"}
        turns += [
            {"role": "user", "content": f"question-{number}"},
            {"role": provider.speaker, "content": [{"type": "tool_call", "content": call}]},
            {"role": "tool", "content": [{"type": "tool_result", "name": "read", "content": f"page-{number} " * 300, "tool_call_id": f"call_{number}"}]},
            {"role": provider.speaker, "content": f"answer-{number}"},
        ]  # fmt: skip
    return [*turns, {"role": "user", "content": "the newest question"}]


@contextmanager
def simulated(provider: str, *replies: Say | Status) -> Generator[tuple[LLMProvider, Simulator]]:
    with (
        Simulator(list(replies)) as simulator,
        create_provider(provider, api_key="key", base_url=simulator.base_url(provider)) as asked,
    ):
        yield asked, simulator


@pytest.fixture
def registry() -> ToolRegistry:
    tools = ToolRegistry()

    @tools.tool
    def read(page: int) -> str:
        """Read a page."""
        return f"fresh-{page} " * 300

    return tools


def run_sync(*arguments: Any, **settings: Any) -> tuple[list[Any], AgenticLoopResult]:
    run = SyncAgentRun(*arguments, **settings)
    return list(run), run.result


def run_async(*arguments: Any, **settings: Any) -> tuple[list[Any], AgenticLoopResult]:
    async def going() -> tuple[list[Any], AgenticLoopResult]:
        writer = (settings.get("compression") or Compression()).summarise_with
        async with arguments[0], writer or nullcontext():
            run = AgentRun(*arguments, **settings)
            return [event async for event in run], run.result

    return asyncio.run(going())


RUNNERS = pytest.mark.parametrize("run", [run_sync, run_async], ids=["sync", "async"])


def compressions(events: list[Any]) -> list[HistoryCompressed]:
    return [event for event in events if isinstance(event, HistoryCompressed)]


@RUNNERS
@pytest.mark.parametrize("provider", DIALECTS)
def test_a_request_that_would_not_fit_is_shortened_and_reported(
    provider: str, run: Any, registry: ToolRegistry
):
    with simulated(provider, Say("Fine.")) as (asked, simulator):
        history = conversation(asked, 20)
        events, result = run(asked, history, registry, compression=Compression(window=16_000))
    (event,) = compressions(events)
    assert isinstance(events[1], HistoryCompressed)
    assert result.compressions == (event.note,)
    assert event.note.fits
    assert event.note.tokens_after <= event.note.budget < event.note.tokens_before
    sent = str(simulator.requests[0].body)
    assert "question-0" in sent
    assert "page-0" not in sent
    assert "the newest question" in sent
    assert result.final_text == "Fine."
    assert history == conversation(asked, 20)


@pytest.mark.parametrize("provider", DIALECTS)
def test_within_a_run_the_cut_stays_until_it_must_move(provider: str, registry: ToolRegistry):
    rounds = [Say(calls=[Call("read", {"page": page})]) for page in range(5)]
    with simulated(provider, *rounds, Say("Read.")) as (asked, simulator):
        events, result = run_sync(
            asked, conversation(asked, 20), registry, compression=Compression(window=16_000)
        )
    notes = [event.note for event in compressions(events)]
    assert 1 <= len(notes) < 4
    assert [note.cut.talk for note in notes] == sorted(note.cut.talk for note in notes)
    last = str(simulator.requests[-1].body)
    for page in range(5):
        assert f"fresh-{page}" in last
    results = [
        part for turn in result.history_delta for part in turn.parts if isinstance(part, ToolResult)
    ]
    assert len(results) == 5
    assert not any(request.violations for request in simulator.requests)


@RUNNERS
@pytest.mark.parametrize("provider", DIALECTS)
def test_a_refused_request_is_shortened_once_more_and_asked_again(
    provider: str, run: Any, registry: ToolRegistry
):
    with simulated(provider, TOO_LONG[provider], Say("Fine.")) as (asked, simulator):
        events, result = run(asked, conversation(asked, 20), registry)
    (event,) = compressions(events)
    assert event.note.reason == "refused"
    assert (result.final_text, result.stop_reason) == ("Fine.", "answered")
    first, second = (len(str(request.body)) for request in simulator.requests)
    assert second < first * 0.8


@RUNNERS
def test_a_second_refusal_is_the_end(run: Any, registry: ToolRegistry):
    refusals = [TOO_LONG["anthropic"]] * 2
    with simulated("anthropic", *refusals, Say("never")) as (asked, simulator):
        _, result = run(asked, conversation(asked, 20), registry)
    assert isinstance(result.error, ContextTooLong)
    assert len(simulator.requests) == 2


@RUNNERS
def test_what_cannot_be_shortened_is_not_asked_again(run: Any, registry: ToolRegistry):
    asked_once = [{"role": "user", "content": "short"}]
    with simulated("anthropic", TOO_LONG["anthropic"], Say("never")) as (asked, simulator):
        events, result = run(asked, asked_once, registry)
    assert isinstance(result.error, ContextTooLong)
    assert len(simulator.requests) == 1
    assert compressions(events) == []


def test_compression_can_be_off(registry: ToolRegistry):
    with simulated("anthropic", TOO_LONG["anthropic"], Say("never")) as (asked, simulator):
        events, result = run_sync(asked, conversation(asked, 20), registry, compression=None)
    assert isinstance(result.error, ContextTooLong)
    assert "page-0" in str(simulator.requests[0].body)
    assert compressions(events) == []


@RUNNERS
def test_a_chosen_model_summarises_what_goes(run: Any, registry: ToolRegistry):
    with (
        simulated("anthropic", Say("Fine.")) as (asked, simulator),
        simulated("openai-chat", Say("They read pages.")) as (writer, other),
    ):
        events, result = run(
            asked,
            conversation(asked, 20),
            registry,
            compression=Compression(window=16_000, summarise_with=writer),
        )
    (event,) = compressions(events)
    assert event.note.summary == "They read pages."
    assert event.note.summary_usage is not None
    assert event.note.summary_usage.output_tokens > 0
    assert "question-0" in str(other.requests[0].body)
    sent = str(simulator.requests[0].body)
    assert "They read pages." in sent
    assert "question-0" not in sent
    assert result.final_text == "Fine."


@RUNNERS
@pytest.mark.parametrize("answer", [Status(400, "no"), Say(" ")], ids=["failing", "empty"])
def test_without_a_summary_the_run_continues_and_says_why(
    run: Any, answer: Say | Status, registry: ToolRegistry
):
    with (
        simulated("anthropic", Say("Fine.")) as (asked, simulator),
        simulated("openai-chat", answer) as (writer, _),
    ):
        events, result = run(
            asked,
            conversation(asked, 20),
            registry,
            compression=Compression(window=16_000, summarise_with=writer),
        )
    (event,) = compressions(events)
    assert event.note.trouble
    assert event.note.summary is None
    assert "question-0" in str(simulator.requests[0].body)
    assert result.final_text == "Fine."


def test_a_later_summary_includes_the_earlier_one(registry: ToolRegistry):
    rounds = [Say(calls=[Call("read", {"page": page})]) for page in range(9)]
    with (
        simulated("anthropic", *rounds, Say("Read.")) as (asked, _),
        simulated("openai-chat", *(Say(f"summary {number}") for number in range(6))) as (
            writer,
            other,
        ),
    ):
        events, _ = run_sync(
            asked,
            conversation(asked, 20),
            registry,
            compression=Compression(window=12_000, summarise_with=writer),
        )
    summaries = [event.note.summary for event in compressions(events) if event.note.summary]
    assert summaries[:2] == ["summary 0", "summary 1"]
    assert "summary 0" in str(other.requests[1].body)


def test_a_run_can_be_cancelled_while_it_is_summarised(registry: ToolRegistry):
    gate = Gate(after_frames=0)
    with (
        simulated("anthropic", Say("never")) as (asked, simulator),
        simulated("anthropic", Say("Long ago there was", faults=[gate])) as (writer, _),
    ):

        async def going() -> AgentRun:
            async with asked, writer:
                run = AgentRun(
                    asked,
                    conversation(asked, 20),
                    registry,
                    compression=Compression(window=16_000, summarise_with=writer),
                )

                async def cancel() -> None:
                    await asyncio.to_thread(gate.wait_reached)
                    run.cancel()

                cancelling = asyncio.create_task(cancel())
                events = [event async for event in run]
                assert [type(event) for event in events] == [RunStarted, RunFinished]
                await cancelling
                return run

        ended = asyncio.run(going())
        gate.open()
    assert ended.result.stop_reason == "cancelled"
    assert len(simulator.requests) == 0


def test_a_sync_run_is_cancelled_from_another_thread_while_it_is_summarised(registry: ToolRegistry):
    gate = Gate(after_frames=0)
    with (
        simulated("anthropic", Say("never")) as (asked, simulator),
        simulated("anthropic", Say("Long ago there was", faults=[gate])) as (writer, _),
    ):
        compression = Compression(window=16_000, summarise_with=writer)
        run = SyncAgentRun(asked, conversation(asked, 20), registry, compression=compression)

        def cancel() -> None:
            gate.wait_reached()
            run.cancel()

        cancelling = threading.Thread(target=cancel)
        cancelling.start()
        assert [type(event) for event in run] == [RunStarted, RunFinished]
        cancelling.join()
        gate.open()
    assert run.result.stop_reason == "cancelled"
    assert len(simulator.requests) == 0


def test_the_providers_own_count_replaces_the_estimate(registry: ToolRegistry):
    # By our estimate the second request would not fit; the provider's count of the first one is half of our estimate.
    counted = Say(calls=[Call("read", {"page": 1})], usage=Usage(4_000, 10))
    for usage, expected in ((counted, 0), (counted.having(usage=Usage(9_900, 10)), 1)):
        with simulated("anthropic", usage, Say("Fine.")) as (asked, _):
            events, _ = run_sync(
                asked, conversation(asked, 8), registry, compression=Compression(window=15_500)
            )
        assert len(compressions(events)) == expected


def test_runs_of_one_conversation_continue_from_the_same_cut(registry: ToolRegistry):
    with simulated("anthropic", Say("One."), Say("Two.")) as (asked, simulator):
        first = execute_with_tools_sync(
            asked, conversation(asked, 20), registry, compression=Compression(window=16_000)
        )
        cut = first.compressions[-1].cut
        second = execute_with_tools_sync(
            asked,
            conversation(asked, 20),
            registry,
            compression=Compression(window=16_000, cut=cut),
        )
    assert second.compressions == ()
    one, two = (request.body["messages"] for request in simulator.requests)
    assert one == two


def test_a_chain_has_the_smallest_window_of_its_members():
    chain = create_provider(["claude", "ollama"])
    assert isinstance(chain, FallbackProvider)
    assert provider_window(chain).tokens == 4_096
    assert provider_window(chain, {"qwen3": 40_000, "claude-*": 30_000}).tokens == 30_000
