"""Whatever happens to a tool, its call has one result, the other calls have theirs, and the run continues."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.compat.applications import HANDLERS, Application

from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.compat.handlers import EventSystem, EventTools, serve_tools
from multi_llm_chat.history.values import ToolResult, Turn
from multi_llm_chat.runs.execute_with_tools import execute_with_tools, execute_with_tools_sync
from multi_llm_chat.testing.simulator import Call, Say, Simulator
from multi_llm_chat.tools import ApprovalRequest, Deny, ToolRegistry
from multi_llm_chat.tools.tool_runner import ToolRunner

Run = Callable[[Simulator, ToolRunner], tuple[str, tuple[Turn, ...]]]


def registry() -> ToolRegistry:
    async def deny(request: ApprovalRequest) -> Deny:
        return Deny("not today")

    tools = ToolRegistry(approve=deny)

    @tools.tool
    async def works() -> str:
        return "fine"

    @tools.tool
    def raises() -> str:
        raise RuntimeError("no luck")

    @tools.tool(timeout=0.01)
    async def hangs() -> str:
        await asyncio.Event().wait()
        return "never"

    @tools.tool
    async def cancels() -> str:
        raise asyncio.CancelledError

    @tools.tool
    def disabled() -> str:
        return "never"

    @tools.tool(approval="ask")
    def denied() -> str:
        return "never"

    @tools.tool
    def counts(number: int) -> int:
        return number

    tools.disable("disabled")
    return tools


def through_a_handler(simulator: Simulator, tools: ToolRunner) -> tuple[str, tuple[Turn, ...]]:
    result = Application(simulator, "anthropic", HANDLERS["anthropic"](tools=tools)).ask("Try")
    return result.text, result.turns


def through_the_sync_driver(
    simulator: Simulator, tools: ToolRunner
) -> tuple[str, tuple[Turn, ...]]:
    url = simulator.base_url("anthropic")
    with create_provider("anthropic", api_key="key", base_url=url) as provider:
        result = execute_with_tools_sync(provider, [{"role": "user", "content": "Try"}], tools)
    return result.final_text, result.history_delta


def through_the_async_driver(
    simulator: Simulator, tools: ToolRunner
) -> tuple[str, tuple[Turn, ...]]:
    async def run() -> Any:
        url = simulator.base_url("anthropic")
        async with create_provider("anthropic", api_key="key", base_url=url) as provider:
            return await execute_with_tools(provider, [{"role": "user", "content": "Try"}], tools)

    result = asyncio.run(run())
    return result.final_text, result.history_delta


def directly(tools: ToolRegistry) -> ToolRunner:
    return tools


def by_events(tools: ToolRegistry) -> ToolRunner:
    events = EventSystem()
    serve_tools(tools, events)
    return EventTools(events)


WAYS = [through_a_handler, through_the_sync_driver, through_the_async_driver]
FAILING = {
    "raising": (Call("raises"), "no luck"),
    "hanging": (Call("hangs"), "did not finish within 0.01 seconds"),
    "cancelled": (Call("cancels"), "cancelled"),
    "unknown": (Call("unknown"), "no tool named 'unknown'"),
    "disabled": (Call("disabled"), "switched off"),
    "denied": (Call("denied"), "not today"),
    "wrongly called": (Call("counts", {"number": "four"}), "$.number"),
    "called with half an object": (Call("counts", '{"number": '), "JSON"),
}


@pytest.mark.parametrize("connected", [directly, by_events])
@pytest.mark.parametrize("run", WAYS)
@pytest.mark.parametrize(("call", "text"), FAILING.values(), ids=FAILING.keys())
def test_one_error_result_and_the_run_continues(
    call: Call, text: str, run: Run, connected: Callable[[ToolRegistry], ToolRunner]
):
    calls = [Call("works"), call, Call("works")]
    with Simulator([Say(calls=calls), Say("Done.")]) as simulator:
        said, turns = run(simulator, connected(registry()))
    results = [part for part in turns[1].parts if isinstance(part, ToolResult)]
    assert said == "Done."
    assert [result.is_error for result in results] == [False, True, False]
    assert text in str(results[1].content)
    assert simulator.requests[1].violations == ()


@pytest.mark.parametrize("run", WAYS)
def test_a_handler_that_never_answers_is_a_timeout_result(run: Run):
    silent = EventSystem()
    definition = {"name": "works", "description": "", "input_schema": {"type": "object"}}
    silent.subscribe(
        "get_enabled_tools_request",
        lambda asked: silent.emit("enabled_tools_response", {"tool_definitions": [definition]}),
    )
    silent.subscribe("execute_tool_request", lambda asked: None)
    with Simulator([Say(calls=[Call("works")]), Say("Done.")]) as simulator:
        said, turns = run(simulator, _Timed(silent))
    (result,) = [part for part in turns[1].parts if isinstance(part, ToolResult)]
    assert said == "Done."
    assert result.is_error
    assert "within 0.05 seconds" in str(result.content)


class _Timed(EventTools):
    """Event tools with a short time limit for results, but not for definitions."""

    def __init__(self, events: EventSystem) -> None:
        super().__init__(events, 0.05)
        self._patient = EventTools(events)

    def definitions(self) -> Any:
        return self._patient.definitions()
