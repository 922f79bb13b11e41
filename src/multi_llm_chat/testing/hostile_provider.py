"""A provider that attacks its clients: behaviours as data, served over real HTTP in four dialects.

    with HostileProvider() as server:
        LLMProvider("openai-chat", base_url=server.url("endless text"), api_key="k").complete("Hello")

Rules:
1. A behaviour is a function from the ``Frames`` of a dialect to pieces of bytes; a number among them is a pause in seconds. Pieces may
   have no end: they are sent until the client closes the connection.
2. The first segment of the path names the behaviour, the rest of it the dialect.
3. A client passes when each call ends with the right answer (``Hello``) or an error of its own within its limits of bytes and time,
   with bounded memory, and without the key in the error.
4. ``CORRECT`` names the behaviours whose reply is odd but complete: the answer is ``Hello``.
"""

import contextlib
import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, repeat
from typing import Any, Final, Self, TypeAlias
from urllib.parse import quote, unquote

_MEGABYTE: Final = 2**20
Piece: TypeAlias = bytes | float
Behaviour: TypeAlias = "Callable[[Frames], Iterable[Piece]]"


class Frames:
    """The events of one dialect."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    def event(self, value: Any, name: str = "") -> bytes:
        """One server-sent event."""
        text = value if isinstance(value, str) else json.dumps(value)
        named = f"event: {name}\n" if name and self.dialect in {"anthropic", "openai"} else ""
        return f"{named}data: {text}\n\n".encode(errors="surrogatepass")

    def text(self, text: Any) -> bytes:
        """A piece of the answer."""
        match self.dialect:
            case "openai":
                return self._typed("response.output_text.delta", output_index=0, content_index=0, delta=text)  # fmt: skip
            case "anthropic":
                delta = {"type": "text_delta", "text": text}
                return self._typed("content_block_delta", index=0, delta=delta)
            case "gemini":
                return self.event(_candidate({"text": text}))
            case _:
                return self.event({"choices": [{"index": 0, "delta": {"content": text}}]})

    def call(self, number: int, name: Any, arguments: str = "") -> bytes:
        """The beginning of a call, with all of its arguments or their beginning."""
        identifier = f"call_{number}"
        match self.dialect:
            case "openai":
                item = {"type": "function_call", "id": f"fc_{number}", "call_id": identifier, "name": name, "arguments": arguments}  # fmt: skip
                return self._typed("response.output_item.added", output_index=number, item=item)
            case "anthropic":
                block: dict[str, Any] = {
                    "type": "tool_use",
                    "id": identifier,
                    "name": name,
                    "input": {},
                }
                start = self._typed("content_block_start", index=number, content_block=block)
                return start + (self.arguments(number, arguments) if arguments else b"")
            case "gemini":
                head = json.dumps(_candidate({"functionCall": {"name": name, "args": "@"}}))
                return self.event(head.replace('"@"', arguments or "{}"))
            case _:
                function = {"name": name, "arguments": arguments}
                call = {"index": number, "id": identifier, "function": function}
                return self.event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})

    def arguments(self, number: int, fragment: str) -> bytes:
        """More of the arguments of a call."""
        match self.dialect:
            case "openai":
                return self._typed("response.function_call_arguments.delta", output_index=number, delta=fragment)  # fmt: skip
            case "anthropic":
                delta = {"type": "input_json_delta", "partial_json": fragment}
                return self._typed("content_block_delta", index=number, delta=delta)
            case "gemini":
                return self.call(number, "f", json.dumps({"a": fragment}))
            case _:
                call = {"index": number, "function": {"arguments": fragment}}
                return self.event({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})

    def end(self) -> bytes:
        """The end of a complete reply."""
        match self.dialect:
            case "openai":
                return self._typed("response.completed", response={"status": "completed", "output": []})  # fmt: skip
            case "anthropic":
                stop = self._typed("message_delta", delta={"stop_reason": "end_turn"})
                return stop + self._typed("message_stop")
            case "gemini":
                return self.event({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})  # fmt: skip
            case _:
                stop = self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
                return stop + b"data: [DONE]\n\n"

    def usage(self, number: str) -> bytes:
        """Numbers of tokens, written as JSON."""
        names = {
            "openai": '{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":@,"output_tokens":@}}}',
            "anthropic": '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":@,"output_tokens":@}}',
            "gemini": '{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":@,"candidatesTokenCount":@}}',
        }
        chat = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":@,"completion_tokens":@}}'
        return self.event(names.get(self.dialect, chat).replace("@", number))

    def failure(self, message: str) -> bytes:
        """An error inside the stream."""
        error = {"type": "overloaded_error", "code": 503, "status": "UNAVAILABLE", "message": message}  # fmt: skip
        return self.event({"type": "error", "error": error}, "error")

    def _typed(self, kind: str, **fields: Any) -> bytes:
        return self.event({"type": kind, **fields}, kind)


def _candidate(part: Any) -> Any:
    return {"candidates": [{"content": {"role": "model", "parts": [part]}}]}


def _head(status: str = "200 OK", *lines: str, kind: str = "text/event-stream") -> bytes:
    headers = "".join(f"{line}\r\n" for line in (f"Content-Type: {kind}", *lines))
    return f"HTTP/1.1 {status}\r\n{headers}Connection: close\r\n\r\n".encode()


def _stream(*pieces: Piece | Iterable[Piece]) -> Iterator[Piece]:
    """A stream of events with status 200."""
    yield _head()
    for piece in pieces:
        if isinstance(piece, bytes | float | int):
            yield piece
        else:
            yield from piece


def _body(status: str, *pieces: bytes | Iterable[bytes], kind: str = "application/json") -> Iterator[Piece]:  # fmt: skip
    yield _head(status, kind=kind)
    for piece in pieces:
        yield from (piece,) if isinstance(piece, bytes) else piece


def _compressed(pieces: Iterable[bytes], window: int) -> Iterator[bytes]:
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _packed(name: str, status: str, pieces: Iterable[bytes], window: int = 31) -> Iterator[Piece]:
    yield _head(status, f"Content-Encoding: {name}")
    yield from _compressed(pieces, window)


_LINE: Final = b"x" * 65536
_ZEROS: Final = bytes(_MEGABYTE)
_LISTS: Final = "[" + "[]," * 200_000 + "[]]"
_HELLO: Final = "Hello"

#: Every behaviour, by what it does.
BEHAVIOURS: Final[dict[str, Behaviour]] = {
    # The connection and the head.
    "nothing": lambda _: (),
    "garbage": lambda _: (b"\x00\xff garbage \r\n\r\n" * 100,),
    "an old protocol": lambda f: (b"HTTP/0.9 200\r\n", f.text(_HELLO)),
    "half a status line": lambda _: (b"HTTP/1.1 20",),
    "a status without end": lambda _: chain((b"HTTP/1.1 200 ",), repeat(_LINE)),
    "a status that is no number": lambda _: (b"HTTP/1.1 abc OK\r\n\r\n",),
    "silence before the head": lambda _: repeat(0.05),
    "a slow head": lambda _: chain((b"HTTP/1.1 200 OK\r\n",), _slowly(b"X-A: 1\r\n")),
    "headers without end": lambda _: chain((b"HTTP/1.1 200 OK\r\n",), repeat(b"X-A: 1\r\n")),
    "a header without end": lambda _: chain((b"HTTP/1.1 200 OK\r\nX-A: ",), repeat(_LINE)),
    "continue without end": lambda _: repeat(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "switching protocols": lambda _: (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", _ZEROS),
    "no content": lambda _: (b"HTTP/1.1 204 No Content\r\n\r\n",),
    "an unknown status": lambda _: _body("999 What", b"{}"),
    "a redirect to itself": lambda _: (_head("302 Found", "Location: ."),),
    "a redirect elsewhere": lambda _: (_head("307 Temporary", "Location: http://169.254.169.254/"),),
    "a length that is too large": lambda f: (_head("200 OK", "Content-Length: 999999999"), f.text(_HELLO)),
    "a negative length": lambda f: (_head("200 OK", "Content-Length: -5"), f.text(_HELLO)),
    "two lengths": lambda f: (_head("200 OK", "Content-Length: 5", "Content-Length: 50"), f.text(_HELLO)),
    "a chunk of no size": lambda f: (_head("200 OK", "Transfer-Encoding: chunked"), b"zz\r\n", f.text(_HELLO)),
    "a chunk of any size": lambda _: chain((_head("200 OK", "Transfer-Encoding: chunked"), b"ffffffffff\r\n"), repeat(_LINE)),
    "chunk extensions without end": lambda _: chain((_head("200 OK", "Transfer-Encoding: chunked"), b"5;"), repeat(_LINE)),
    "trailers without end": lambda f: chain((_head("200 OK", "Transfer-Encoding: chunked"), _chunk(f.text(_HELLO)), b"0\r\n"), repeat(b"X-A: 1\r\n")),
    # Compression.
    "a bomb": lambda _: _packed("gzip", "200 OK", repeat(_ZEROS)),
    "a bomb of events": lambda f: _packed("gzip", "200 OK", repeat(f.text("x" * 10_000))),
    "a bomb of zlib": lambda _: _packed("deflate", "200 OK", repeat(_ZEROS), 15),
    "a bomb in an error": lambda _: _packed("gzip", "500 Oops", repeat(_ZEROS)),
    "damaged compression": lambda _: (_head("200 OK", "Content-Encoding: gzip"), b"\x1f\x8b\x08garbage" * 100),
    "garbage behind compression": lambda f: chain(_packed("gzip", "200 OK", [f.text(_HELLO), f.end()]), repeat(_LINE)),
    "an unknown compression": lambda _: chain((_head("200 OK", "Content-Encoding: br"),), repeat(_LINE)),
    "compression twice": lambda _: _packed("gzip, gzip", "200 OK", repeat(_ZEROS)),
    # Errors.
    "an error without end": lambda _: _body("500 Oops", repeat(_LINE)),
    "a refusal without end": lambda _: _body("400 Bad", b'{"error":{"message":"', repeat(_LINE)),
    "a deep error": lambda _: _body("400 Bad", b"[" * 500_000),
    "an error of lists": lambda _: _body("429 Slow", _LISTS.encode()),
    "an error page": lambda _: _body("502 Bad Gateway", b"<html><script>alert(1)</script>" * 1000, kind="text/html"),
    "an error that repeats the key": lambda _: _body("401 No", b'{"error":{"message":"Bad key sk-very-secret-key"}}'),
    "an error of the wrong types": lambda _: _body("400 Bad", b'{"error":[1,{"message":{"a":1}}]}'),
    "wait for ever": lambda _: (_head("429 Slow", "Retry-After: 99999999999999999999"),),
    "wait backwards": lambda _: (_head("429 Slow", "Retry-After: -99"),),
    "wait for a word": lambda _: (_head("503 Busy", "Retry-After: soon"),),
    # Lines and events.
    "silence after the head": lambda _: _stream(repeat(0.05)),
    "pings without end": lambda _: _stream(repeat(b": ping\n\n")),
    "slow pings": lambda _: _stream(_slowly(b": ping\n\n")),
    "blank lines without end": lambda _: _stream(repeat(b"\n" * 1000)),
    "carriage returns without end": lambda _: _stream(repeat(b"\r" * 1000)),
    "a line without end": lambda _: _stream(b"data: ", repeat(_LINE)),
    "a comment without end": lambda _: _stream(b": ", repeat(_LINE)),
    "data lines without end": lambda _: _stream(repeat(b"data: ab\n" * 1000)),
    "event names without end": lambda _: _stream(repeat(b"event: a\n" * 1000)),
    "ids without end": lambda _: _stream(repeat(b"id: 1\nretry: 1\n\n" * 1000)),
    "null bytes": lambda _: _stream(repeat(_ZEROS)),
    "an event that is no JSON": lambda f: _stream(f.text("He"), b"data: {nonsense\n\n", f.text("llo"), f.end()),
    "half an event": lambda f: _stream(f.text(_HELLO), f.text("x")[:-10]),
    "an event of 40 MB": lambda f: _stream(f.text("x" * (40 * _MEGABYTE)), f.end()),
    "a web page": lambda _: _body("200 OK", b"<html>" + _LINE, kind="text/html"),
    "a whole reply without end": lambda _: _body("200 OK", b'{"choices":[', repeat(b" " * 65536)),
    # JSON.
    "a million lists": lambda f: _stream(f.event(f'{{"choices":{_LISTS},"candidates":{_LISTS},"item":{_LISTS}}}')),
    "deep JSON": lambda f: _stream(f.event('{"choices":' + "[" * 200_000 + "]" * 200_000 + "}")),
    "unknown events without end": lambda f: _stream(repeat(f.event({"type": "what.is.this", "choices": []}) * 100)),
    "lists in unknown events": lambda f: _stream(repeat(f.event({"type": "x", "a": [[]] * 300}) * 20)),
    "wrong types": lambda f: _stream(f.text(7), f.text(None), f.text([1]), f.text({"a": 1}), f.text(_HELLO), f.end()),
    "half a surrogate": lambda f: _stream(f.text("\ud800"), f.end()),
    "bytes that are no UTF-8": lambda f: _stream(f.text("@").replace(b"@", b"\xff\xfe"), f.end()),
    "infinite tokens": lambda f: _stream(f.text(_HELLO), f.usage("1e999")),
    "negative tokens": lambda f: _stream(f.text(_HELLO), f.usage("-5")),
    "tokens of many digits": lambda f: _stream(f.text(_HELLO), f.usage("9" * 5000)),
    # The reply.
    "endless text": lambda f: _stream(repeat(f.text("x" * 1000))),
    "endless letters": lambda f: _stream(repeat(f.text("x") * 50)),
    "slow letters": lambda f: _stream(_slowly(f.text("x"))),
    "calls without end": lambda f: _stream(f.call(number, "f", "{}") for number in count()),
    "arguments without end": lambda f: _stream(f.call(0, "f"), repeat(f.arguments(0, "x" * 1000))),
    "arguments of lists": lambda f: _stream(f.call(0, "f", '{"a":' + _LISTS + "}"), f.end()),
    "deep arguments": lambda f: _stream(f.call(0, "f", '{"a":' + "[" * 5000 + "]" * 5000 + "}"), f.end()),
    "many objects as arguments": lambda f: _stream(f.call(0, "f"), f.arguments(0, "{}" * 50_000), f.end()),
    "a name without end": lambda f: _stream(repeat(f.call(0, "f" * 10_000))),
    "text after the end": lambda f: _stream(f.text(_HELLO), f.end(), repeat(f.text("x" * 1000))),
    "garbage after the end": lambda f: _stream(f.text(_HELLO), f.end(), repeat(_LINE)),
    "an error after text": lambda f: _stream(f.text(_HELLO), f.failure("busy")),
    "an error of 8 MB": lambda f: _stream(f.failure("x" * (8 * _MEGABYTE))),
    "no end": lambda f: _stream(f.text(_HELLO)),
    "two ends": lambda f: _stream(f.text(_HELLO), f.end(), f.end()),
    "only an end": lambda f: _stream(f.end()),
    "done first": lambda f: _stream(b"data: [DONE]\n\n", f.text(_HELLO), f.end()),
    "byte by byte": lambda f: _stream(bytes([byte]) for byte in f.text(_HELLO) + f.end()),
}  # fmt: skip

#: Behaviours that end with the right answer, and nothing else will do.
CORRECT: Final = frozenset(
    {"garbage after the end", "two ends", "byte by byte", "garbage behind compression"}
)  # fmt: skip


def _slowly(piece: bytes) -> Iterator[Piece]:
    while True:
        yield 0.02
        yield piece


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


#: The dialect of a path, by how it ends.
_DIALECTS: Final = {"/responses": "openai", "/messages": "anthropic", "/chat/completions": "openai-chat"}  # fmt: skip


class HostileProvider:
    """Serves all behaviours on 127.0.0.1 while its ``with`` block runs; one thread for each connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self.requests = 0

    def url(self, behaviour: str) -> str:
        """The base URL under which every request meets this behaviour."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/{quote(behaviour)}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            path = self._read_request(connection)
            self.requests += 1
            name = unquote(path.split("/")[1])
            dialect = next(
                (each for end, each in _DIALECTS.items() if path.endswith(end)), "gemini"
            )
            for piece in BEHAVIOURS[name](Frames(dialect)):
                if isinstance(piece, bytes):
                    connection.sendall(piece)
                elif self._closing.wait(piece):
                    break
        self._open.discard(connection)

    def _read_request(self, connection: socket.socket) -> str:
        with connection.makefile("rb") as file:
            path = file.readline().split(b" ")[1].partition(b"?")[0].decode()
            length = 0
            while (line := file.readline()).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            file.read(length)
        return path
