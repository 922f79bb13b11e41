"""CPU for each streamed delta: ours (``astream``) against the limit, on the same loopback server.

The limit is the least that any client needs: aiohttp, a naive split at blank lines and ``msgspec`` decoding to
dicts, with no assembly and no error handling. The server is another process that sends prebuilt
bytes, either all at once (``burst``: the strictest, since only the client's work remains) or one write for
each event (``paced``: as a model sends them). Also measured: one call in 4,000 fragments (``call``), and the CPU
time until the first delta when 50 streams start at once (``short``: a reply of few deltas).
"""

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import aiohttp
import msgspec

from bench.measuring import Result
from bench.replies import DELTAS, FRAGMENTS, PROVIDERS, address
from multi_llm_chat.agent.providers import LLMProvider, create_provider

LIMIT = 2.0
MANY = FRAGMENTS[-1]
VERSIONS = {"anthropic": "/v1", "gemini": "/v1beta"}
#: What ends an event of a stream.
BLANK = {"gemini": b"\r\n\r\n"}
ROUNDS = 9
HISTORY = [{"role": "user", "content": "Tell me a long story."}]
PATHS = {
    "openai-chat": "/chat/completions",
    "openai": "/responses",
    "anthropic": "/messages",
    "gemini": "/models/{model}:streamGenerateContent?alt=sse",
}
STREAMS_AT_ONCE = 50


class Marks(NamedTuple):
    """The measurements of a reply: how many events, and when the first arrived."""

    events: int
    first: float


async def limit(
    session: aiohttp.ClientSession, url: str, body: bytes, blank: bytes = b"\n\n"
) -> Marks:
    """Read a reply with the least work a client can do."""
    decode = msgspec.json.decode
    count, first = 0, 0.0
    rest = b""
    headers = {"Content-Type": "application/json"}
    async with session.post(url, data=body, headers=headers) as response:
        async for data in response.content.iter_any():
            *whole, rest = (rest + data).split(blank)
            for frame in whole:
                text = frame[frame.index(b"data: ") + 6 :]
                if text != b"[DONE]":
                    decode(text)
                    count += 1
            first = first or time.process_time()
    return Marks(count, first)


async def ours(provider: LLMProvider) -> Marks:
    """Read the same reply through our client."""
    count, first = 0, 0.0
    async with provider.astream(HISTORY) as stream:
        async for _ in stream:
            count += 1
            first = first or time.process_time()
    return Marks(count, first)


Task: TypeAlias = Callable[[], Awaitable[Marks]]


async def _cpu(task: Task) -> float:
    before = time.process_time()
    marks = await task()
    spent = time.process_time() - before
    assert marks.events >= DELTAS, f"only {marks.events} events"
    return spent


async def _first_delta(task: Task) -> float:
    """Return the median CPU time until the first delta, of many streams that start at once.

    One thread does all the work, so this is the latency on an otherwise idle machine.
    """
    before = time.process_time()
    marks = await asyncio.gather(*(task() for _ in range(STREAMS_AT_ONCE)))
    return statistics.median(mark.first for mark in marks) - before


async def _compare(
    measure: Callable[[Task], Awaitable[float]],
    session: aiohttp.ClientSession,
    server: str,
    kind: str,
    name: str,
    rounds: int = ROUNDS,
) -> tuple[float, float]:
    """Return the minima of ours and of the limit, measured alternately."""
    body = json.dumps({"messages": HISTORY}).encode()
    base = address(server, kind, name) + VERSIONS.get(name, "")
    mine = least = float("inf")
    async with create_provider(name, api_key="none", base_url=base) as provider:
        url = base + PATHS[name].format(model=provider.model)
        for _ in range(rounds):
            mine = min(mine, await measure(lambda: ours(provider)))
            least = min(
                least,
                await measure(lambda: limit(session, url, body, BLANK.get(name, b"\n\n"))),
            )
    return mine, least


async def _measure(urls: dict[str, str]) -> dict[str, tuple[float, float]]:
    # Exclude imported objects from garbage collection:
    # otherwise chance decides which measurement pays for scanning them.
    gc.collect()
    gc.freeze()
    found: dict[str, tuple[float, float]] = {}
    fast = urls["fast"]
    async with aiohttp.ClientSession() as session:
        for pace, server in (("burst", fast), ("paced", urls["paced"])):
            for name in PROVIDERS:
                found[f"{pace} {name}, a delta"] = _each(
                    DELTAS, await _compare(_cpu, session, server, "burst", name)
                )
        found[f"one call, a fragment of {MANY}"] = _each(
            MANY, await _compare(_cpu, session, fast, f"call{MANY}", "openai-chat")
        )
        found[f"first delta, {STREAMS_AT_ONCE} at once"] = await _compare(
            _first_delta, session, fast, "short", "openai-chat", rounds=3 * ROUNDS
        )
    return found


def _each(count: int, seconds: tuple[float, float]) -> tuple[float, float]:
    return seconds[0] / count, seconds[1] / count


def run() -> Result:
    """Measure ours and the limit alternately."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        found = asyncio.run(_measure(json.loads(server.stdout.readline())))
        server.communicate()
    ratios = {name: mine / least for name, (mine, least) in found.items()}
    return Result(
        f"Streaming, CPU (limit x{LIMIT})",
        {
            name: f"{mine * 1e6:8.2f} µs, limit {least * 1e6:8.2f} µs: x{ratios[name]:.2f}"
            for name, (mine, least) in found.items()
        },
        {
            name: {"ours": mine, "limit": least, "ratio": ratios[name]}
            for name, (mine, least) in found.items()
        },
        [f"{name}: x{ratio:.2f}" for name, ratio in ratios.items() if ratio > LIMIT],
    )
