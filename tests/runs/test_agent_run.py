"""Models with tools over real HTTP: the simulator answers, real functions run."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from tests.http.test_parity import placeless as without_keys
from tests.servers import serving, streamed, whole

from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.errors import AuthError, ProviderError
from multi_llm_chat.events import (
    RunFinished,
    RunPaused,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from multi_llm_chat.history.values import Text, ToolResult
from multi_llm_chat.runs.agent_run import AgenticLoopResult, AgentRun, SyncAgentRun
from multi_llm_chat.runs.execute_with_tools import (
    execute_with_tools,
    execute_with_tools_stream,
    execute_with_tools_sync,
)
from multi_llm_chat.testing.simulator import Call, ErrorInStream, Gate, Say, Simulator, Status
from multi_llm_chat.tools import ToolRegistry

DIALECTS = ["openai", "openai-chat", "anthropic", "gemini"]
ASKED = [{"role": "user", "content": "What is the weather in Paris?"}]


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
    def get_weather(location: str) -> str:
        """The weather in a place."""
        return f"sunny in {location}"

    @tools.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @tools.tool
    def fails() -> str:
        """Never works."""
        raise RuntimeError("no luck")

    return tools


def weather(location: str = "Paris", identifier: str | None = None) -> Call:
    return Call("get_weather", {"location": location}, identifier)


@pytest.mark.parametrize("provider", DIALECTS)
def test_single_tool_call(provider: str, registry: ToolRegistry):
    with simulated(provider, Say(calls=[weather()]), Say("It is sunny.")) as (asked, simulator):
        result = execute_with_tools_sync(asked, ASKED, registry)
    assert (result.final_text, result.stop_reason, result.iterations_used) == (
        "It is sunny.",
        "answered",
        2,
    )
    assert [turn.role for turn in result.history_delta] == [asked.speaker, "tool", asked.speaker]
    assert "sunny in Paris" in str(simulator.requests[1].body)
    assert result.usage.output_tokens > 0
    assert not result.timed_out
    assert result.error is None


@pytest.mark.parametrize("provider", DIALECTS)
def test_multiple_tool_calls(provider: str, registry: ToolRegistry):
    calls = [
        weather("Paris"),
        Call("add", {"a": 2, "b": 3}),
        Call("fails", {}),
        Call("unknown", {"x": 1}),
        Call("add", {"a": "two"}),
    ]
    with simulated(provider, Say(calls=calls), Say("Done.")) as (asked, _):
        result = execute_with_tools_sync(asked, ASKED, registry)
    results = [part for part in result.history_delta[1].parts if isinstance(part, ToolResult)]
    assert [part.is_error for part in results] == [False, False, True, True, True]
    assert results[0].content == "sunny in Paris"
    assert str(results[1].content) == "5"
    assert "no luck" in str(results[2].content)
    assert "unknown" in str(results[3].content)
    assert result.final_text == "Done."


@pytest.mark.parametrize("provider", DIALECTS)
def test_multi_iteration(provider: str, registry: ToolRegistry):
    rounds = [
        Say("Let me look.", calls=[weather("Paris")]),
        Say(calls=[weather("Rome")]),
        Say("Both are sunny."),
    ]
    with simulated(provider, *rounds) as (asked, simulator):
        result = asyncio.run(_execute(asked, registry))
    assert result.final_text == "Both are sunny."
    third = str(simulator.requests[2].body)
    assert "sunny in Paris" in third
    assert "sunny in Rome" in third
    assert [chunk["type"] for chunk in result.chunks if chunk["type"] != "text"] == [
        "tool_call",
        "tool_result",
    ] * 2


async def _execute(asked: LLMProvider, registry: ToolRegistry, **settings: Any) -> Any:
    async with asked:
        return await execute_with_tools(asked, ASKED, registry, **settings)


@pytest.mark.parametrize("provider", DIALECTS)
def test_at_the_limit_the_user_gets_an_answer(provider: str, registry: ToolRegistry):
    rounds = [
        Say(calls=[weather("Paris")]),
        Say(calls=[weather("Rome")]),
        Say("That is all I know."),
    ]
    with simulated(provider, *rounds) as (asked, simulator):
        result = execute_with_tools_sync(asked, ASKED, registry, max_iterations=2)
    assert (result.final_text, result.stop_reason) == ("That is all I know.", "iterations")
    assert [bool(request.violations) for request in simulator.requests] == [False] * 3


def placeless(value: Any) -> Any:
    """Return the value without extras and origins: the simulator gives each reply new ids, and uses a different port each time."""
    return without_keys(value, ("origin", "extras", "opaque"))


@pytest.mark.parametrize("provider", DIALECTS)
def test_sync_and_async_runs_emit_the_same_events(provider: str, registry: ToolRegistry):
    called = [weather("Paris", "call_1"), Call("add", {"a": 1, "b": 2}, "call_2")]
    looks = Say("Look:", thinking="hm", signature="c2lnbmF0dXJl", calls=called)
    rounds = [looks, Say("Sunny and 3.")]

    def comparable(event: Any) -> Any:
        if isinstance(event, RunFinished):
            return replace(event, seconds=0.0)
        return (event.call, event.result) if isinstance(event, ToolFinished) else event

    async def run() -> tuple[list[Any], AgentRun]:
        async with asked:
            other = AgentRun(asked, ASKED, registry)
            return [comparable(event) async for event in other], other

    with simulated(provider, *rounds, *rounds) as (asked, _):
        one = SyncAgentRun(asked, ASKED, registry)
        events = [comparable(event) for event in one]
        async_events, other = asyncio.run(run())
    finished = {repr(placeless(event)) for event in events if isinstance(event, tuple)}
    assert placeless([event for event in events if not isinstance(event, tuple)]) == placeless(
        [event for event in async_events if not isinstance(event, tuple)]
    )
    assert finished == {
        repr(placeless(event)) for event in async_events if isinstance(event, tuple)
    }
    assert placeless(one.result.history_delta) == placeless(other.result.history_delta)


def test_a_failure_in_the_middle_keeps_what_was_said(registry: ToolRegistry):
    broken = Say("It is sun", faults=[ErrorInStream()])
    with (
        simulated("anthropic", Say(calls=[weather()]), broken, *[broken] * 5) as (asked, _),
        pytest.raises(ProviderError) as caught,
    ):
        execute_with_tools_sync(asked, ASKED, registry)
    result = caught.value.result
    assert (result.stop_reason, result.error) == ("error", caught.value)
    assert [turn.role for turn in result.history_delta][:2] == ["claude", "tool"]


def test_a_failed_run_raises_and_a_streamed_one_when_asked(registry: ToolRegistry):
    """A wrong API key never looks like an empty answer."""

    async def run(asked: LLMProvider) -> AgenticLoopResult:
        with pytest.raises(AuthError):
            await execute_with_tools(asked, ASKED, registry)
        *_, last = [each async for each in execute_with_tools_stream(asked, ASKED, registry)]
        assert isinstance(last, AgenticLoopResult)
        await asked.aclose()
        return last

    with simulated("anthropic", Say("Sunny."), *[Status(401)] * 3) as (asked, _):
        answered = execute_with_tools_sync(asked, ASKED, registry)
        assert answered.raise_for_error() is answered
        with pytest.raises(AuthError):
            execute_with_tools_sync(asked, ASKED, registry)
        result = asyncio.run(run(asked))
    with pytest.raises(AuthError):
        result.raise_for_error()


def test_step_mode_lets_results_be_edited_and_tools_be_run_again(registry: ToolRegistry):
    with simulated(
        "openai-chat", Say(calls=[weather(identifier="call_1")]), Say("Rain, then.")
    ) as (asked, simulator):
        run = SyncAgentRun(asked, ASKED, registry, step=True)
        for event in run:
            if isinstance(event, RunPaused):
                assert [result.content for result in event.results] == ["sunny in Paris"]
                run.modify_tool_result("call_1", "rain in Paris")
                assert run.reexecute_tool("call_1").content == "sunny in Paris"
                run.modify_tool_result("call_1", "rain in Paris")
                run.resume()
    assert simulator.requests[1].body["messages"][-1]["content"] == "rain in Paris"
    assert run.result.final_text == "Rain, then."


def test_cancelling_while_the_model_speaks_keeps_the_words_and_closes_the_socket(
    registry: ToolRegistry,
):
    gate = Gate(after_frames=5)

    async def run() -> AgentRun:
        async with asked:
            going = AgentRun(asked, ASKED, registry)
            said = ""
            async for event in going:
                if isinstance(event, TextDelta):
                    said += event.text
                    if said.startswith("Once upon"):
                        asyncio.get_running_loop().call_soon(going.cancel)
            return going

    say = Say("Once upon a time there was", delta_size=9, faults=[gate])
    with simulated("anthropic", say) as (asked, simulator):
        ended = asyncio.run(run())
        gate.open()
    assert ended.result.stop_reason == "cancelled"
    assert simulator.requests[0].was_disconnected
    assert isinstance(ended.result.history_delta[0].parts[0], Text)


def test_cancelling_while_tools_run_answers_every_call():
    tools = ToolRegistry()
    started, release = threading.Event(), asyncio.Event()

    @tools.tool
    async def quick() -> str:
        return "done"

    @tools.tool
    async def slow() -> str:
        started.set()
        await release.wait()
        return "never"

    async def run() -> AgentRun:
        async with asked:
            going = AgentRun(asked, ASKED, tools)
            async for event in going:
                if isinstance(event, ToolFinished):
                    asyncio.get_running_loop().call_soon(going.cancel)
            return going

    with simulated("gemini", Say(calls=[Call("slow"), Call("quick")])) as (asked, _):
        ended = asyncio.run(run())
    results = [part for part in ended.result.history_delta[1].parts if isinstance(part, ToolResult)]
    assert ended.result.stop_reason == "cancelled"
    assert "cancelled" in str(results[0].content)
    assert results[1].content == "done"


def test_a_sync_run_is_cancelled_from_another_thread():
    tools = ToolRegistry()
    runs: list[SyncAgentRun] = []

    @tools.tool
    async def slow() -> str:
        runs[0].cancel()
        await asyncio.Event().wait()
        return "never"

    with simulated("openai", Say(calls=[Call("slow")])) as (asked, _):
        runs.append(SyncAgentRun(asked, ASKED, tools))
        events = list(runs[0])
    assert isinstance(events[-3], ToolStarted)
    assert isinstance(events[-2], TurnFinished)
    assert isinstance(events[-1], RunFinished)
    assert runs[0].result.stop_reason == "cancelled"


def test_two_runs_at_once_never_mix_their_results():
    tools = ToolRegistry()
    first_in = asyncio.Event()

    @tools.tool
    async def look(name: str) -> str:
        """Look something up; the first run's answer comes after the second's."""
        if name == "first":
            await first_in.wait()
        else:
            first_in.set()
        return f"found {name}"

    async def one(asked: LLMProvider) -> Any:
        async with asked:
            return await execute_with_tools(asked, ASKED, tools)

    async def both(one_asked: LLMProvider, other_asked: LLMProvider) -> tuple[Any, Any]:
        return await asyncio.gather(one(one_asked), one(other_asked))

    say_first = [Say(calls=[Call("look", {"name": "first"}, "call_1")]), Say("one")]
    say_second = [Say(calls=[Call("look", {"name": "second"}, "call_1")]), Say("two")]
    with (
        simulated("openai-chat", *say_first) as (asked, _),
        simulated("openai-chat", *say_second) as (other, _),
    ):
        results = asyncio.run(both(asked, other))
    assert [result.history_delta[1].parts[0].content for result in results] == [
        "found first",
        "found second",
    ]


def test_the_stream_ends_with_the_result(registry: ToolRegistry):
    async def run() -> list[Any]:
        async with asked:
            stream: AsyncIterator[Any] = execute_with_tools_stream(asked, ASKED, registry)
            return [chunk async for chunk in stream]

    with simulated("anthropic", Say(calls=[weather()]), Say("Sunny.")) as (asked, _):
        chunks = asyncio.run(run())
    kinds = [chunk["type"] for chunk in chunks[:-1]]
    assert kinds[:2] == ["tool_call", "tool_result"]
    assert chunks[-1].final_text == "Sunny."


@pytest.mark.parametrize("in_stream", [False, True])
def test_grq_04_a_call_that_the_server_refused_is_answered_and_the_model_tries_again(
    in_stream: bool, registry: ToolRegistry
) -> None:
    refusal = {
        "error": {
            "message": "Tool call validation failed: parameters for tool get_weather did not match schema",
            "type": "invalid_request_error",
            "code": "tool_use_failed",
            "failed_generation": '{"name": "get_weather", "arguments": {"place": "Paris"}}',
        }
    }
    answer = {"choices": [{"index": 0, "delta": {"content": "Sunny."}, "finish_reason": "stop"}]}
    refused = (
        streamed(f"event: error\ndata: {json.dumps(refusal)}\n\n".encode())
        if in_stream
        else whole(refusal, 400)
    )
    final = streamed(f"data: {json.dumps(answer)}\n\ndata: [DONE]\n\n".encode())
    with (
        serving(refused, final) as server,
        create_provider("groq", api_key="key", base_url=server.url) as asked,
    ):
        result = execute_with_tools_sync(asked, ASKED, registry)
        messages = server.requests[1].json["messages"]
    assert len(server.requests) == 2
    assert (result.final_text, result.stop_reason) == ("Sunny.", "answered")
    assert messages[-2]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert "did not match schema" in messages[-1]["content"]


@pytest.mark.parametrize("provider", DIALECTS)
def test_every_turn_that_a_run_adds_is_reported_once(provider: str, registry: ToolRegistry) -> None:
    replies = [Say(calls=[weather(), Call("fails")]), Say(calls=[weather("Rome")]), Say("Sunny.")]
    with simulated(provider, *replies) as (asked, _):
        run = SyncAgentRun(asked, ASKED, registry)
        turns = [event for event in run if isinstance(event, TurnFinished)]
    assert tuple(event.turn for event in turns) == run.result.history_delta
    spent = [event.usage for event in turns if event.usage is not None]
    assert sum(usage.output_tokens for usage in spent) == run.result.usage.output_tokens
    assert all(event.is_whole for event in turns)
    assert [event.usage is None for event in turns] == [False, True, False, True, False]


@pytest.mark.parametrize("provider", DIALECTS)
def test_the_limit_of_time_ends_a_model_that_still_speaks(provider: str, registry: ToolRegistry):
    gate = Gate(after_frames=5)  # not opened: without the limit the run would not end
    with simulated(provider, Say("One two three four five six", delta_size=4, faults=[gate])) as (
        asked,
        _,
    ):
        result = execute_with_tools_sync(asked, ASKED, registry, timeout=0.3)
        gate.open()
    assert (result.stop_reason, result.timed_out) == ("time", True)
    assert "six" not in result.final_text
    assert result.error is None


def test_the_limit_of_time_ends_a_tool_that_still_runs():
    tools = ToolRegistry()
    done = threading.Event()

    @tools.tool
    def wait() -> str:
        """Waits."""
        done.wait(20)
        return "late"

    with simulated("anthropic", Say(calls=[Call("wait", {})])) as (asked, _):
        # Long enough that the tool has begun, on a busy machine too.
        result = execute_with_tools_sync(asked, ASKED, tools, timeout=2.0)
        done.set()
    assert result.stop_reason == "time"
    (answer,) = [part for part in result.history_delta[1].parts if isinstance(part, ToolResult)]
    assert answer.is_error
    assert "time" in str(answer.content)
