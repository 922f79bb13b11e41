"""CPU for each streamed delta: ours (``astream``) against the limit, on the same loopback server.

The limit is what any client pays: aiohttp, a naive split at blank lines and ``msgspec`` decoding to
dicts, nothing assembled, no error noticed. The server is another process that sends prebuilt
bytes, either at once (``burst``: the harshest, for all that is left is our own work) or one write for
each event (``paced``: as a model speaks). Besides: one call in 4,000 fragments (``call``), and the time
spent until the first delta when 50 streams begin at once (``short``: a reply of few deltas).
"""

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import aiohttp
import msgspec

from bench.measuring import show
from multi_llm_chat.client import LLMProvider, create_provider

LIMIT = 2.0
DELTAS = 3000
ROUNDS = 9
HISTORY = [{"role": "user", "content": "Tell me a long story."}]
PACES = ("burst", "paced")
FRAGMENTS = 4000
STREAMS_AT_ONCE = 50


class Marks(NamedTuple):
    """What a reply showed: how many events, and when the first came."""

    events: int
    first: float


#: What every chunk of Chat Completions says besides its choices.
_CHUNK = {
    "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
    "object": "chat.completion.chunk",
    "created": 1741569952,
    "model": "gpt-4.1-2025-04-14",
    "service_tier": "default",
    "system_fingerprint": "fp_50cad350e4",
}


def _chunk(delta: Any, reason: str | None = None) -> tuple[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return "", _CHUNK | {"choices": [choice], "usage": None}


def _chat() -> Iterable[tuple[str, Any]]:
    for number in range(DELTAS):
        yield _chunk({"content": f" word{number}"})
    yield _chunk({}, "stop")


def _responses() -> Iterable[tuple[str, Any]]:
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    yield (
        "response.created",
        {
            "type": "response.created",
            "response": {"id": "resp_1", "status": "in_progress", "output": []},
        },
    )
    yield (
        "response.output_item.added",
        {"type": "response.output_item.added", "output_index": 0, "item": item},
    )
    text = ""
    for number in range(DELTAS):
        text += f" word{number}"
        yield (
            "response.output_text.delta",
            {
                "type": "response.output_text.delta",
                "sequence_number": number + 4,
                "item_id": "msg_67ccd2bf17f0819081ff3bb2cf6508e60bb6a6b452d3795b",
                "output_index": 0,
                "content_index": 0,
                "delta": f" word{number}",
                "logprobs": [],
                "obfuscation": "k3mQ9xZt",
            },
        )
    done: dict[str, Any] = item | {
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    yield (
        "response.output_item.done",
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    )
    yield (
        "response.completed",
        {
            "type": "response.completed",
            "response": {
                "id": "resp_1",
                "status": "completed",
                "output": [done],
                "usage": {"input_tokens": 9, "output_tokens": DELTAS},
            },
        },
    )


def _anthropic() -> Iterable[tuple[str, Any]]:
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [],
        "model": "claude-sonnet-5",
        "stop_reason": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    yield "message_start", {"type": "message_start", "message": message}
    yield (
        "content_block_start",
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    )
    for number in range(DELTAS):
        yield (
            "content_block_delta",
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": f" word{number}"},
            },
        )
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    yield (
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": DELTAS},
        },
    )
    yield "message_stop", {"type": "message_stop"}


