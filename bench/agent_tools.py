"""The overhead of the tool loop: four 100 ms tools in one turn, against a bare ``asyncio.gather`` of the same sleeps.

The time runs from the end of the model's turn to the arrival of the next request at the server: running the tools, building the
continuation and sending it. Both are measured alternately in the same process, and the fastest run of each is compared.
"""

import asyncio
import time
from collections.abc import Callable

from bench.measuring import Result
from multi_llm_chat.agent.limits import LoopLimits
from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.compat.handlers import EventSystem, EventTools, serve_tools
from multi_llm_chat.events import Finish
from multi_llm_chat.runs.agent_run import AgentRun, SyncAgentRun
from multi_llm_chat.testing.simulator import Call, RecordedRequest, Reply, Say, Simulator
from multi_llm_chat.tools import ToolRegistry
from multi_llm_chat.tools.tool_runner import ToolRunner

LIMIT = 1.10
SECONDS = 0.1
TOOLS = 4
ROUNDS = 7
NO_OP_ROUNDS = 20
PROVIDER = "anthropic"
#: Each of these calls is handed between threads.
FOR_INFORMATION = {"async loop, tools behind events"}
HISTORY = [{"role": "user", "content": "Wait four times."}]


def registry() -> ToolRegistry:
    """Return a registry with a tool that sleeps and one that does nothing."""
    tools = ToolRegistry()

    @tools.tool
    async def wait(number: int) -> int:
        await asyncio.sleep(SECONDS)
        return number

    @tools.tool
    async def nothing(number: int) -> int:
        return number

    return tools


class Server:
    """A model that calls the tool in every turn but the last, and records when each request arrived."""

    def __init__(self, tool: str, rounds: int) -> None:
        self.asked: list[float] = []
        self._calls = [Call(tool, {"number": number}) for number in range(TOOLS)]
        self._rounds = rounds
        self.simulator = Simulator(self._answer)

    def _answer(self, request: RecordedRequest) -> Reply:
        del request
        self.asked.append(time.perf_counter())
        return Say("Done.") if len(self.asked) > self._rounds else Say(calls=self._calls)


def bare() -> float:
    """Run the sleeps alone."""

    async def together() -> None:
        await asyncio.gather(*(asyncio.sleep(SECONDS) for _ in range(TOOLS)))

    async def timed() -> float:
        began = time.perf_counter()
        await together()
        return time.perf_counter() - began

    return asyncio.run(timed())


def _async(tools: ToolRunner, tool: str = "wait", rounds: int = 1) -> tuple[list[float], float]:
    """Return the seconds between turns and requests, and the CPU seconds of the loop's thread."""
    server = Server(tool, rounds)

    async def run() -> tuple[list[float], float]:
        url = server.simulator.base_url(PROVIDER)
        limits = LoopLimits(iterations=rounds + 1, repeats=rounds + 1)
        async with create_provider(PROVIDER, api_key="k", base_url=url) as provider:
            before = time.thread_time()
            events = AgentRun(provider, HISTORY, tools, limits=limits)
            turned = [time.perf_counter() async for event in events if isinstance(event, Finish)]
            return turned, time.thread_time() - before

    with server.simulator:
        turned, spent = asyncio.run(run())
    return _between(server, turned), spent


def _sync(tools: ToolRunner) -> list[float]:
    server = Server("wait", 1)
    with server.simulator:
        url = server.simulator.base_url(PROVIDER)
        with create_provider(PROVIDER, api_key="k", base_url=url) as provider:
            events = SyncAgentRun(provider, HISTORY, tools)
            turned = [time.perf_counter() for event in events if isinstance(event, Finish)]
    return _between(server, turned)


def _between(server: Server, turned: list[float]) -> list[float]:
    return [asked - ended for ended, asked in zip(turned[:-1], server.asked[1:], strict=True)]


def run() -> Result:
    """Measure every way to run tools, alternating with the bare sleeps."""
    tools = registry()
    events = EventSystem()
    serve_tools(tools, events)
    ways: dict[str, Callable[[], float]] = {
        "bare asyncio.gather": bare,
        "async loop": lambda: min(_async(tools)[0]),
        "sync loop": lambda: min(_sync(tools)),
        "async loop, tools behind events": lambda: min(_async(EventTools(events))[0]),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            best[name] = min(best[name], way())
    floor = best["bare asyncio.gather"]
    ratios = {name: seconds / floor for name, seconds in best.items()}
    no_op = min(_async(tools, "nothing", NO_OP_ROUNDS)[1] for _ in range(3)) / NO_OP_ROUNDS
    rows = {
        name: f"{seconds * 1e3:7.2f} ms, {ratios[name]:.3f} of bare"
        for name, seconds in best.items()
    }
    rows["a round of four tools that do nothing"] = f"{no_op * 1e3:7.2f} ms CPU, request included"
    return Result(
        f"From the model's turn to the next request, four tools of 100 ms (limit {LIMIT:.2f} of bare)",
        rows,
        {"seconds": best, "ratios": ratios, "no_op_cpu_seconds": no_op},
        [
            f"{name}: {ratio:.3f} of the bare sleeps"
            for name, ratio in ratios.items()
            if ratio > LIMIT and name not in FOR_INFORMATION
        ],
    )
