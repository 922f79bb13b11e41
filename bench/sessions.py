"""500 conversations at the same time through ``mlc serve``, ten deltas a second each.

A provider sends the streams, and simulated browsers read them; both are separate processes. The same browsers also read the same
streams directly from the provider: the server's cost is a ratio to that, so that the machine's speed does not matter.
"""

import argparse
import asyncio
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
from aiohttp import web as http

from bench.measuring import Result
from bench.web import SPEAKERS, open_files, process_cpu, server

SESSIONS = 500
DELTAS = 200
A_SECOND = 10
#: The limits: most sessions' time to first token in seconds, and the server's CPU time per delta in microseconds.
FIRST_WORDS = 1.5
CPU_A_DELTA = 60.0

#: Seconds between the starts of two sessions: all have started after ``SESSIONS`` of these.
SPACING = 0.002

#: Seconds after the last start, and before the first end, that are not measured.
SETTLING = 2.0

_SENT = re.compile(rb"\bat([0-9]{13})\b")
#: Typical model output: a paragraph of sixty tokens with some markup.
_WORDS = [
    "A",
    "queue",
    "keeps",
    "the",
    "messages",
    "that",
    "wait,",
    "in",
    "the",
    "order",
    "in",
    "which",
    "they",
    "came.",
    "**Workers**",
    "take",
    "them",
    "one",
    "by",
    "one,",
    "and",
    "a",
    "message",
    "that",
    "a",
    "worker",
    "could",
    "not",
    "finish",
    "goes",
    "back",
    "to",
    "`pending`,",
    "so",
    "that",
    "another",
    "one",
    "finds",
    "it.",
    "Nothing",
    "is",
    "lost",
    "if",
    "a",
    "machine",
    "ends,",
    "because",
    "each",
    "step",
    "was",
    "written",
    "down",
    "before",
    "it",
    "was",
    "made,",
    "and",
    "the",
    "next",
    "worker",
    "reads",
    "what",
    "is",
    "there.",
    "\n\n",
]


async def _answer(request: http.Request) -> http.StreamResponse:
    await request.read()
    response = http.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    began = time.monotonic()
    with suppress(ConnectionError):
        for number in range(DELTAS):
            await response.write(
                _chunk({"content": f"at{time.time() * 1000:.0f} {_WORDS[number % len(_WORDS)]} "})
            )
            await asyncio.sleep(max(0.0, began + (number + 1) / A_SECOND - time.monotonic()))
        await response.write(_chunk({}, "stop") + b"data: [DONE]\n\n")
    return response


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def provide(port_file: str) -> None:
    """Run the provider in this process."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    app = http.Application()
    app.router.add_post("/v1/chat/completions", _answer)
    temporary = Path(port_file + ".new")
    temporary.write_text(str(listening.getsockname()[1]), encoding="utf-8")
    temporary.rename(port_file)
    http.run_app(app, sock=listening, print=None)


@contextmanager
def provider(folder: Path) -> Generator[str]:
    """Run a provider in a separate process, and yield its address."""
    port_file = folder / "provider"
    program = f"from bench.sessions import provide; provide({str(port_file)!r})"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[1])
    while not port_file.exists():
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port_file.read_text(encoding='utf-8')}/v1"
    finally:
        process.terminate()
        process.wait()


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


@asynccontextmanager
async def browser_session(address: str) -> AsyncGenerator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    jar = aiohttp.CookieJar(unsafe=True)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        address, connector=connector, cookie_jar=jar, timeout=timeout
    ) as session:
        yield session


async def bare(address: str, sessions: int) -> dict[str, float]:
    """Let the simulated browsers read the provider's own streams."""
    origin = address.removesuffix("/v1")
    firsts: list[float] = []
    async with browser_session(origin) as session:

        async def read(number: int) -> None:
            await asyncio.sleep(number * SPACING)
            began = time.monotonic()
            async with session.post("/v1/chat/completions", json={"messages": []}) as stream:
                await stream.content.readline()
                firsts.append(time.monotonic() - began)
                async for _ in stream.content:
                    pass

        used = time.process_time()
        await asyncio.gather(*(read(number) for number in range(sessions)))
        used = time.process_time() - used
    return {
        "bare, CPU a delta": used / sessions / DELTAS * 1e6,
        "bare, first words p95": quantile(firsts, 0.95),
    }


