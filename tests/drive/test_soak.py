"""Many questions at once over faulty connections leave nothing behind."""

import asyncio
import gc
import os
import sys
import threading

import pytest
from tests.asking import HISTORY
from tests.servers import Reset, Script, ScriptedServer, Send, head, serving, streamed, whole

from multi_llm_chat.client import create_provider
from multi_llm_chat.errors import ProviderError
from multi_llm_chat.exchange.breaker import Breaker
from multi_llm_chat.exchange.retrying import RetryPolicy

QUESTIONS = 240
AT_ONCE = 24
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
GOOD = streamed([WORD, b"data: [DONE]\n\n"])
SCRIPTS: list[Script] = [
    GOOD,
    whole({"error": {"message": "busy"}}, 529),
    GOOD,
    [Reset()],
    streamed([WORD], ending=[Reset()]),
    whole({"error": {"message": "slow down"}}, 429, Retry_After="0"),
    [Send(head(Content_Length="9")), Reset()],
    streamed(b'data: {"error":{"message":"overloaded"}}\n\n'),
    GOOD,
    whole(b"<html>", 502, kind="text/html"),
]


async def ask_many(server: ScriptedServer) -> dict[str, int]:
    outcomes: dict[str, int] = {}
    gate = asyncio.Semaphore(AT_ONCE)
    retry = RetryPolicy(attempts=3, first_wait=0.0)
    provider = create_provider(
        "openai-chat",
        base_url=server.url,
        api_key="k",
        retry=retry,
        breaker=Breaker(threshold=9999),
    )

    async def ask(number: int) -> None:
        async with gate:
            try:
                async with provider.astream(HISTORY) as stream:
                    async for _ in stream:
                        if number % 7 == 0:
                            break
                outcome = "answered"
            except ProviderError as failure:
                outcome = type(failure).__name__
            outcomes[outcome] = outcomes.get(outcome, 0) + 1

    async with provider:
        await asyncio.gather(*(ask(number) for number in range(QUESTIONS)))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return outcomes


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_nothing_is_left_open() -> None:
    with serving(GOOD) as server:
        asyncio.run(ask_many(server))  # whatever is opened once and for all
        gc.collect()
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    with serving(*SCRIPTS * QUESTIONS) as server:
        outcomes = asyncio.run(ask_many(server))
    gc.collect()
    assert sum(outcomes.values()) == QUESTIONS
    assert outcomes["answered"] > QUESTIONS / 2
    assert set(outcomes) <= {
        "answered",
        "StreamBroken",
        "Overloaded",
        "ConnectionFailed",
        "RateLimited",
    }
    assert len(os.listdir("/proc/self/fd")) <= before
    assert threading.active_count() <= threads
