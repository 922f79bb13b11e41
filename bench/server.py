"""The servers of the benchmark; the process runs until its input ends.

    python -m bench.server

Rules:
1. ``fast`` is the simulator's fast path: prebuilt bytes by ``/<kind>/<provider>/…``, without validation or encoding.
2. ``paced`` sends the bytes of the ``burst`` kind with one write for each event, as a model does.
3. ``agent`` is a strict simulator whose model calls four tools in every round, for a fixed number of rounds.
4. ``silent`` is a strict simulator that sends a few words and then holds the reply open.

It prints the addresses of all four as one JSON object.
"""

import asyncio
import json
import sys

from bench.replies import PROVIDERS, frames, prebuilt
from multi_llm_chat.testing.simulator import (
    Call,
    Hang,
    RecordedRequest,
    Reply,
    Say,
    Simulator,
    always,
)

#: How many rounds of calls the model makes, by the tool on offer.
ROUNDS = {"nothing": 20, "wait": 2}
CALLS_A_ROUND = 4
FEW_WORDS = "Once upon a time there was a server that fell silent."
SILENT = Say(FEW_WORDS, faults=[Hang(after_frames=6)])
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def call_tools(request: RecordedRequest) -> Reply:
    """Call the tool on offer, four times a turn, and answer when all rounds are done."""
    conversation = request.conversation
    tool = next(tool.name for tool in conversation.tools if tool.name in ROUNDS)
    rounds = len(conversation.results) // CALLS_A_ROUND
    if rounds >= ROUNDS[tool]:
        return Say(f"Done after {len(conversation.results)} results.")
    numbers = range(rounds * CALLS_A_ROUND, (rounds + 1) * CALLS_A_ROUND)
    return Say(calls=[Call(tool, {"number": number}) for number in numbers])


async def _paced() -> asyncio.Server:
    replies = {
        provider: [f"{len(frame):x}\r\n".encode() + frame + b"\r\n" for frame in frames(provider, "burst")]
        for provider in PROVIDERS
    }  # fmt: skip

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
                provider = head.split(b" ", 2)[1].decode().split("/")[2]
                writer.write(_HEAD)
                for chunk in replies[provider]:
                    writer.write(chunk)
                    # Let the client read: one segment for each event.
                    await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return await asyncio.start_server(talk, "127.0.0.1", 0, limit=1 << 24)


async def serve() -> None:
    """Serve until the input ends."""
    server = await _paced()
    with (
        Simulator(prebuilt=prebuilt()) as fast,
        Simulator(call_tools) as agent,
        Simulator(always(SILENT)) as silent,
    ):
        paced = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        urls = {"fast": fast.url, "paced": paced, "agent": agent.url, "silent": silent.url}
        print(json.dumps(urls), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