def _gemini() -> Iterable[tuple[str, Any]]:
    for number in range(DELTAS):
        yield (
            "",
            {
                "candidates": [
                    {
                        "content": {"parts": [{"text": f" word{number}"}], "role": "model"},
                        "index": 0,
                    }
                ],
                "usageMetadata": {
                    "promptTokenCount": 9,
                    "candidatesTokenCount": number,
                    "totalTokenCount": number + 9,
                    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}],
                },
                "modelVersion": "gemini-3.7-flash",
                "responseId": "9h0WaJ3yH5TqvdIP1_nJsAo",
            },
        )
    yield (
        "",
        {
            "candidates": [
                {
                    "content": {"parts": [{"text": ""}], "role": "model"},
                    "finishReason": "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": DELTAS},
        },
    )


def _call() -> Iterable[tuple[str, Any]]:
    """One call of Chat Completions, its arguments in many pieces."""
    first = {"index": 0, "id": "call_1", "function": {"name": "write", "arguments": '{"text":"'}}
    rest = {"index": 0, "function": {"arguments": "word "}}
    last = {"index": 0, "function": {"arguments": '"}'}}
    for delta in (first, *[rest] * FRAGMENTS, last):
        yield _chunk({"tool_calls": [delta]})
    yield _chunk({}, "tool_calls")


STREAMS: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
    "openai-chat": _chat,
    "openai": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


def frames(provider: str, events: Iterable[tuple[str, Any]] | None = None) -> list[bytes]:
    """The events of a reply, each as it stands on the wire."""
    lines: list[bytes] = []
    for name, data in events or STREAMS[provider]():
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
        lines.append((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
    if provider == "openai-chat":
        lines.append(b"data: [DONE]\n\n")
    return lines


async def _serve() -> None:
    """Serve ``/<pace>/<provider>/…`` until the input ends; print the port first."""
    replies: dict[tuple[str, str], list[bytes]] = {}
    for provider in STREAMS:
        chunks = [f"{len(frame):x}\r\n".encode() + frame + b"\r\n" for frame in frames(provider)]
        replies["paced", provider] = chunks
        replies["burst", provider] = [b"".join(chunks)]
    for pace, events in (("call", list(_call())), ("short", list(_chat())[-20:])):
        data = b"".join(frames("openai-chat", events))
        replies[pace, "openai-chat"] = [f"{len(data):x}\r\n".encode() + data + b"\r\n"]
    start = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                await reader.readexactly(length)
                _, pace, provider, _ = head.split(b" ", 2)[1].decode().split("/", 3)
                writer.write(start)
                for chunk in replies[pace, provider]:
                    writer.write(chunk)
                    if pace == "paced":
                        await asyncio.sleep(
                            0
                        )  # lets the other side read: one segment for each event
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


async def limit(session: aiohttp.ClientSession, url: str, body: bytes) -> Marks:
    """The least a client can do."""
    decode = msgspec.json.decode
    count, first = 0, 0.0
    rest = b""
    headers = {"Content-Type": "application/json"}
    async with session.post(url, data=body, headers=headers) as response:
        async for data in response.content.iter_any():
            *whole, rest = (rest + data).split(b"\n\n")
            for frame in whole:
                text = frame[frame.index(b"data: ") + 6 :]
                if text != b"[DONE]":
                    decode(text)
                    count += 1
            first = first or time.process_time()
    return Marks(count, first)


async def ours(provider: LLMProvider) -> Marks:
    """The same through our client."""
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
    """The median CPU time until the first delta, of many streams that begin at once.

    One thread does all the work, so this is the waiting time on a machine that has nothing else to do.
    """
    before = time.process_time()
    marks = await asyncio.gather(*(task() for _ in range(STREAMS_AT_ONCE)))
    return statistics.median(mark.first for mark in marks) - before


async def _compare(
    measure: Callable[[Task], Awaitable[float]],
    session: aiohttp.ClientSession,
    name: str,
    base: str,
    rounds: int = ROUNDS,
) -> tuple[float, float]:
    """The least of ours and of the limit; both take turns."""
    body = json.dumps({"messages": HISTORY}).encode()
    mine = least = float("inf")
    async with create_provider(name, api_key="none", base_url=base) as provider:
        for _ in range(rounds):
            mine = min(mine, await measure(lambda: ours(provider)))
            least = min(least, await measure(lambda: limit(session, f"{base}/x", body)))
    return mine, least


async def _measure(port: int) -> dict[str, tuple[float, float]]:
    # What the imports have made is no garbage; who happens to pay for looking at it is chance.
    gc.collect()
    gc.freeze()
    server = f"http://127.0.0.1:{port}"
    found: dict[str, tuple[float, float]] = {}
    async with aiohttp.ClientSession() as session:
        for pace in PACES:
            for name in STREAMS:
                base = f"{server}/{pace}/{name}"
                found[f"{pace} {name}, a delta"] = _each(
                    DELTAS, await _compare(_cpu, session, name, base)
                )
        base = f"{server}/call/openai-chat"
        found[f"one call, a fragment of {FRAGMENTS}"] = _each(
            FRAGMENTS, await _compare(_cpu, session, "openai-chat", base)
        )
        base = f"{server}/short/openai-chat"
        found[f"first delta, {STREAMS_AT_ONCE} at once"] = await _compare(
            _first_delta, session, "openai-chat", base, rounds=3 * ROUNDS
        )
    return found


def _each(count: int, seconds: tuple[float, float]) -> tuple[float, float]:
    return seconds[0] / count, seconds[1] / count


def run() -> list[str]:
    """Print the ratios; returns what was over the limit."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.streaming", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        found = asyncio.run(_measure(int(server.stdout.readline())))
        server.communicate()
    rows = {
        name: f"{mine * 1e6:8.2f} µs, limit {least * 1e6:8.2f} µs: x{mine / least:.2f}"
        for name, (mine, least) in found.items()
    }
    show(f"Streaming (limit x{LIMIT})", rows)
    return [f"streaming {name}" for name, (mine, least) in found.items() if mine / least > LIMIT]


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(_serve())
    else:
        sys.exit(1 if run() else 0)
