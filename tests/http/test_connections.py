"""Connections that rest, and connections that a program leaves open."""

import asyncio
import subprocess
import sys

from tests.http.test_transports import post
from tests.servers import (
    PATIENCE,
    chunk,
    head,
)

from multi_llm_chat.http import TransportSettings
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


PROGRAM = """
import asyncio, gc, sys
from multi_llm_chat import Agent, create_provider

agent = Agent("claude", api_key="k", base_url=sys.argv[1])
print(agent.run_sync("Hi").text)
agent.itself, agent = agent, None  # collected in a cycle, with its session
gc.collect()
provider = create_provider("claude", api_key="k", base_url=sys.argv[1])
print(asyncio.run(provider.acomplete("Hi")).text)
loop = asyncio.new_event_loop()  # never closed
print(loop.run_until_complete(provider.acomplete("Hi")).text)
"""


def test_a_program_that_closes_nothing_ends_quietly():
    with Simulator([Say("Hello.")] * 3) as simulator:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, simulator.base_url("anthropic")],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (done.stdout, done.returncode) == ("Hello.\n" * 3, 0)
    assert "Unclosed" not in done.stderr
