"""The jobs that every contender is measured with.

Rules:
1. A column of a table is one job with one figure; every contender receives the same bytes and must return the same answer.
2. CPU figures are the minimum of all rounds, wall figures their median; both are kept, and the column says which one it shows.
3. The conversations of the request group are legal: no contender has to repair them.
"""

import json
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from bench.peers.environments import LIMIT, OURS, PEERS, Peer, python_of
from bench.peers.field import ENVIRONMENT, Contestant, Measured, measure
from bench.replies import DELTAS, EXPECTED, FRAGMENTS, PROVIDERS, THROUGHPUT_DELTAS, address
from bench.server import CALLS_A_ROUND, FEW_WORDS, ROUNDS
from multi_llm_chat.protocol.providers import ROWS

AT_ONCE = 50
HELD = 200
TURNS = (1, 100, 1000, 5000)
WAIT = 0.1
APPENDED = 200
MICRO, MILLI = 1e6, 1e3
_ROOT = Path(__file__).parents[2]


class Column(Struct, frozen=True):
    """One figure of one job."""

    group: str
    title: str
    unit: str
    job: dict[str, Any] = {}
    figure: str = "cpu"
    scale: float = MILLI
    rounds: int = 4


def _job(do: str, provider: str, base: str, **more: Any) -> dict[str, Any]:
    model = ROWS[provider].default_model
    return {"do": do, "provider": provider, "base": base, "model": model} | more


def _fast(urls: dict[str, str], do: str, kind: str, provider: str, **more: Any) -> dict[str, Any]:
    base = address(urls["fast"], kind, provider)
    return _job(do, provider, base, expected=EXPECTED[kind], **more)


def streaming(urls: dict[str, str]) -> Iterator[Column]:
    """Yield columns for the CPU time of each delta: as fast as the server can send, and event by event."""
    for provider in PROVIDERS:
        job = _fast(urls, "text", "burst", provider)
        yield Column("burst", provider, "µs a delta", job, scale=MICRO / DELTAS)
    for provider in PROVIDERS:
        base = address(urls["paced"], "burst", provider)
        job = _job("text", provider, base, expected=EXPECTED["burst"])
        yield Column("paced", provider, "µs a delta", job, scale=MICRO / DELTAS)


def tool_calls(urls: dict[str, str]) -> Iterator[Column]:
    """Yield columns for one call in many fragments, and many calls in one turn."""
    for provider in PROVIDERS[:3]:
        for count in FRAGMENTS:
            job = _fast(urls, "calls", f"call{count}", provider)
            title = f"{provider}, {count:,}"
            yield Column("fragments", title, "µs a fragment", job, scale=MICRO / count, rounds=3)
    for provider in PROVIDERS:
        job = _fast(urls, "calls", "parallel", provider)
        yield Column("parallel", provider, "ms for 20 calls", job)


def first_delta(urls: dict[str, str]) -> Iterator[Column]:
    """Yield columns for the time to first token, alone and with concurrent streams, and for the throughput."""
    for provider in ("openai-chat", "anthropic", "gemini"):
        for count in (1, AT_ONCE):
            job = _fast(urls, "text", "short", provider, count=count)
            title = f"{provider}, {count} at once"
            rounds = 10 if count == 1 else 4
            yield Column("first delta", title, "ms CPU", job, "first_cpu", rounds=rounds)
            yield Column("first delta, wall", title, "ms", job, "first_wall", rounds=rounds)
    for provider in ("openai-chat", "anthropic", "gemini"):
        job = _fast(urls, "text", "middle", provider, count=AT_ONCE)
        each = MICRO / AT_ONCE / THROUGHPUT_DELTAS
        yield Column("throughput", f"{provider}, {AT_ONCE} streams", "µs a delta", job, scale=each, rounds=3)  # fmt: skip


