"""The time to first token while the server is under attack, as a ratio to the same user's time without an attack.

The attacker is a separate process: another user with large files, or unauthenticated clients with connections and bodies. The
user's undisturbed time is measured right before each attack, so that both figures come from the same minute on the same machine.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp

from bench.measuring import Result
from bench.sessions import Page, browser_session, provider, quantile
from bench.web import SPEAKERS, open_files, server
from multi_llm_chat.testing.hostile_files import HOSTILE_FILES

#: How many questions the user sends, without an attack and during one.
ASKED = 30
#: The allowed ratio of most waits during an attack to those without one.
MOST_RATIO = 2.0

_IMPORT = 6_000_000
_IDLE = 1_500
_BODY = 2**30
_HOSTILE_SERVER = "multi_llm_chat.testing.hostile_mcp_server"


# The attacks run in a separate process, until they are killed.


async def _import_again(session: aiohttp.ClientSession, address: str, data: bytes) -> None:
    async with session.get("/") as answer:
        page = Page(await answer.text())
    headers = {"x-form-token": page.form_token, "origin": address}
    while True:
        with suppress(aiohttp.ClientError):
            async with session.post("/import", data=data, headers=headers) as answer:
                assert answer.status in {200, 400}, answer.status


async def large_import(session: aiohttp.ClientSession, address: str) -> None:
    """Another user imports 6 MB, again and again."""
    turns = [
        {"role": "user", "content": f"question {number} " + "x" * 200} for number in range(26_000)
    ]
    await _import_again(session, address, json.dumps(turns).encode()[:-1] + b"]")


async def zip_bombs(session: aiohttp.ClientSession, address: str) -> None:
    """Another user imports zips of a gigabyte, again and again."""
    await _import_again(session, address, HOSTILE_FILES["a zip bomb"]())


async def idle_connections(_session: aiohttp.ClientSession, address: str) -> None:
    """Unauthenticated clients keep as many connections open as they can, and send nothing."""
    host, port = address.removeprefix("http://").split(":")
    held: list[socket.socket] = []
    while True:
        held = [each for each in held if not _is_closed(each)]
        while len(held) < _IDLE:
            with suppress(OSError):
                held.append(socket.create_connection((host, int(port)), 5))
        await asyncio.sleep(1)


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


async def large_bodies(session: aiohttp.ClientSession, address: str) -> None:
    """An unauthenticated client and a user send bodies of a gigabyte, again and again."""

    async def body() -> object:
        for _ in range(_BODY // 65536):
            yield bytes(65536)

    async with session.get("/") as answer:
        page = Page(await answer.text())
    headers = {"x-form-token": page.form_token, "origin": address}

    async def send(path: str, sender: aiohttp.ClientSession) -> None:
        while True:
            with suppress(aiohttp.ClientError, ConnectionError):
                async with sender.post(path, data=body(), headers=headers) as answer:
                    await answer.read()

    async with aiohttp.ClientSession(address) as stranger:
        messages = f"/c/{page.conversation}/messages"
        await asyncio.gather(send("/login", stranger), send(messages, session))


async def mcp_flood(session: aiohttp.ClientSession, address: str) -> None:
    """A tool server writes an endless stream of lines, and is restarted whenever it is stopped."""
    async with session.get("/") as answer:
        page = Page(await answer.text())
    headers = {"x-form-token": page.form_token, "origin": address}
    entry = {"command": sys.executable, "args": ["-m", _HOSTILE_SERVER, "flood"]}
    text = json.dumps({"mcpServers": {"flood": entry}})
    async with session.post("/tools/add", json={"text": text}, headers=headers) as answer:
        answer.raise_for_status()
    while True:
        await asyncio.sleep(1)
        with suppress(aiohttp.ClientError):
            async with session.post(
                "/tools/restart", json={"server": "flood"}, headers=headers
            ) as answer:
                await answer.read()


ATTACKS = {
    each.__name__: each
    for each in (large_import, zip_bombs, idle_connections, large_bodies, mcp_flood)
}


def attack_here(name: str, address: str, token: str) -> None:
    """Attack until the process is killed; at low priority, since a real attacker uses another machine."""
    open_files()
    os.nice(10)

    async def run() -> None:
        async with browser_session(address) as session:
            await session.get(f"/?token={token}")
            await ATTACKS[name](session, address)

    asyncio.run(run())


@contextmanager
def attack(name: str, address: str, token: str) -> Generator[None]:
    """Attack the server while the block runs."""
    program = f"from bench.faults import attack_here; attack_here({name!r}, {address!r}, {token!r})"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[1])
    try:
        time.sleep(2)  # until the attack is under way
        assert process.poll() is None, f"the attack {name} has ended"
        yield
        assert process.poll() is None, f"the attack {name} has ended"
    finally:
        process.kill()
        process.wait()


# The user.


async def waits(address: str, session: aiohttp.ClientSession, count: int = ASKED) -> list[float]:
    """Ask one question after the other, each in its own conversation; return each one's time to first token."""
    found: list[float] = []
    for _ in range(count):
        async with session.get("/") as answer:
            page = Page(await answer.text())
        async with session.get(f"/c/{page.conversation}/events?after={page.position}") as stream:
            await stream.content.readline()
            began = time.monotonic()
            form = aiohttp.FormData({"text": f"@{SPEAKERS[0]} go"}, default_to_multipart=True)
            headers = {"x-form-token": page.form_token, "origin": address}
            url = f"/c/{page.conversation}/messages"
            async with session.post(url, data=form, headers=headers) as answer:
                answer.raise_for_status()
            async for line in stream.content:
                page.read(line)
                if page.first:
                    break
            found.append(page.first - began)
        async with session.post(f"/c/{page.conversation}/stop", json={}, headers=headers) as answer:
            await answer.read()
    return found


async def _measure(
    address: str, tokens: list[str], names: list[str]
) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    async with browser_session(address) as session:
        await session.get(f"/?token={tokens.pop()}")
        await waits(address, session, 5)  # warm up: load everything
        for name in names:
            alone = await waits(address, session)
            with attack(name, address, tokens.pop()):
                attacked = await waits(address, session)
            figures[name] = {
                "alone": quantile(alone, 0.95),
                "attacked": quantile(attacked, 0.95),
                "ratio": quantile(attacked, 0.95) / quantile(alone, 0.95),
            }
    return figures


def run(names: list[str] | None = None) -> Result:
    """Measure each attack once."""
    open_files()
    with (
        tempfile.TemporaryDirectory() as folder,
        provider(Path(folder)) as models,
        server(models) as (url, tokens, _),
    ):
        figures = asyncio.run(_measure(url, tokens, names or list(ATTACKS)))
    failures = [
        f"during {name} a user waits {each['ratio']:.1f} times as long"
        for name, each in figures.items()
        if each["ratio"] > MOST_RATIO
    ]
    rows = {
        name: f"{each['alone'] * 1000:6.0f} ms alone, {each['attacked'] * 1000:6.0f} ms during it, ratio {each['ratio']:.2f}"
        for name, each in figures.items()
    }
    return Result("Faults: first words of a user during attacks, p95", rows, figures, failures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    outcome = run(parser.parse_args().names)
    print(outcome, *outcome.failures, sep="\n")
