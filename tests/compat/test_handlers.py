"""Runs of a handler: concurrent tools, edited results, independent runs."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.compat.applications import DIALECTS, HANDLERS, Application, model_of, payload_for

from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.compat.handlers import (
    ClaudeHandler,
    EventSystem,
    EventTools,
    GptHandler,
    StreamingRequest,
    StreamResult,
    ToolRound,
    review_by_events,
    serve_tools,
)
from multi_llm_chat.compat.handlers._forms import FORMS
from multi_llm_chat.history.values import ToolCall, ToolResult
from multi_llm_chat.protocol.providers import provider_row
from multi_llm_chat.runs.execute_with_tools import execute_with_tools_sync
from multi_llm_chat.testing.simulator import Call, Disconnect, Say, Simulator, Status
from multi_llm_chat.tools import ToolRegistry


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


def results_of(result: StreamResult) -> list[Any]:
    return [
        part.content for turn in result.turns for part in turn.parts if isinstance(part, ToolResult)
    ]


def test_the_calls_of_one_turn_run_at_the_same_time(simulator: Simulator):
    """Each tool waits for the others: sequential calls would never end."""
    registry = ToolRegistry()
    together = threading.Barrier(4, timeout=20)

    @registry.tool
    def meet(number: int) -> int:
        together.wait()
        return number

    calls = [Call("meet", {"number": number}) for number in range(4)]
    simulator.script.add(Say(calls=calls), Say("Met."))
    result = Application(simulator, "anthropic", ClaudeHandler(tools=registry)).ask("Meet")
    assert [str(content) for content in results_of(result)] == ["0", "1", "2", "3"]
    assert result.text == "Met."


@pytest.mark.parametrize("connected", ["direct", "events"])
def test_two_runs_at_once_never_mix_their_results(connected: str):
    """The same tool, the same ids; the first run's answer arrives after all of the second's."""
    registry = ToolRegistry()
    second_done = threading.Event()

    @registry.tool
    def look(name: str) -> str:
        if name.startswith("first"):
            second_done.wait(20)
        return f"found {name}"

    events = EventSystem()
    serve_tools(registry, events)
    tools = registry if connected == "direct" else EventTools(events)
    handler = GptHandler(tools=tools)

    def run(name: str) -> StreamResult:
        calls = [Call("look", {"name": f"{name} {number}"}, f"call_{number}") for number in (1, 2)]
        with Simulator([Say(calls=calls), Say(f"{name} done")]) as simulator:
            result = Application(simulator, "openai-chat", handler).ask("Look")
        if name == "second":
            second_done.set()
        return result

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(run, ["first", "second"])
    assert (results_of(first), first.text) == (["found first 1", "found first 2"], "first done")
    assert (results_of(second), second.text) == (
        ["found second 1", "found second 2"],
        "second done",
    )


def test_a_late_result_does_not_reach_the_next_call(simulator: Simulator):
    registry = ToolRegistry()
    release, returned = threading.Event(), threading.Event()

    @registry.tool(timeout=0.02)
    def slow(word: str) -> str:
        if word == "late":
            release.wait(20)
            returned.set()
        return word

    @registry.tool
    def quick() -> str:
        release.set()  # the late result comes while this call runs
        returned.wait(20)
        return "quick"

    simulator.script.add(
        Say(calls=[Call("slow", {"word": "late"}, "call_1")]),
        Say(calls=[Call("quick", {}, "call_1")]),
        Say("Done."),
    )
    result = Application(simulator, "openai-chat", GptHandler(tools=registry)).ask("Go")
    timed_out, answered = results_of(result)
    assert "did not finish" in timed_out
    assert answered == "quick"


def test_tools_learn_that_their_call_was_abandoned():
    registry = ToolRegistry()
    stopped = threading.Event()

    @registry.tool
    async def endless() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    events = EventSystem()
    serve_tools(registry, events)
    result = asyncio.run(EventTools(events, 0.02).execute(ToolCall("endless", {}, "call_1")))
    assert result.is_error
    assert stopped.wait(20)


@pytest.mark.parametrize("provider", DIALECTS)
def test_the_loop_can_use_tools_behind_events(provider: str, simulator: Simulator):
    registry = ToolRegistry()

    @registry.tool
    def look(name: str) -> dict[str, str]:
        return {"found": name}

    events = EventSystem()
    stop = serve_tools(registry, events)
    simulator.script.add(Say(calls=[Call("look", {"name": "it"})]), Say("Found."))
    url = simulator.base_url(provider)
    with create_provider(provider, api_key="key", base_url=url) as asked:
        result = execute_with_tools_sync(
            asked, [{"role": "user", "content": "Look"}], EventTools(events)
        )
    assert result.final_text == "Found."
    assert result.chunks[1]["content"] == {"found": "it"}
    stop()
    assert EventTools(events).definitions() == ()


def test_results_can_be_edited_and_tools_run_again_before_the_model_receives_them(
    simulator: Simulator,
):
    registry = ToolRegistry()
    runs: list[str] = []

    @registry.tool
    def look(name: str) -> str:
        runs.append(name)
        return f"{name} {len(runs)}"

    def review(done: ToolRound) -> None:
        assert [call.name for call in done.calls] == ["look", "look"]
        done.modify_tool_result("call_1", "edited")
        assert done.reexecute_tool("call_2").content == "b 3"
        with pytest.raises(ValueError, match="call_9"):
            done.modify_tool_result("call_9", "")

    calls = [Call("look", {"name": "a"}, "call_1"), Call("look", {"name": "b"}, "call_2")]
    simulator.script.add(Say(calls=calls), Say("Done."))
    application = Application(simulator, "openai-chat", GptHandler(tools=registry))
    result = application.ask("Look", review=review)
    assert results_of(result) == ["edited", "b 3"]
    sent = [message["content"] for message in simulator.requests[1].body["messages"][2:]]
    assert sent == ["edited", "b 3"]


def test_a_review_that_raises_cancels_the_run_and_keeps_the_results(simulator: Simulator):
    registry = ToolRegistry()
    registry.tool(name="look")(lambda: "found")

    def review(done: ToolRound) -> None:
        raise RuntimeError("the user closed the window")

    simulator.script.add(Say(calls=[Call("look")]))
    application = Application(simulator, "openai-chat", GptHandler(tools=registry))
    result = application.ask("Look", review=review)
    assert (result.stop_reason, results_of(result)) == ("cancelled", ["found"])
    assert len(simulator.requests) == 1


def reviewed(simulator: Simulator, *answers: dict[str, Any]) -> tuple[StreamResult, list[Any]]:
    """Run two tools whose results are reviewed through events, with these answers in turn."""
    registry = ToolRegistry()
    runs: list[str] = []

    @registry.tool
    def look(name: str) -> str:
        runs.append(name)
        return f"{name} {runs.count(name)}"

    events = EventSystem()
    serve_tools(registry, events)
    shown: list[Any] = []
    waiting = list(answers)

    def review(asked: dict[str, Any]) -> None:
        shown.append([result["tool_result"] for result in asked["results"]])
        events.emit("tool_results_reviewed", waiting.pop(0))

    events.subscribe("review_tool_results_request", review)
    calls = [Call("look", {"name": "a"}, "call_1"), Call("look", {"name": "b"}, "call_2")]
    simulator.script.add(Say(calls=calls), Say("Done."))
    application = Application(simulator, "openai-chat", GptHandler(events))
    return application.ask("Look", review=review_by_events(events)), shown


def test_results_can_be_looked_at_by_events(simulator: Simulator):
    result, shown = reviewed(
        simulator, {"modify": {"call_1": "edited"}, "reexecute": ["call_2"]}, {}
    )
    assert shown == [["a 1", "b 1"], ["edited", "b 2"]]
    assert results_of(result) == ["edited", "b 2"]
    assert result.text == "Done."


def test_a_review_by_events_can_cancel_the_run(simulator: Simulator):
    result, _ = reviewed(simulator, {"cancel": True})
    assert (result.stop_reason, results_of(result)) == ("cancelled", ["a 1", "b 1"])


@pytest.mark.parametrize(
    "answer", [{}, {"modify": {"call_9": "x"}}, {"reexecute": ["call_9"]}, {"modify": 7}]
)
def test_a_review_by_events_that_makes_no_sense_changes_nothing(
    simulator: Simulator, answer: dict[str, Any]
):
    result, _ = reviewed(simulator, answer)
    assert (results_of(result), result.text) == (["a 1", "b 1"], "Done.")


def test_without_tools_the_calls_are_left_to_the_application(simulator: Simulator):
    simulator.script.add(Say(calls=[Call("look", {}, "call_1")]))
    application = Application(simulator, "openai-chat", GptHandler())
    result = application.follow({
        "model": "gpt-4.1", "stream": True, "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "look"}}],
    })  # fmt: skip
    assert result.success
    assert result.response["choices"][0]["message"]["tool_calls"][0]["id"] == "call_1"
    assert len(simulator.requests) == 1


@pytest.mark.parametrize("provider", DIALECTS)
def test_an_error_or_a_break_in_the_second_request_keeps_the_first_round(
    provider: str, simulator: Simulator
):
    registry = ToolRegistry()
    registry.tool(name="look")(lambda: "found")
    looks = Say(calls=[Call("look")])
    broken = Say("It is " * 9, faults=[Disconnect(after_frames=6)])
    application = Application(simulator, provider, HANDLERS[provider](tools=registry))
    for second in (Status(429), broken):
        simulator.script.add(looks, second)
        result = application.ask("Look")
        assert not result.success
        assert result.error is not None
        assert results_of(result) == ["found"]


def test_an_application_that_cannot_send_gets_an_error_without_its_secrets(simulator: Simulator):
    registry = ToolRegistry()
    registry.tool(name="look")(lambda: "found")

    def refuse(request: object) -> object:
        raise ConnectionError("https://host/?key=secret")

    simulator.script.add(Say(calls=[Call("look")]))
    application = Application(simulator, "openai-chat", GptHandler(tools=registry))
    result = application.ask("Look", make_request=refuse)
    assert not result.success
    assert "ConnectionError" in str(result.error)
    assert "secret" not in str(result.error)


def test_listeners_that_fail_do_not_end_a_run(simulator: Simulator):
    registry = ToolRegistry()
    registry.tool(name="look")(lambda: "found")

    def fail(chunks: Any) -> None:
        raise RuntimeError("no screen")

    simulator.script.add(Say("Wait.", calls=[Call("look")]), Say("Done."))
    application = Application(simulator, "openai-chat", GptHandler(tools=registry))
    assert application.ask("Look", emit_stream_output=fail).text == "Done."


def test_what_a_handler_can_do():
    assert GptHandler().supports_tools()
    assert not GptHandler().supports_thinking()
    assert GptHandler(provider="openai").supports_thinking()
    assert ClaudeHandler().supports_thinking()
    with pytest.raises(ValueError, match="no name"):
        GptHandler().convert_tool_definition({"description": "nameless"})


class Unreliable:
    """A runner that breaks its promise of one result for each call."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry

    def definitions(self) -> Any:
        return self._registry.definitions()

    async def execute(self, call: ToolCall, *, conversation: str | None = None) -> ToolResult:
        raise NotImplementedError

    def submit(self, call: ToolCall, *, conversation: str | None = None) -> Future[ToolResult]:
        future: Future[ToolResult] = Future()
        match call.name:
            case "raises":
                future.set_exception(RuntimeError("no luck"))
            case "cancels":
                future.cancel()
                future.set_running_or_notify_cancel()
            case _:
                future.set_result(ToolResult(call.name, "found", call.tool_call_id))
        return future


