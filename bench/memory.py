"""The memory of an open stream: 200 streams, each having sent a few words, compared with the first streams of each kind.

Resident memory is the process's memory, including the allocator and Python's socket buffers; traced
memory is that of Python objects. The server is another process. The baseline is aiohttp alone, holding
the same replies open.
"""

import asyncio
import gc
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import aiohttp

from bench.measuring import Result, fresh
from multi_llm_chat.agent.providers import create_provider
from multi_llm_chat.events import TextDelta
from multi_llm_chat.testing.simulator import Hang, Say, Simulator, always

LIMIT_KB = 64.0
STREAMS = 200
PROVIDERS = ("openai-chat", "openai", "anthropic", "gemini")
HISTORY = [{"role": "user", "content": "Tell me a long story."}]
SAY = Say("Once upon a time there was a server that fell silent.", faults=[Hang(after_frames=6)])


def serve() -> None:
    """Answer with a few words and fall silent; serve until the input ends."""
    with Simulator(always(SAY)) as simulator:
        print(*(simulator.base_url(name) for name in PROVIDERS), flush=True)
        sys.stdin.read()


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


class Meter:
    """The bytes for each stream, between one reading and the next."""

    def __init__(self, *, traced: bool) -> None:
        if traced:
            tracemalloc.start()
        self._read: Callable[[], int] = (
            (lambda: tracemalloc.get_traced_memory()[0]) if traced else _resident
        )
        self._before = 0

    def start(self) -> None:
        gc.collect()
        self._before = self._read()

    def kilobytes_each(self) -> float:
        gc.collect()
        return (self._read() - self._before) / STREAMS / 1024


def with_threads(urls: list[str], *, traced: bool) -> float:
    """Open our streams without ``async``."""
    meter = Meter(traced=traced)
    with ExitStack() as stack:
        providers = [
            stack.enter_context(create_provider(name, api_key="k", base_url=url))
            for name, url in zip(PROVIDERS, urls, strict=True)
        ]
        for number in range(-len(providers), STREAMS):
            if number == 0:
                meter.start()
            stream = stack.enter_context(providers[number % len(providers)].stream(HISTORY))
            next(event for event in stream if isinstance(event, TextDelta))
        return meter.kilobytes_each()


def with_tasks(urls: list[str], *, traced: bool) -> float:
    """Open our streams with ``async``."""

    async def hold() -> float:
        meter = Meter(traced=traced)
        async with AsyncExitStack() as stack:
            providers = [
                await stack.enter_async_context(create_provider(name, api_key="k", base_url=url))
                for name, url in zip(PROVIDERS, urls, strict=True)
            ]
            for number in range(-len(providers), STREAMS):
                if number == 0:
                    meter.start()
                provider = providers[number % len(providers)]
                stream = await stack.enter_async_context(provider.astream(HISTORY))
                while not isinstance(await anext(stream), TextDelta):
                    pass
            return meter.kilobytes_each()

    return asyncio.run(hold())


def with_aiohttp(urls: list[str], *, traced: bool) -> float:
    """Open the baseline: aiohttp's own replies, with one chunk read."""
    url = f"{urls[0]}/chat/completions"
    body = {"model": "gpt-4.1", "messages": HISTORY, "stream": True}

    async def hold() -> float:
        meter = Meter(traced=traced)
        async with AsyncExitStack() as stack:
            connector = aiohttp.TCPConnector(limit=0)
            session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            for number in range(-1, STREAMS):
                if number == 0:
                    meter.start()
                reply = await stack.enter_async_context(session.post(url, json=body))
                await reply.content.readany()
            return meter.kilobytes_each()

    return asyncio.run(hold())


WAYS = {"async": with_tasks, "sync": with_threads, "aiohttp alone": with_aiohttp}


def _measure(way: str, urls: list[str], traced: bool) -> float:
    return WAYS[way](urls, traced=traced)


def run() -> Result:
    """Measure each way in its own process: a shared process would reuse freed memory."""
    figures: dict[str, float] = {}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.memory", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        urls = server.stdout.readline().split()
        for way in WAYS:
            for kind in ("resident", "traced"):
                figures[f"{way}, {kind}"] = fresh(_measure, way, urls, kind == "traced")
        server.communicate()
    return Result(
        f"Memory of an open stream, {STREAMS} over the first (limit {LIMIT_KB:.0f} KB)",
        {name: f"{value:6.1f} KB" for name, value in figures.items()},
        figures,
        [
            f"a stream takes {value:.1f} KB ({name})"
            for name, value in figures.items()
            if value > LIMIT_KB and not name.startswith("aiohttp")
        ],
    )


if __name__ == "__main__" and sys.argv[1:] == ["serve"]:
    serve()
