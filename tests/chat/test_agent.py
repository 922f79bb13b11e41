"""``Agent`` over real HTTP: the simulator answers, real functions and servers run."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, assert_type

import pydantic
import pytest
from msgspec import Struct
from msgspec.structs import replace
from tests.tools.conftest import everyday

from multi_llm_chat import Agent, AgentResult, ToolRegistry, create_provider
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.provider import LLMProvider
from multi_llm_chat.agent.reply import Reply
from multi_llm_chat.chat.agent import RunContext
from multi_llm_chat.chat.council import Verdict
from multi_llm_chat.errors import AuthError, LimitReached, OutputError, ProviderError
from multi_llm_chat.events import TextDelta
from multi_llm_chat.history.values import ToolCall, ToolResult, Turn
from multi_llm_chat.request import ModelRequest
from multi_llm_chat.runs.hooks import RunHooks
from multi_llm_chat.testing.simulator import Call, Gate, RecordedRequest, Say, Simulator, Status
from multi_llm_chat.tools import Allow, ApprovalRequest, Decision
from multi_llm_chat.tools.tool import ToolContext


@dataclass
class City:
    """A city."""

    name: str
    population: int


class CityStruct(Struct):
    name: str
    population: int


class CityDict(TypedDict):
    name: str
    population: int


class CityModel(pydantic.BaseModel):
    name: str
    population: int


def contents(result: AgentResult[Any]) -> list[Any]:
    """Return what the tools of a run returned."""
    parts = [part for turn in result.turns for part in turn.parts]
    return [part.content for part in parts if isinstance(part, ToolResult)]


TOKYO = '{"name": "Tokyo", "population": 14000000}'


@contextmanager
def simulated(
    *replies: Any, provider: str = "anthropic", **settings: Any
) -> Generator[tuple[Agent[Any], Simulator]]:
    with (
        Simulator(list(replies)) as simulator,
        Agent(provider, api_key="k", base_url=simulator.base_url(provider), **settings) as agent,
    ):
        yield agent, simulator


def system_prompt(request: RecordedRequest) -> str:
    """Return the text of a request's system prompt, with or without a cache mark."""
    given: Any = request.body["system"]
    return given if isinstance(given, str) else given[0]["text"]


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def test_a_string_is_answered_with_tools():
    replies = [Say(calls=[Call("get_weather", {"city": "Tokyo"})]), Say("It is sunny.")]
    with simulated(*replies, tools=[get_weather], instructions="Be brief.") as (agent, simulator):
        result = agent.run_sync("How is the weather in Tokyo?")
    assert result.output == result.text == "It is sunny."
    assert [turn.role for turn in result.turns] == ["claude", "tool", "claude"]
    assert result.usage.output_tokens > 0
    assert result.cost is not None
    assert result.stop_reason == "answered"
    assert system_prompt(simulator.requests[0]) == "Be brief."


def test_any_history_is_answered_and_the_result_continues_it():
    history = [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": "Hi"},
    ]
    with simulated(Say("Fine."), Say("Yes.")) as (agent, simulator):
        first = agent.run_sync([*history, {"role": "user", "content": "How are you?"}])
        agent.run_sync([*first.turns, {"role": "user", "content": "Really?"}])
    assert len(simulator.requests[0].body["messages"]) == 3
    assert simulator.requests[1].body["messages"][-1]["content"] == "Really?"


@pytest.mark.parametrize("kind", [City, CityStruct, CityDict, CityModel])
@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-chat", "gemini"])
def test_a_typed_answer_is_of_its_type(kind: Any, provider: str):
    with simulated(Say(TOKYO), output=kind, provider=provider) as (agent, simulator):
        output = agent.run_sync("The largest city of Japan?").output
    if kind is CityDict:
        assert output == {"name": "Tokyo", "population": 14000000}
    else:
        assert isinstance(output, kind)
        assert output.name == "Tokyo"
    assert "population" in str(simulator.requests[0].body)


def test_a_list_is_asked_for_as_a_field():
    with simulated(Say('{"result": [1, 2]}'), output=list[int]) as (agent, _):
        assert agent.run_sync("Two numbers").output == [1, 2]


def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_error():
    replies = [Say("no json"), Say('{"name": "Tokyo"}'), Say(f"```json\n{TOKYO}\n```")]
    with simulated(*replies, output=City) as (agent, simulator):
        result = agent.run_sync("The largest city of Japan?")
    assert result.output == City("Tokyo", 14000000)
    assert "population" in simulator.requests[2].body["messages"][-1]["content"]
    assert len(result.turns) == 5  # three answers, two questions