def test_a_runner_that_breaks_its_promise_does_not_break_the_run(simulator: Simulator):
    registry = ToolRegistry()
    for name in ("raises", "cancels", "look"):
        registry.tool(name=name)(lambda: "never")
    tools = Unreliable(registry)
    simulator.script.add(Say(calls=[Call("raises"), Call("look"), Call("cancels")]), Say("Done."))
    result = Application(simulator, "gemini", HANDLERS["gemini"](tools=tools)).ask("Look")
    assert result.text == "Done."
    assert [content == "found" for content in results_of(result)] == [False, True, False]
    events = EventSystem()
    serve_tools(tools, events)
    for name in ("raises", "cancels"):
        asked: dict[str, Any] = {"tool_name": name, "tool_input": {}, "tool_call_id": "call_1"}
        answer = events.request("execute_tool_request", asked)
        assert answer["success"] is False
        assert answer["error"]


class Broken(Unreliable):
    """A runner that cannot even list its tools."""

    def definitions(self) -> Any:
        raise RuntimeError("no tools today")


def test_an_unexpected_error_is_reported_as_well(simulator: Simulator):
    simulator.script.add(Say("Hello."))
    application = Application(simulator, "openai-chat", GptHandler(tools=Broken(ToolRegistry())))
    result = application.follow({
        "model": "gpt-4.1", "stream": True, "messages": [{"role": "user", "content": "Hi"}],
    })  # fmt: skip
    assert not result.success
    assert "RuntimeError" in str(result.error)
    nothing = application.handler.handle_tool_calls([], {}, application.context())
    assert not nothing.success


