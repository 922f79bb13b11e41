"""Connections of an event loop: how they rest, wait, are kept, and are left open by a program."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest
from tests.http.test_transports import post
from tests.servers import (
    PATIENCE,
    AwaitEnd,
    Hold,
    Send,
    chunk,
    head,
    serving,
    streamed,
    whole,
)

from multi_llm_chat.errors import ConnectionFailed
from multi_llm_chat.http import Timeouts, TransportSettings
from multi_llm_chat.http.async_transport import AsyncTransport
from multi_llm_chat.testing.simulator import Say, Simulator


def test_what_arrives_while_a_reader_rests_is_read_at_once() -> None:
    async def run() -> None:
        resting, sent = asyncio.Event(), asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head(Transfer_Encoding="chunked") + chunk(b"a"))
            await resting.wait()
            for piece in (chunk(b"b"), chunk(b"c"), b"0\r\n\r\n"):
                writer.write(piece)
            sent.set()
            writer.close()
            await writer.wait_closed()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            transport = AsyncTransport(TransportSettings())
            async with transport.send(post(f"http://127.0.0.1:{port}")) as reply:
                body = aiter(reply.body)
                assert await anext(body) == b"a"
                rest = asyncio.create_task(reply.rest(PATIENCE))
                await asyncio.sleep(0)  # it has begun
                resting.set()
                await sent.wait()
                rest.cancel()
                assert [piece async for piece in body] == [b"bc"]
                await reply.rest(PATIENCE)  # the body is complete: there is nothing to wait for
            await transport.aclose()

    with asyncio.Runner() as runner:
        runner.run(asyncio.wait_for(run(), PATIENCE / 2))


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def with_server(handler: Handler, ask: Callable[[AsyncTransport, str], Awaitable[None]]) -> None:
    """Ask a server of the same event loop, until both have finished."""

    async def run() -> None:
        left = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await handler(reader, writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            left.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            transport = AsyncTransport(TransportSettings())
            await ask(transport, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await transport.aclose()
            await left.wait()

    with asyncio.Runner() as runner:
        runner.run(asyncio.wait_for(run(), PATIENCE))


def test_an_answer_before_the_end_of_a_large_request_is_heard() -> None:
    gone = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")  # and nothing more
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await gone.wait()

    async def ask(transport: AsyncTransport, url: str) -> None:
        async with transport.send(post(url, b"x" * 30_000_000)) as reply:
            assert reply.status == 413
            assert [piece async for piece in reply.body] == [b"no"]
        gone.set()

    with_server(refuse, ask)


def test_what_nobody_reads_stays_at_the_server() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(Transfer_Encoding="chunked"))
        while not writer.is_closing():
            writer.write(chunk(b"x" * 65_536))
            await writer.drain()
            sent += 65_536

    async def ask(transport: AsyncTransport, url: str) -> None:
        async with transport.send(post(url)) as reply:
            await anext(aiter(reply.body))
            for _ in range(3_000):  # the server could send 200 MB
                await asyncio.sleep(0)
            assert sent < 50_000_000

    with_server(flood, ask)


def test_a_kept_connection_is_closed_when_it_grows_old() -> None:
    async def run(url: str) -> None:
        transport = AsyncTransport(TransportSettings(idle_seconds=0.05))
        async with transport.send(post(url)) as reply:
            assert [piece async for piece in reply.body] == [b"{}"]
        assert await asyncio.to_thread(server.client_gone.wait, PATIENCE)
        await transport.aclose()

    with serving([*whole({}), AwaitEnd()]) as server:
        asyncio.run(run(server.url))


def test_a_connection_on_which_the_server_speaks_unasked_is_not_used_again() -> None:
    async def run(url: str) -> None:
        transport = AsyncTransport(TransportSettings())
        async with transport.send(post(url)) as reply:
            assert [piece async for piece in reply.body] == [b"{}"]
        server.release.set()
        assert await asyncio.to_thread(server.client_gone.wait, PATIENCE)
        async with transport.send(post(url)) as reply:
            assert [piece async for piece in reply.body] == [b'{"n": 2}']
        await transport.aclose()
        assert server.connections == 2

    late = [*whole({}), Hold(), Send(b"HTTP/1.1 408 Late\r\n\r\n"), AwaitEnd()]
    with serving(late, whole({"n": 2})) as server:
        asyncio.run(run(server.url))


@pytest.mark.parametrize("how", ["time", "close"])
def test_a_place_among_the_connections_is_waited_for_until_the_end_of_the_request(how: str) -> None:
    async def run(url: str) -> None:
        settings = TransportSettings(timeouts=Timeouts(first_event=0.05), connections_per_host=1)
        transport = AsyncTransport(settings)

        async def second() -> None:
            async with transport.send(post(url), streamed=how == "time"):
                pass

        async with transport.send(post(url)):
            waiting = asyncio.create_task(second())
            if how == "close":
                await asyncio.sleep(0)  # it waits
                await transport.aclose()
            with pytest.raises(ConnectionFailed, match="in time" if how == "time" else "stopped"):
                await waiting
        await transport.aclose()

    with serving(streamed([b"a"], ending=[AwaitEnd()])) as server:
        asyncio.run(run(server.url))


REPLY = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}
PROGRAM = """
import asyncio, gc, sys
from multi_llm_chat import Agent, create_provider