def test_an_answer_that_never_fits_raises():
    with simulated(*[Say("no json")] * 3, output=City) as (agent, simulator):
        with pytest.raises(OutputError) as raised:
            agent.run_sync("The largest city of Japan?")
        assert raised.value.text == "no json"
        assert [turn.role for turn in raised.value.turns if isinstance(turn, Turn)] == ["claude", "user"] * 2 + ["claude"]  # fmt: skip
        assert len(simulator.requests) == 3


def test_partial_objects_are_there_while_the_answer_streams():
    seen: list[Any] = []
    with simulated(Say(TOKYO), output=City) as (agent, _):
        stream = agent.stream("The largest city of Japan?")
        seen.extend(stream.partial for event in stream if isinstance(event, TextDelta))
    assert seen[-1] == {"name": "Tokyo", "population": 14000000}
    assert stream.result.output == City("Tokyo", 14000000)


def test_events_are_read_with_async_for_too():
    async def read() -> list[Any]:
        with Simulator([Say("Hello.")]) as simulator:
            async with Agent("openai", api_key="k", base_url=simulator.base_url("openai")) as agent:
                stream = agent.stream("Hi")
                events = [event async for event in stream]
                assert stream.result.text == "Hello."
                return events

    events = asyncio.run(read())
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello."


def test_tools_and_instructions_get_the_deps():
    def who(context: ToolContext[dict[str, str]]) -> str:
        """The user's name."""
        return context.deps["name"]

    def instructions(context: RunContext[dict[str, str]]) -> str:
        return f"The user is {context.deps['name']}."

    replies = [
        Say(calls=[Call("who", {})]),
        Say("Anna."),
        Say(calls=[Call("who", {})]),
        Say("Bert."),
    ]
    settings: dict[str, Any] = {
        "tools": [who],
        "instructions": instructions,
        "deps": {"name": "Anna"},
    }
    with simulated(*replies, **settings) as (agent, simulator):
        first = agent.run_sync("Who am I?")
        second = agent.run_sync("Who am I?", deps={"name": "Bert"})
    assert contents(first) + contents(second) == ["Anna", "Bert"]
    assert [system_prompt(request) for request in simulator.requests[::2]] == [
        "The user is Anna.",
        "The user is Bert.",
    ]


def test_an_agent_is_a_tool_of_another():
    with simulated(
        Say("Paris is in France."), instructions="You know geography.", name="geographer"
    ) as (inner, asked):
        replies = [Say(calls=[Call("geographer", {"task": "Where is Paris?"})]), Say("In France.")]
        with simulated(*replies, tools=[inner]) as (agent, _):
            assert agent.run_sync("Where is Paris?").text == "In France."
    assert asked.requests[0].body["messages"][0]["content"] == "Where is Paris?"


def test_registries_servers_and_functions_are_mixed():
    registry = ToolRegistry()
    registry.tool(get_weather)
    server = everyday(name="daily")

    def shout(text: str) -> str:
        """In capitals."""
        return text.upper()

    calls = [
        Call("get_weather", {"city": "Rome"}),
        Call("add", {"first": 1, "second": 2}),
        Call("shout", {"text": "a"}),
    ]
    with simulated(Say(calls=calls), Say("Done."), tools=[registry, server, shout]) as (agent, _):
        result = agent.run_sync("Do it all")
    assert contents(result) == ["sunny in Rome", "3", "A"]


def test_hooks_see_and_change_what_is_asked_and_done():
    seen: list[str] = []

    def before_model(request: ModelRequest) -> ModelRequest:
        seen.append("model")
        return replace(request, system_prompt="From a hook.")

    def after_model(reply: Reply) -> None:
        seen.append(reply.text)

    async def before_tool(call: ToolCall) -> ToolCall:
        seen.append(call.name)
        return replace(call, arguments={"city": "Rome"})

    def after_tool(call: ToolCall, result: ToolResult) -> ToolResult:
        return replace(result, content=f"{result.content}!")

    hooks = RunHooks(before_model, after_model, before_tool, after_tool)
    replies = [Say(calls=[Call("get_weather", {"city": "Tokyo"})]), Say("Sunny.")]
    with simulated(*replies, tools=[get_weather], hooks=hooks) as (agent, simulator):
        result = agent.run_sync("How is the weather?")
    assert seen == ["model", "", "get_weather", "model", "Sunny."]
    assert contents(result) == ["sunny in Rome!"]
    assert system_prompt(simulator.requests[0]) == "From a hook."