def test_without_an_answer_no_tool_is_offered():
    events = EventSystem()
    tools = EventTools(events)
    assert tools.definitions() == ()
    events.subscribe(
        "get_enabled_tools_request",
        lambda asked: events.emit("enabled_tools_response", {"tool_definitions": 7}),
    )
    assert tools.definitions() == ()
    silent = EventSystem()
    silent.subscribe("get_enabled_tools_request", lambda asked: None)
    assert EventTools(silent, 0.01).definitions() == ()


@pytest.mark.parametrize("provider", DIALECTS)
def test_calls_that_the_application_has_read_are_run_with_the_text_around_them(
    provider: str, simulator: Simulator
):
    registry = ToolRegistry()
    registry.tool(name="look")(lambda: "found")
    handler = HANDLERS[provider](tools=registry, provider=provider)
    application = Application(simulator, provider, HANDLERS[provider](provider=provider))
    simulator.script.add(Say("Let me see.", calls=[Call("look")]), Say("Done."))
    payload = handler.prepare_payload(payload_for(provider, "Look"), model=model_of(provider))
    read = application.follow(payload)
    calls = [
        FORMS[provider_row(provider).dialect].call(part)
        for part in read.turns[0].parts
        if isinstance(part, ToolCall)
    ]
    context = application.context(original_payload=payload)
    result = handler.handle_tool_calls(calls, read.response, context)
    assert result.text == "Done."
    assert "Let me see." in simulator.requests[1].content.decode()
    assert simulator.requests[1].violations == ()


def test_the_progress_callback_receives_every_piece(simulator: Simulator):
    registry = ToolRegistry()
    registry.tool(name="look")(lambda: "found")
    received: list[dict[str, Any]] = []
    simulator.script.add(Say("Wait.", calls=[Call("look")]), Say("Done."))
    application = Application(simulator, "openai-chat", GptHandler(tools=registry))
    payload = application.handler.prepare_payload(payload_for("openai-chat", "Look"))
    request = StreamingRequest("first", payload, received.append)
    application.handler.process_stream(
        application.send(payload), request, {}, application.context()
    )
    assert received == application.output
    assert [sent.request_id for sent in application.requests] == ["first.1"]
