"""The server of the streaming benchmark, in a process of its own: prebuilt bytes, nothing judged.

    python -m bench.server

It serves ``/<pace>/<provider>/…`` until its input ends, and prints its port first.
"""

import asyncio
import sys

from bench.replies import STREAMS, call_events, chat_events, frames


async def serve() -> None:
    """Serve until the input ends."""
    replies: dict[tuple[str, str], list[bytes]] = {}
    for provider in STREAMS:
        chunks = [f"{len(frame):x}\r\n".encode() + frame + b"\r\n" for frame in frames(provider)]
        replies["paced", provider] = chunks
        replies["burst", provider] = [b"".join(chunks)]
    for pace, events in (("call", list(call_events())), ("short", list(chat_events())[-20:])):
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


if __name__ == "__main__":
    asyncio.run(serve())