def agents(urls: dict[str, str]) -> Iterator[Column]:
    """Yield columns for a model with tools: tools that do nothing (CPU), and tools that sleep (wall)."""
    for provider in ("openai-chat", "anthropic", "gemini"):
        base = address(urls["agent"], "", provider)
        for tool, seconds in (("nothing", 0), ("wait", WAIT)):
            rounds = ROUNDS[tool]
            expected = f"Done after {rounds * CALLS_A_ROUND} results."
            job = _job("agent", provider, base, tool=tool, seconds=seconds, expected=expected)
            if provider == "gemini":  # the older generation requires no signatures and no ids
                job["model"] = "gemini-2.5-pro"
            if tool == "nothing":
                yield Column("agent, no-op tools", provider, "ms CPU a round", job, scale=MILLI / rounds, rounds=3)  # fmt: skip
            else:
                yield Column("agent, 100 ms tools", provider, "ms a round", job, "wall", MILLI / rounds, rounds=3)  # fmt: skip


def conversation(turns: int) -> list[dict[str, Any]]:
    """Return a legal tool-using conversation of one model, with ids that every provider accepts; the last turn is the user's."""
    made: list[dict[str, Any]] = []
    while len(made) < turns - 1:
        at = len(made)
        names = [f"call{at + slot:05}" for slot in range(2)]
        calls = [
            {"type": "tool_call", "content": {"name": "get_weather", "arguments": {"city": f"city {at}"}, "tool_call_id": name}}
            for name in names
        ]  # fmt: skip
        results = [
            {"type": "tool_result", "name": "get_weather", "content": "25°C and sunny", "tool_call_id": name}
            for name in names
        ]  # fmt: skip
        made += [
            {"role": "user", "content": f"What is the weather in city {at}?"},
            {"role": "assistant", "content": [{"type": "text", "content": "Let me look."}, *calls]},
            {"role": "tool", "content": results},
            {"role": "assistant", "content": "It is sunny, 25°C."},
        ]
    whole = (turns - 1) // 4 * 4
    return [*made[:whole], {"role": "user", "content": "And tomorrow?"}]


TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def requests(urls: dict[str, str], folder: Path) -> Iterator[Column]:
    """Yield columns for the way from a conversation in the contender's own types to the answer."""
    for turns in TURNS:
        file = folder / f"{turns}.json"
        file.write_text(json.dumps(conversation(turns)), encoding="utf-8")
        for provider in ("openai-chat", "anthropic", "gemini"):
            base = address(urls["fast"], "whole", provider)
            job = _job("ask", provider, base, expected=EXPECTED["short"], history=str(file), tools=[TOOL])  # fmt: skip
            rounds = 9 if turns <= 1000 else 4
            yield Column("request", f"{provider}, {turns:,} turns", "ms CPU", job, rounds=rounds)


def columns(urls: dict[str, str], folder: Path) -> list[Column]:
    """Return all columns for running contenders."""
    return [
        *streaming(urls),
        *tool_calls(urls),
        *first_delta(urls),
        *agents(urls),
        *requests(urls, folder),
    ]


def memory(urls: dict[str, str]) -> Iterator[tuple[Column, dict[str, Measured]]]:
    """Measure the memory of an open stream; each in a fresh process, since a used one would reuse freed memory.

    Gemini is left out: the peers' clients for it open at most a hundred connections, and wait.
    """
    for provider in ("openai-chat", "anthropic"):
        base = address(urls["silent"], "", provider)
        for traced in (True, False):
            job = _job("hold", provider, base, count=HELD, expected=FEW_WORDS, traced=traced)
            found: dict[str, Measured] = {}
            for peer in (OURS, LIMIT, *PEERS):
                if python_of(peer).exists():
                    contestant = Contestant(peer.name, peer)
                    found |= measure([contestant], job, rounds=0)
                    contestant.close()
            title = f"{provider}, {'traced' if traced else 'resident'}"
            yield Column("memory", title, "KB a stream", job, "bytes", 1 / 1024), found