def test_a_failed_run_raises_what_failed():
    with simulated(Status(401, "invalid x-api-key")) as (agent, _), pytest.raises(AuthError):
        agent.run_sync("Hi")


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(AuthError, match="ANTHROPIC_API_KEY"):
        Agent("claude").run_sync("Hi")


def test_a_stored_run_raises_what_failed_too(tmp_path: Path):
    with (
        simulated(Status(401, "invalid x-api-key"), store=tmp_path / "app.db") as (agent, _),
        pytest.raises(AuthError),
    ):
        agent.run_sync("Hi")


def test_a_limit_raises_with_the_turns_so_far():
    replies = [Say(calls=[Call("get_weather", {"city": str(number)})]) for number in range(9)]
    limits = LoopLimits(iterations=2)
    with (
        simulated(*replies, tools=[get_weather], limits=limits) as (agent, _),
        pytest.raises(LimitReached) as raised,
    ):
        agent.run_sync("How is the weather?")
    assert raised.value.reason == "iterations"
    assert len(raised.value.turns) >= 4


def test_a_chain_asks_the_next_model():
    with (
        Simulator(
            [Status(401, "no")],
        ) as first,
        Simulator([Say("From the second.")]) as second,
    ):
        chain = [
            create_provider("anthropic", api_key="k", base_url=first.base_url("anthropic")),
            create_provider("openai", api_key="k", base_url=second.base_url("openai")),
        ]
        with Agent(chain) as agent:
            assert agent.run_sync("Hi").text == "From the second."


def test_several_speakers_answer_together():
    with Simulator([]) as simulator:
        simulator.script.add(Say("I am Claude."), provider="anthropic")
        simulator.script.add(Say("I am Gemini."), provider="gemini")
        speakers = {
            name: create_provider(
                provider, api_key="k", base_url=simulator.base_url(provider), speaker=name
            )
            for name, provider in (("claude", "anthropic"), ("gemini", "gemini"))
        }
        with Agent(speakers) as agent:
            result = agent.run_sync("Who are you?")
    assert result.answers == {"claude": "I am Claude.", "gemini": "I am Gemini."}
    assert "claude: I am Claude." in result.text


def test_a_stored_run_continues_a_conversation(tmp_path: Path):
    replies = [Say("Hello Anna."), Say("You are Anna.")]
    with simulated(*replies, store=tmp_path / "app.db") as (agent, simulator):
        first = agent.run_sync("I am Anna.")
        second = agent.run_sync("Who am I?", conversation=first.conversation)
    assert second.conversation == first.conversation
    assert len(simulator.requests[1].body["messages"]) == 3


def test_a_stored_run_takes_a_history(tmp_path: Path):
    history = [{"role": "user", "content": "I am Anna."}, {"role": "claude", "content": "Hello."}]
    with simulated(Say("Anna."), store=tmp_path / "app.db", output=None) as (agent, simulator):
        assert (
            agent.run_sync(
                each for each in [*history, {"role": "user", "content": "Who am I?"}]
            ).text
            == "Anna."
        )
    assert len(simulator.requests[0].body["messages"]) == 3


def test_many_prompts_are_answered_in_order_with_progress():
    progress: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        progress.append((done, total))

    def answer(request: Any) -> Say:
        return Say(f"echo {request.body['messages'][-1]['content']}")

    with (
        Simulator(answer) as simulator,
        Agent("anthropic", api_key="k", base_url=simulator.base_url("anthropic")) as agent,
    ):
        results = agent.map_sync(
            [str(n) for n in range(20)],
            concurrency=5,
            on_progress=report,
        )
    assert [each.text for each in results if not isinstance(each, Exception)] == [
        f"echo {n}" for n in range(20)
    ]
    assert progress[-1] == (20, 20)


def test_a_failed_prompt_of_many_is_raised_or_returned():
    with simulated(Status(401, "no"), Status(401, "no")) as (agent, _):
        (failed,) = agent.map_sync(["Hi"], return_errors=True)
        assert isinstance(failed, ProviderError)
        with pytest.raises(AuthError):
            agent.map_sync(["Hi"])