agent = Agent("claude", api_key="k", base_url=sys.argv[1])
print(agent.run_sync("Hi").text)
agent.itself, agent = agent, None  # collected in a cycle, with its session
gc.collect()
provider = create_provider("claude", api_key="k", base_url=sys.argv[1])
print(asyncio.run(provider.acomplete("Hi")).text)
"""
UNCLOSED_LOOP = """
loop = asyncio.new_event_loop()
print(loop.run_until_complete(provider.acomplete("Hi")).text)
"""


@pytest.mark.parametrize(
    ("warnings", "program", "answers"),
    [
        ("always", PROGRAM, 2),
        ("ignore::ResourceWarning", PROGRAM + UNCLOSED_LOOP, 3),  # as Python does unasked
    ],
)
def test_a_program_that_closes_nothing_ends_quietly(warnings: str, program: str, answers: int):
    with Simulator([Say("Hello.")] * answers) as simulator:
        done = subprocess.run(
            [sys.executable, "-W", warnings, "-c", program, simulator.base_url("anthropic")],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.stdout, done.returncode) == ("Hello.\n" * answers, 0)
    assert done.stderr == ""


MANY_FILES = """
import os, resource, sys
from multi_llm_chat import create_provider

_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(2_000, most), most))
files = [os.dup(0) for _ in range(1_100)]
provider = create_provider("openai-chat", api_key="k", base_url=sys.argv[1])
print(provider.complete("Hi").text, provider.complete("Hi").text)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no limit on descriptors")
def test_connections_are_used_again_in_a_process_with_many_open_files():
    with serving(whole(REPLY)) as server:
        done = subprocess.run(
            [sys.executable, "-c", MANY_FILES, server.url],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.stdout, done.stderr) == ("Hello. Hello.\n", "")
        assert server.connections == 1


FORKING = """
import os, sys, warnings
from multi_llm_chat import Agent, create_provider

warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # it is what is tested
provider = create_provider("openai-chat", api_key="k", base_url=sys.argv[1])
agent = Agent(provider)
ask = {"sync": lambda: provider.complete("Hi").text, "async": lambda: agent.run_sync("Hi").text}[sys.argv[2]]
said = [ask()]  # leaves a connection for the next request
child = os.fork()
if child:
    os.waitpid(child, 0)
said.append(ask())
print(*said, flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("how", ["sync", "async"])
def test_a_forked_process_opens_connections_of_its_own(how: str):
    with serving(whole(REPLY)) as server:
        done = subprocess.run(
            [sys.executable, "-c", FORKING, server.url, how],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.stdout, done.stderr, done.returncode) == ("Hello. Hello.\n" * 2, "", 0)
        assert server.connections == 2