def _children(command: list[str], text: str) -> tuple[float, float, str]:
    """Return CPU and wall seconds of a child process, and its output."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=_ROOT, env=os.environ | ENVIRONMENT, check=False
    )  # fmt: skip
    wall, after = time.perf_counter() - began, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system  # fmt: skip
    return used, wall, done.stdout


def starts(urls: dict[str, str]) -> Iterator[tuple[Column, dict[str, Measured]]]:
    """Measure startup: the import alone, and a fresh process up to its first whole answer."""
    peers = [peer for peer in (OURS, LIMIT, *PEERS) if python_of(peer).exists()]
    homes = {"anthropic": "anthropic", "google-genai": "gemini"}
    worker = str(Path(__file__).with_name("worker.py"))

    def cold(peer: Peer) -> tuple[list[str], str]:
        script = str(Path(__file__).parent / "contenders" / f"{peer.contender}.py")
        job = _fast(urls, "text", "short", homes.get(peer.name, "openai-chat"))
        return [str(python_of(peer)), "-P", "-W", "ignore", worker, script], json.dumps(job) + "\n"

    def imported(peer: Peer) -> tuple[list[str], str]:
        return [str(python_of(peer)), "-c", peer.imports], ""

    kinds = {"import": imported, "cold start": cold}
    for kind, command_of in kinds.items():
        taken: dict[str, list[tuple[float, float]]] = {peer.name: [] for peer in peers}
        failures: dict[str, str] = {}
        for _ in range(2):
            for peer in peers:
                cpu, wall, printed = _children(*command_of(peer))
                if kind == "cold start" and '"cpu"' not in printed:
                    failures[peer.name] = printed.splitlines()[-1] if printed else "did not start"
                taken[peer.name].append((cpu, wall))
        found = {
            name: Measured(failure=failures[name]) if name in failures else _of_starts(times)
            for name, times in taken.items()
        }
        yield Column(kind, "CPU", "ms"), found
        yield Column(kind, "wall", "ms", figure="wall"), found


def _of_starts(times: list[tuple[float, float]]) -> Measured:
    cpu, wall = sorted(cpu for cpu, _ in times), sorted(wall for _, wall in times)
    middle = len(times) // 2
    return Measured(cpu[0], wall[middle], {}, cpu[middle] / cpu[0])


def appending(contestants: list[Contestant]) -> tuple[Column, dict[str, Measured]]:
    """Measure saving messages one by one, for contenders with a store. Each round uses new files."""
    rounds: list[dict[str, Measured]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(4):
            found: dict[str, Measured] = {}
            for one in contestants:
                file = str(Path(folder) / f"{number}-{one.name}.db")
                job = _job("append", "openai-chat", "http://127.0.0.1:9", file=file, count=APPENDED)
                found |= measure([one], job, rounds=0)
            rounds.append(found)
    best = {
        name: min((found[name] for found in rounds), key=lambda one: one.cpu or 0) for name in rounds[0]
    }  # fmt: skip
    return Column("store", "append one message", "ms CPU", scale=MILLI / APPENDED), best


def server_speed(urls: dict[str, str]) -> float:
    """Return the seconds per delta of the fast path without decoding: the lower bound of the harness."""
    target = urlsplit(address(urls["fast"], "burst", "openai-chat") + "/chat/completions")
    request = f"POST {target.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    best = float("inf")
    with socket.create_connection((target.hostname, target.port)) as connection:
        buffer = bytearray(1 << 20)
        for _ in range(20):
            began = time.perf_counter()
            connection.sendall(request)
            tail = b""
            while not tail.endswith(b"\r\n0\r\n\r\n"):
                size = connection.recv_into(buffer)
                tail = (tail + bytes(buffer[max(0, size - 8) : size]))[-8:]
            best = min(best, time.perf_counter() - began)
    return best / DELTAS
