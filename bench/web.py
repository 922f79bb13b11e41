"""The web app in a real browser: three models at 100 tokens a second into a conversation of 1,000 messages.

Every token carries its send time; the page records when it becomes visible. Needs Chromium.
"""

import asyncio
import contextlib
import gzip
import json
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web as http
from playwright.sync_api import Page, sync_playwright

from bench.measuring import Result
from multi_llm_chat.chat.workspace import Workspace
from multi_llm_chat.config.folders import Folders
from multi_llm_chat.config.keys import Keys
from multi_llm_chat.events import Usage
from multi_llm_chat.history.values import Text, Turn
from multi_llm_chat.store import (
    Spending,
    Transaction,
    append,
    begin_run,
    create,
    end_run,
    open_store,
    record_spending,
)
from multi_llm_chat.web.access import AccessPolicy
from multi_llm_chat.web.hub import Hub
from multi_llm_chat.web.server import ServerOptions, make_server

SPEAKERS = ("gemini", "chatgpt", "claude")
TOKENS_A_SECOND = 100
TOKENS = 800
MESSAGES = 1_000
CLIENTS = 500
#: The lengths of the opened conversations, in messages; a freshly started server opens each.
OPENED = (60, 2_000, 10_000)
SERVERS = 3

LIMITS = {
    **{f"opening {count:,} messages, CPU": 60.0 for count in OPENED},
    "opening the longest to the shortest": 1.5,
    "token to screen, p95": 150.0,
    "typing, p95": 60.0,
    "scripts and styles, compressed": 120.0,
    "server up, CPU": 1_000.0,
}
LEAST_FRAMES = 50.0

#: The text between the timestamped tokens: lists, code and tables, as in real answers.
PROSE = (
    "some ",
    "**bold** ",
    "words ",
    "and ",
    "`code` ",
    "more.\n\n",
    "1. item ",
    "of a ",
    "list\n",
    "2. next\n\n",
    "```python\n",
    "x = 1\n",
    "```\n\n",
)

WATCH = r"""() => {
  window.delays = []; window.typing = []; window.frames = 0; window.began = performance.now();
  const seen = new Set();
  const frame = () => { window.frames++; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  new MutationObserver(() => requestAnimationFrame(() => {
    for (const words of document.querySelectorAll(".answer.live .words")) {
      const found = [...words.textContent.slice(-400).matchAll(/§(\d+)§/g)].at(-1);
      if (found && !seen.has(words.id + found[1])) { seen.add(words.id + found[1]); window.delays.push(Date.now() - Number(found[1])); }
    }
  })).observe(document.getElementById("messages"), { subtree: true, childList: true, characterData: true });
  document.getElementById("text").addEventListener("keydown", () => {
    const began = performance.now();
    requestAnimationFrame(() => setTimeout(() => window.typing.push(performance.now() - began)));
  });
}"""