def test_headers_and_options_reach_the_request():
    with simulated(Say("Hi"), headers={"x-team": "blue"}, options={"max_tokens": 7}) as (
        agent,
        simulator,
    ):
        agent.run_sync("Hi")
    assert simulator.requests[0].headers["x-team"] == "blue"
    assert simulator.requests[0].body["max_tokens"] == 7


def test_settings_reach_every_speaker_of_one_service():
    with Simulator([Say("Hi")] * 3) as simulator:
        models: dict[str, Any] = {"anna": "claude", "bert": "claude:claude-haiku-4-5", "carl": ["anthropic"]}  # fmt: skip
        settings: dict[str, Any] = {"api_key": "k", "base_url": simulator.base_url("anthropic"), "headers": {"x-team": "blue"}, "options": {"max_tokens": 7}}  # fmt: skip
        with Agent(models, **settings) as agent:
            assert set(agent.run_sync("Hi").answers) == {"anna", "bert", "carl"}
    assert [request.headers["x-team"] for request in simulator.requests] == ["blue"] * 3
    assert [request.body["max_tokens"] for request in simulator.requests] == [7] * 3


def test_a_result_has_the_history_that_the_next_question_continues():
    with simulated(Say("One."), Say("Two.")) as (agent, simulator):
        first = agent.run_sync("Hi")
        second = agent.run_sync([*first.history, "And then?"])
    sent = simulator.requests[-1].body["messages"]
    assert [turn.role for turn in second.history] == ["user", "claude", "user", "claude"]
    assert "And then?" in str(sent[-1])
    assert len(sent) == 3


@pytest.mark.parametrize("how", ["for", "async for"])
def test_the_with_block_of_a_stream_stops_a_run_that_is_left_early(how: str):
    gate = Gate(after_frames=4)  # one of them has words
    with simulated(Say("one two three", delta_size=3, faults=[gate])) as (agent, _):

        async def leave_early() -> None:
            async with agent.stream("Hi") as stream:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        break
            assert asyncio.all_tasks() == {asyncio.current_task()}

        if how == "async for":
            asyncio.run(leave_early())
        else:
            with agent.stream("Hi") as stream:  # the block ends although the reply never does
                for event in stream:
                    if isinstance(event, TextDelta):
                        break
        gate.open()


def test_a_reader_that_is_cancelled_while_it_leaves_causes_no_complaint():
    """Web servers cancel a reply again and again until it ends, when its client has gone."""
    gate = Gate(after_frames=4)
    complaints: list[dict[str, Any]] = []
    with simulated(Say("one two three", delta_size=3, faults=[gate])) as (agent, _):

        async def run() -> None:
            loop, begun = asyncio.get_running_loop(), asyncio.Event()
            loop.set_exception_handler(lambda _loop, context: complaints.append(context))

            async def read() -> None:
                async for _ in agent.stream("Hi"):
                    begun.set()

            reader = asyncio.create_task(read())
            await begun.wait()
            while not reader.done():
                reader.cancel()
                await asyncio.sleep(0)
            if producers := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(producers)

        asyncio.run(run())
        gc.collect()
        gate.open()
    assert complaints == []