class Page:
    """One open page: a browser's state of its conversation."""

    def __init__(self, html: str) -> None:
        self.conversation = _between(html, 'data-conversation="', '"')
        self.position = _between(html, 'data-position="', '"')
        self.form_token = _between(html, 'name="form-token" content="', '"')
        self.posted = 0.0
        self.first = 0.0
        self.is_complete = False
        self.delays: list[float] = []
        self._newest = 0.0

    def read(self, line: bytes) -> None:
        """Record when the tokens of a change were sent."""
        now = time.time() * 1000
        for found in _SENT.finditer(line):
            sent = float(found[1])
            if sent > self._newest:
                self._newest = sent
                self.delays.append(now - sent)
                self.first = self.first or time.monotonic()


def _between(text: str, start: str, end: str) -> str:
    return text.partition(start)[2].partition(end)[0]


async def crowd(address: str, token: str, pid: int, sessions: int) -> dict[str, float]:
    """Run one simulated browser for each session, each with its own conversation."""
    async with browser_session(address) as session:
        await session.get(f"/?token={token}")
        opening = asyncio.Semaphore(4)
        ready = asyncio.Barrier(sessions + 1)
        pages: list[Page] = []

        async def follow() -> None:
            async with opening:
                async with session.get("/") as answer:
                    page = Page(await answer.text())
                stream = await session.get(f"/c/{page.conversation}/events?after={page.position}")
                await stream.content.readline()
                pages.append(page)
            async with stream:
                await ready.wait()
                async for line in stream.content:
                    page.read(line)
                    if b'{"op":"busy","value":false}' in line:
                        page.is_complete = True
                        return

        async def ask(page: Page, number: int) -> None:
            await asyncio.sleep(number * SPACING)
            page.posted = time.monotonic()
            form = aiohttp.FormData({"text": f"@{SPEAKERS[0]} go"}, default_to_multipart=True)
            headers = {"x-form-token": page.form_token, "origin": address}
            url = f"/c/{page.conversation}/messages"
            async with session.post(url, data=form, headers=headers) as answer:
                answer.raise_for_status()

        followers = [asyncio.create_task(follow()) for _ in range(sessions)]
        await ready.wait()
        began = process_cpu(pid)
        await asyncio.gather(*(ask(page, number) for number, page in enumerate(pages)))
        asked = process_cpu(pid) - began
        # While all of them stream: from the start of the last one to the end of the first one.
        await asyncio.sleep(SETTLING)
        began = process_cpu(pid)
        shown = sum(len(page.delays) for page in pages)
        await asyncio.sleep(DELTAS / A_SECOND - 2 * SETTLING - sessions * SPACING)
        used = process_cpu(pid) - began
        shown = sum(len(page.delays) for page in pages) - shown
        await asyncio.gather(*followers)
    delays = [delay for page in pages for delay in page.delays]
    firsts = [page.first - page.posted for page in pages if page.first]
    return {
        "first words p50": quantile(firsts, 0.5),
        "first words p95": quantile(firsts, 0.95),
        "sessions complete": float(sum(page.is_complete for page in pages)),
        "token to screen p50": quantile(delays, 0.5),
        "token to screen p95": quantile(delays, 0.95),
        "CPU a delta": used / shown * 1e6,
        "CPU a question": asked / sessions * 1e6,
    }


def measure(folder: Path, sessions: int = SESSIONS) -> dict[str, float]:
    """Return the figures of one run."""
    open_files()
    with provider(folder) as address:
        figures = asyncio.run(bare(address, sessions))
        with server(address) as (url, tokens, pid):
            figures |= asyncio.run(crowd(url, tokens[0], pid, sessions))
    figures["CPU, ratio to bare"] = figures["CPU a delta"] / figures["bare, CPU a delta"]
    return figures


def run(sessions: int = SESSIONS) -> Result:
    """Measure once."""
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), sessions)
    failures: list[str] = []
    if figures["sessions complete"] < sessions:
        failures.append(f"only {figures['sessions complete']:.0f} sessions were complete")
    if figures["first words p95"] > FIRST_WORDS:
        failures.append(f"first words, p95 {figures['first words p95']:.2f} s")
    if figures["CPU a delta"] > CPU_A_DELTA:
        failures.append(f"CPU a delta {figures['CPU a delta']:.0f} µs")
    units = {name: "s" for name in figures if "first" in name}
    units |= {name: "µs" for name in figures if "CPU a" in name}
    units |= {name: "ms" for name in figures if "token" in name}
    return Result(
        f"Sessions: {sessions} at {A_SECOND} deltas/s through the server",
        {name: f"{value:8.2f} {units.get(name, '')}" for name, value in figures.items()},
        figures,
        failures,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    outcome = run(parser.parse_args().sessions)
    print(outcome, *outcome.failures, sep="\n")
