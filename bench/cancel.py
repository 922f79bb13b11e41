"""How soon a server learns that its client has gone: from the cancellation to the end of the socket.

The reply has started and is silent, so only the closed socket can tell the server.
"""

import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable

from bench.measuring import Result
from multi_llm_chat.agent.providers import LLMProvider, create_provider
from multi_llm_chat.errors import StreamBroken
from multi_llm_chat.testing.simulator import Hang, RecordedRequest, Say, Simulator, always

LIMIT_MS = 200.0
ROUNDS = 20
PROVIDERS = ("openai-chat", "openai", "anthropic", "gemini")
HISTORY = [{"role": "user", "content": "Tell me a long story."}]
SAY = Say("Once upon a time there was a server that fell silent.", faults=[Hang(after_frames=5)])

Latest = Callable[[], RecordedRequest]


def close(provider: LLMProvider, latest: Latest) -> float:
    """The reader closes its own stream."""
    stream = provider.stream(HISTORY)
    next(stream)
    began = time.perf_counter()
    stream.close()
    latest().disconnected.wait()
    return time.perf_counter() - began


def stop(provider: LLMProvider, latest: Latest) -> float:
    """Another thread stops the stream while its reader waits."""
    stream = provider.stream(HISTORY)
    begun = threading.Event()

    def read() -> None:
        try:
            for _ in stream:
                begun.set()
        except StreamBroken:
            return

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait()
    began = time.perf_counter()
    stream.stop()
    latest().disconnected.wait()
    spent = time.perf_counter() - began
    reader.join()
    return spent


async def aclose(provider: LLMProvider, latest: Latest) -> float:
    """The reader closes its own stream."""
    stream = provider.astream(HISTORY)
    await anext(stream)
    began = time.perf_counter()
    await stream.aclose()
    await latest().disconnected.arrived()
    return time.perf_counter() - began


async def cancel(provider: LLMProvider, latest: Latest) -> float:
    """Cancel the task that waits for the next event."""
    begun = asyncio.Event()

    async def read() -> None:
        async with provider.astream(HISTORY) as stream:
            async for _ in stream:
                begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    began = time.perf_counter()
    task.cancel()
    await latest().disconnected.arrived()
    spent = time.perf_counter() - began
    await asyncio.wait([task])
    return spent


def _sync(way: Callable[[LLMProvider, Latest], float], simulator: Simulator) -> list[float]:
    found: list[float] = []
    for number in range(ROUNDS):
        name = PROVIDERS[number % len(PROVIDERS)]
        url = simulator.base_url(name)
        with create_provider(name, api_key="k", base_url=url) as provider:
            found.append(way(provider, lambda: simulator.requests[-1]))
    return found


async def _async(
    way: Callable[[LLMProvider, Latest], Awaitable[float]], simulator: Simulator
) -> list[float]:
    found: list[float] = []
    for number in range(ROUNDS):
        name = PROVIDERS[number % len(PROVIDERS)]
        url = simulator.base_url(name)
        async with create_provider(name, api_key="k", base_url=url) as provider:
            found.append(await way(provider, lambda: simulator.requests[-1]))
    return found


def run() -> Result:
    """Measure every way to cancel, on all four dialects in turn."""
    with Simulator(always(SAY)) as simulator:
        times = {
            "sync, closed": _sync(close, simulator),
            "sync, stopped from another thread": _sync(stop, simulator),
            "async, closed": asyncio.run(_async(aclose, simulator)),
            "async, task cancelled": asyncio.run(_async(cancel, simulator)),
        }
    figures = {
        name: {"median": statistics.median(found) * 1e3, "worst": max(found) * 1e3}
        for name, found in times.items()
    }
    return Result(
        f"From cancelling to the server's notice, {ROUNDS} rounds (limit {LIMIT_MS:.0f} ms)",
        {
            name: f"median {found['median']:6.2f} ms, worst {found['worst']:6.2f} ms"
            for name, found in figures.items()
        },
        figures,
        [
            f"{name}: the server noticed after {found['worst']:.0f} ms"
            for name, found in figures.items()
            if found["worst"] > LIMIT_MS
        ],
    )