def test_a_run_that_another_process_left_is_finished(tmp_path: Path):
    """The first process is killed while its tool runs; see ``tests/runs/test_own_runs.py`` for kills at every point."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    with Simulator([Say(calls=[Call("work", {})]), Say("It is done.")]) as simulator:
        arguments = [sys.executable, str(script), simulator.base_url("anthropic"), str(tmp_path)]
        killed = subprocess.run([*arguments, "run"], check=False, capture_output=True)
        assert killed.returncode == -9
        finished = subprocess.run(
            [*arguments, "resume"], check=True, capture_output=True, text=True
        )
    assert finished.stdout.strip() == "It is done."
    assert (tmp_path / "worked").read_text(encoding="utf-8") == "12"


PROGRAM = '''
import os, signal, sys
from pathlib import Path
from multi_llm_chat import Agent, AgentResult, ToolRegistry

base_url, folder, action = sys.argv[1:]
tools = ToolRegistry()

@tools.tool(resume="retry")
def work() -> str:
    """Do the work."""
    done = Path(folder, "worked")
    if done.exists():
        done.write_text("12")
        return "done"
    done.write_text("1")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"

agent = Agent("claude", tools=tools, store=Path(folder, "app.db"), api_key="k", base_url=base_url)
if action == "run":
    agent.run_sync("Do it")
else:
    stream = agent.resume()
    for event in stream:
        pass
    print(stream.result.text)
agent.close()
'''


def test_runs_that_begin_together_wait_for_the_same_servers():
    server = everyday(name="daily")

    def answer(request: RecordedRequest) -> Say:
        last = str(request.body["messages"][-1])
        if "tool_result" not in last:
            return Say(calls=[Call("add", {"first": 1, "second": 2})])
        return Say("three" if "3" in last else last)

    with (
        Simulator(answer) as simulator,
        Agent(
            "anthropic", tools=[server], api_key="k", base_url=simulator.base_url("anthropic")
        ) as agent,
    ):
        results = agent.map_sync(["Add"] * 4)
    assert [each.text for each in results if not isinstance(each, Exception)] == ["three"] * 4


def test_leaving_a_stream_of_several_speakers_stops_them_all():
    gate = Gate(1)
    with Simulator([]) as simulator:
        speakers: dict[str, LLMProvider] = {}
        for name, provider in (("claude", "anthropic"), ("gemini", "gemini")):
            simulator.script.add(
                Say("one two three", delta_size=3, faults=[gate]), provider=provider
            )
            base_url = simulator.base_url(provider)
            speakers[name] = create_provider(provider, api_key="k", base_url=base_url, speaker=name)
        with Agent(speakers) as agent:
            events = iter(agent.stream("Who are you?"))
            while not isinstance(next(events), TextDelta):
                pass
            events.close()  # returns although the replies never end
        gate.open()


def test_a_resumed_run_that_fails_raises(tmp_path: Path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    with Simulator([Say(calls=[Call("work", {})]), Status(401)]) as simulator:
        arguments = [sys.executable, str(script), simulator.base_url("anthropic"), str(tmp_path)]
        assert (
            subprocess.run([*arguments, "run"], check=False, capture_output=True).returncode == -9
        )
        failed = subprocess.run([*arguments, "resume"], check=False, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "AuthError" in failed.stderr


def test_speakers_and_models_are_given_by_name():
    with Simulator([]) as simulator, pytest.MonkeyPatch.context() as environment:
        for provider, key in (("anthropic", "ANTHROPIC"), ("gemini", "GEMINI")):
            simulator.script.add(Say(f"I am {provider}."), provider=provider)
            environment.setenv(f"{key}_API_KEY", "k")
            environment.setenv(f"{key}_BASE_URL", simulator.base_url(provider))
        with Agent({"anna": "claude:claude-haiku-4-5", "bert": ["gemini", "openai"]}) as agent:
            answers = agent.run_sync("@all Who are you?").answers
    assert answers == {"anna": "I am anthropic.", "bert": "I am gemini."}
    asked = {request.provider: request for request in simulator.requests}
    assert asked["anthropic"].body["model"] == "claude-haiku-4-5"


def test_the_agents_approval_also_decides_for_a_registry_without_one():
    registry = ToolRegistry()
    asked: list[str] = []

    @registry.tool(approval="ask")
    def erase(name: str) -> str:
        """Erase a file."""
        return f"erased {name}"

    def decide(request: ApprovalRequest) -> Decision:
        asked.append(request.call.name)
        return Allow()

    with (
        Simulator([Say(calls=[Call("erase", {"name": "x"})]), Say("Done.")]) as simulator,
        Agent(
            "anthropic",
            tools=[registry],
            approve=decide,
            api_key="k",
            base_url=simulator.base_url("anthropic"),
        ) as agent,
    ):
        result = agent.run_sync("Erase x")
    assert asked == ["erase"]
    assert "erased x" in str(result.turns)


def test_type_checkers_know_the_results_of_many_prompts_and_of_a_council():
    """``assert_type`` is what pyright and mypy check."""

    async def many(address: str) -> list[AgentResult[str]]:
        async with Agent("claude", api_key="k", base_url=address) as agent:
            return assert_type(await agent.map(["a"], concurrency=1), list[AgentResult[str]])

    with Simulator([Say("Hi")] * 3) as simulator:
        address = simulator.base_url("anthropic")
        with Agent("claude", api_key="k", base_url=address) as agent:
            plain = agent.map_sync(["a"])
            assert_type(plain, list[AgentResult[str]])
            mixed = agent.map_sync(["a"], return_errors=True)
            assert_type(mixed, list[AgentResult[str] | Exception])
        several = asyncio.run(many(address))
    assert [result.text for result in [*plain, *several]] == ["Hi", "Hi"]
    council = Agent({"a": "claude", "b": "gemini"}, council="a")
    assert_type(council, Agent[Verdict])
    council.close()