class Models:
    """Three models behind one address; each token contains its send time."""

    async def answer(self, request: http.Request) -> http.StreamResponse:
        await request.read()
        response = http.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        began = time.monotonic()
        for number in range(TOKENS):
            text = f"§{time.time() * 1000:.0f}§ " if number % 5 == 0 else PROSE[number % len(PROSE)]
            try:
                await response.write(self._chunk({"content": text}, None))
            except ConnectionError:  # the user stopped the answer
                return response
            await asyncio.sleep(max(0.0, began + (number + 1) / TOKENS_A_SECOND - time.monotonic()))
        await response.write(self._chunk({}, "stop") + b"data: [DONE]\n\n")
        return response

    def _chunk(self, delta: dict[str, str], finish: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"


@contextlib.contextmanager
def models() -> Generator[str]:
    """Run the models, and yield their address."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    ready, done = threading.Event(), threading.Event()

    async def run() -> None:
        app = http.Application()
        app.router.add_post("/v1/chat/completions", Models().answer)
        runner = http.AppRunner(app)
        await runner.setup()
        await http.SockSite(runner, listening).start()
        ready.set()
        await asyncio.to_thread(done.wait)
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    ready.wait()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    done.set()
    thread.join()


def serve_here(folder: str, address: str, port_file: str) -> None:
    """Run the server in this process; it prints its port and a link's token."""
    folders = Folders(*(Path(folder) / name for name in ("config", "data", "state")))
    folders.config.mkdir(parents=True)
    lines = [
        f'[speakers.{name}]\nprovider = "openai-chat"\nbase_url = "{address}"\nkey = "K"\n'
        for name in SPEAKERS
    ]
    folders.config_file.write_text("\n".join(lines), encoding="utf-8")
    keys = Keys(
        folders=folders, environment={"K": "key-without-value"}, working_folder=Path(folder)
    )
    hub = Hub(lambda approve: Workspace(folders, keys=keys, approve=approve))
    access = AccessPolicy(b"secret of the benchmark")
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    report = {"port": listening.getsockname()[1], "tokens": [access.new_link() for _ in range(8)]}
    temporary = Path(port_file + ".new")
    temporary.write_text(json.dumps(report), encoding="utf-8")
    temporary.rename(port_file)
    make_server(hub, access, ServerOptions()).run(sockets=[listening])


@contextlib.contextmanager
def server(address: str, store: Path | None = None) -> Generator[tuple[str, list[str], int]]:
    """Run a server on a copy of the store; yield its address, the tokens of its links, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        if store is not None:
            (Path(folder) / "data").mkdir()
            shutil.copy(store, Path(folder) / "data" / "conversations.db")
        port_file = f"{folder}/port.json"
        program = (
            f"from bench.web import serve_here; serve_here({folder!r}, {address!r}, {port_file!r})"
        )
        process = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[1])
        while not Path(port_file).exists():
            time.sleep(0.02)
        report = json.loads(Path(port_file).read_text(encoding="utf-8"))
        try:
            yield f"http://127.0.0.1:{report['port']}", report["tokens"], process.pid
        finally:
            process.terminate()
            process.wait()


def long_conversation() -> bytes:
    turns = [
        {"role": "user", "content": f"question {number}"}
        if number % 4 == 0
        else {
            "role": SPEAKERS[number % 4 - 1],
            "content": f"Answer {number} with **words**, `code`\n\n- and\n- a list\n\n```python\nx = {number}\n```",
        }
        for number in range(MESSAGES)
    ]
    return json.dumps(turns).encode()


def fill(place: Path) -> None:
    """Write a conversation of each length, with the runs and costs of its answers."""
    with open_store(place) as store:
        for count in OPENED:
            store.run(create, f"{count} messages", identifier=f"opened-{count}")
            store.run(_write_exchanges, f"opened-{count}", count)


def _write_exchanges(transaction: Transaction, conversation: str, count: int) -> None:
    used = Usage(1_000, 100)
    for number in range(0, count, 4):
        question = Turn("user", (Text(f"question {number}"),), id=f"q{number}")
        append(transaction, conversation, [question])
        for at, name in enumerate(SPEAKERS, 1):
            text = f"Answer {number + at} with **words**, `code`\n\n- and\n- a list\n\n```python\nx = {number}\n```"
            run = begin_run(
                transaction, conversation, name, base=question.id,
                identifier=f"{conversation}-{number}-{at}",
            )  # fmt: skip
            answer = Turn(name, (Text(text),), id=f"a{number}-{at}", model="m")
            append(transaction, conversation, [answer], run_id=run)
            spent = Spending(answer.id or "", name, "m", used, None, turn=answer.id, run_id=run)
            record_spending(transaction, conversation, spent)
            end_run(transaction, run, "done")


def openings(address: str) -> dict[str, float]:
    """Return a server's CPU milliseconds for the first page of a conversation, the minimum of several servers."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "filled.db"
        fill(place)
        taken: dict[int, list[float]] = {count: [] for count in OPENED}
        for _ in range(SERVERS):
            for count in OPENED:
                with server(address, place) as (url, tokens, pid):
                    taken[count].append(asyncio.run(_open(url, tokens[0], pid, count)))
    least = {count: min(each) for count, each in taken.items()}
    return {
        **{f"opening {count:,} messages, CPU": value for count, value in least.items()},
        "opening the longest to the shortest": least[OPENED[-1]] / least[OPENED[0]],
    }


async def _open(address: str, token: str, pid: int, count: int) -> float:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(address, cookie_jar=jar) as session:
        await (await session.get(f"/?token={token}")).text()
        # A freshly started server loads in the background what its first answer needs.
        before, last = 0.0, -1.0
        while before - last > 0.005:
            last = _precise_cpu(pid)
            await asyncio.sleep(0.5)
            before = _precise_cpu(pid)
        answer = await session.get(f"/c/opened-{count}")
        assert f"Answer {count - 1} " in await answer.text()
        return (_precise_cpu(pid) - before) * 1000


def _precise_cpu(pid: int) -> float:
    """Return CPU seconds more precisely than ``process_cpu``, which counts hundredths."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    nanos = (int((each / "schedstat").read_text().split()[0]) for each in threads)
    return sum(nanos) / 1e9


def in_browser(address: str, token: str) -> dict[str, float]:
    """Measure the latencies that a reader experiences."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(f"{address}/?token={token}")
        page.locator("body[data-ready]").wait_for()
        page.locator("#import-file").set_input_files(
            {"name": "long.json", "mimeType": "application/json", "buffer": long_conversation()}
        )
        page.locator(".entry a").first.click()
        page.locator("body[data-ready]").wait_for()
        page.locator(".exchange").first.wait_for(state="attached")
        page.evaluate(WATCH)
        page.locator("#text").fill("@all go")
        page.locator("#text").press("Enter")
        page.locator(".answer.live .words").nth(2).wait_for()
        figures = _while_streaming(page)
        began = time.monotonic()
        page.reload()
        page.locator(".answer.live .words").first.wait_for()
        figures["reload in mid-stream"] = (time.monotonic() - began) * 1000
        page.locator("body[data-ready]").wait_for()
        began = time.monotonic()
        page.keyboard.press("Escape")
        page.locator('body[data-busy="false"]').wait_for()
        figures["Esc to stopped"] = (time.monotonic() - began) * 1000
        browser.close()
    return figures


def _while_streaming(page: Page) -> dict[str, float]:
    page.evaluate(
        "() => { window.delays = []; window.frames = 0; window.began = performance.now(); }"
    )
    page.locator("#text").press_sequentially(
        "typing while three models answer, as people do", delay=90
    )
    report: Any = page.evaluate(
        "() => ({ delays, typing, frames, seconds: (performance.now() - began) / 1000 })"
    )
    delays, typing = sorted(report["delays"]), sorted(report["typing"])
    return {
        "token to screen, p50": statistics.median(delays),
        "token to screen, p95": delays[int(len(delays) * 0.95)],
        "typing, p50": statistics.median(typing),
        "typing, p95": typing[int(len(typing) * 0.95)],
        "frames a second": report["frames"] / report["seconds"],
    }


async def _crowd(address: str, token: str, pid: int) -> dict[str, float]:
    """Measure five hundred clients of one conversation with three answers."""
    connector = aiohttp.TCPConnector(limit=0)
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(address, connector=connector, cookie_jar=jar) as session:
        html = await (await session.get(f"/?token={token}")).text()
        found = {
            name: re.search(f'{name}="([^"]*)"', html)
            for name in ("data-conversation", "data-position")
        }
        conversation, position = (match[1] if match else "" for match in found.values())
        form_token = html.partition('name="form-token" content="')[2].partition('"')[0]
        before = _memory(pid)
        arrived = asyncio.Barrier(CLIENTS + 1)

        async def follow() -> bool:
            url = f"/c/{conversation}/events?after={position}"
            async with session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as stream:
                await stream.content.readline()
                await arrived.wait()
                async for line in stream.content:
                    if b'{"op":"busy","value":false}' in line:
                        return True
            return False

        clients = [asyncio.create_task(follow()) for _ in range(CLIENTS)]
        await arrived.wait()
        between = _memory(pid)
        headers = {"x-form-token": form_token, "origin": address}
        form = aiohttp.FormData({"text": "@all go"}, default_to_multipart=True)
        answer = await session.post(f"/c/{conversation}/messages", data=form, headers=headers)
        answer.raise_for_status()
        began = process_cpu(pid)
        complete = await asyncio.gather(*clients)
        return {
            "clients that saw all": float(sum(complete)),
            "memory a client, idle": (between - before) / CLIENTS / 1024,
            "memory a client, streaming": (_memory(pid) - before) / CLIENTS / 1024,
            "server's CPU": process_cpu(pid) - began,
        }


def _memory(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(text.partition("VmRSS:")[2].split()[0]) * 1024


def process_cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _up() -> float:
    """Return the CPU milliseconds until a fresh ``mlc serve`` answers."""
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {
            "MULTI_LLM_CHAT_HOME": home,
            "OPENAI_API_KEY": "key-without-value",
        }
        command = [sys.executable, "-m", "multi_llm_chat", "serve", "--no-open", "--port", "0"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            link = process.stdout.readline().split()[-1]
            asyncio.run(_healthy(link.partition("/?")[0]))
            used = process_cpu(process.pid) * 1000
            process.terminate()
        return used


async def _healthy(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{url}/health") as answer:
                    if answer.status == 200:
                        return


def open_files() -> None:
    """Raise the limit of open files for many clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(8192, hard), hard) if soft < 8192 else (soft, hard)
    )


def run() -> Result:
    """Measure everything, once each."""
    if shutil.which("chromium") is None and shutil.which("chromium-browser") is None:
        return Result("Web", {"not measured": "there is no Chromium on this machine"}, {})
    open_files()
    assets = Path(__file__).parents[1] / "src" / "multi_llm_chat" / "web" / "assets"
    figures: dict[str, float] = {"server up, CPU": min(_up() for _ in range(3))}
    sent = [path for path in assets.iterdir() if path.suffix in {".js", ".css"}]
    figures["scripts and styles, compressed"] = (
        sum(len(gzip.compress(path.read_bytes())) for path in sent) / 1000
    )
    with models() as address:
        figures |= openings(address)
        with server(address) as (url, tokens, _):
            figures |= in_browser(url, tokens[0])
        with server(address) as (url, tokens, pid):
            figures |= asyncio.run(_crowd(url, tokens[0], pid))
    units = {
        "scripts and styles, compressed": "KB",
        "opening the longest to the shortest": "×",
        "frames a second": "",
        "clients that saw all": f"of {CLIENTS}",
        "memory a client, idle": "KB",
        "memory a client, streaming": "KB",
        "server's CPU": "s",
    }
    failures = [
        f"{name} is {figures[name]:.3g}, {limit:g} is allowed"
        for name, limit in LIMITS.items()
        if figures[name] > limit
    ]
    if figures["frames a second"] < LEAST_FRAMES:
        failures.append(f"only {figures['frames a second']:.0f} frames a second")
    if figures["clients that saw all"] < CLIENTS:
        failures.append(f"{CLIENTS - figures['clients that saw all']:.0f} clients were dropped")
    return Result(
        f"Web: {len(SPEAKERS)} models at {TOKENS_A_SECOND} tokens/s, {MESSAGES:,} messages",
        {name: f"{value:7.1f} {units.get(name, 'ms')}" for name, value in figures.items()},
        figures,
        failures,
    )


if __name__ == "__main__":
    print(run())
