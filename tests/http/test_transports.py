"""Both transports, by the same tests, over real sockets."""

import asyncio
import contextlib
import gzip
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
import uvloop
from tests.servers import (
    PATIENCE,
    AwaitEnd,
    Hold,
    Reset,
    Script,
    ScriptedServer,
    Send,
    Tunnel,
    chunk,
    head,
    serving,
    streamed,
    whole,
)

from multi_llm_chat.errors import ConnectionFailed, UsageError
from multi_llm_chat.http import Timeouts, TransportSettings
from multi_llm_chat.http.async_transport import AsyncTransport
from multi_llm_chat.http.sync_transport import ConnectionPool, SyncTransport
from multi_llm_chat.protocol.exchange import HttpRequest


@dataclass(frozen=True)
class Answer:
    """A reply, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes


class Client(Protocol):
    """What the tests need of a transport."""

    @property
    def transport(self) -> object: ...

    def ask(self, request: HttpRequest) -> Answer: ...

    def ask_and_leave(self, request: HttpRequest) -> bytes:
        """Read one piece and leave the block."""
        ...

    def ask_for_one_piece_then_finish(self, request: HttpRequest) -> None: ...

    def close(self) -> None: ...


class SyncClient:
    def __init__(self, settings: TransportSettings) -> None:
        self.transport = SyncTransport(settings)

    def ask(self, request: HttpRequest) -> Answer:
        with self.transport.send(request) as reply:
            return Answer(reply.status, reply.headers, b"".join(reply.body))

    def ask_and_leave(self, request: HttpRequest) -> bytes:
        with self.transport.send(request) as reply:
            return next(iter(reply.body))

    def ask_for_one_piece_then_finish(self, request: HttpRequest) -> None:
        with self.transport.send(request) as reply:
            next(iter(reply.body))
            reply.finish()

    def close(self) -> None:
        self.transport.close()


class AsyncClient:
    def __init__(
        self,
        settings: TransportSettings,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        self.transport = AsyncTransport(settings)
        self.runner = asyncio.Runner(loop_factory=loop_factory)

    def ask(self, request: HttpRequest) -> Answer:
        return self.runner.run(self._ask(request))

    async def _ask(self, request: HttpRequest) -> Answer:
        async with self.transport.send(request) as reply:
            body = b"".join([piece async for piece in reply.body])
            return Answer(reply.status, reply.headers, body)

    def ask_and_leave(self, request: HttpRequest) -> bytes:
        async def leave() -> bytes:
            async with self.transport.send(request) as reply:
                return await anext(aiter(reply.body))

        return self.runner.run(leave())

    def ask_for_one_piece_then_finish(self, request: HttpRequest) -> None:
        async def finish() -> None:
            async with self.transport.send(request) as reply:
                await anext(aiter(reply.body))
                await reply.finish()

        self.runner.run(finish())

    def close(self) -> None:
        self.runner.run(self.transport.aclose())
        self.runner.close()


Open = Callable[[TransportSettings], Client]


def uvloop_client(settings: TransportSettings) -> AsyncClient:
    return AsyncClient(settings, uvloop.new_event_loop)


@pytest.fixture(params=[SyncClient, AsyncClient, uvloop_client], ids=["sync", "async", "uvloop"])
def open_client(request: pytest.FixtureRequest) -> Iterator[Open]:
    opened: list[Client] = []

    def open_one(settings: TransportSettings) -> Client:
        opened.append(request.param(settings))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def client(open_client: Open) -> Client:
    return open_client(TransportSettings())


def post(url: str, body: bytes = b"{}") -> HttpRequest:
    return HttpRequest("POST", url, {"Content-Type": "application/json", "X-Key": "s3cret"}, body)


def test_a_reply_has_its_status_headers_and_body(client: Client) -> None:
    with serving(whole({"ok": 1}, 418, Retry_After="7")) as server:
        answer = client.ask(post(f"{server.url}/v1/x:y?alt=sse&a=%2F"))
    assert answer.status == 418
    assert answer.headers["retry-after"] == "7"
    assert answer.body == b'{"ok": 1}'
    received = server.requests[0]
    assert (received.method, received.target) == ("POST", "/v1/x:y?alt=sse&a=%2F")
    assert received.headers["x-key"] == "s3cret"
    assert received.headers["accept-encoding"] == "identity"
    assert received.body == b"{}"


def test_a_chunked_reply_is_put_together(client: Client) -> None:
    with serving(streamed([b"a", b"bc", b"d" * 100_000])) as server:
        assert client.ask(post(server.url)).body == b"abc" + b"d" * 100_000


def test_a_reply_that_ends_with_its_connection_is_whole(client: Client) -> None:
    with serving([Send(head(Connection="close") + b"abc"), Reset()]) as server:
        assert client.ask(post(server.url)).body == b"abc"


@pytest.mark.parametrize("extra", [b"", b"Content-Length: 3\r\n"], ids=["end", "length"])
def test_the_time_that_is_left_does_not_matter_after_the_last_byte(
    open_client: Open, extra: bytes
) -> None:
    # From Python 3.13 on http.client closes the socket with the last byte, before the reader knows that it was the last.
    client = open_client(TransportSettings(timeouts=Timeouts(total=PATIENCE)))
    reply_head = head(Connection="close").removesuffix(b"\r\n") + extra + b"\r\n"
    ending: Script = [Send(reply_head + b"abc"), Reset()]
    with serving(ending, ending) as server:
        assert client.ask(post(server.url)).body == b"abc"
        client.ask_for_one_piece_then_finish(post(server.url))


def test_a_compressed_reply_is_understood_though_not_asked_for(client: Client) -> None:
    with serving(whole(gzip.compress(b"abc" * 1000), Content_Encoding="gzip")) as server:
        assert client.ask(post(server.url)).body == b"abc" * 1000


def test_a_large_body_is_sent_whole(client: Client) -> None:
    body = b"x" * 3_000_000
    with serving(whole({})) as server:
        client.ask(post(server.url, body))
        assert server.requests[0].body == body


def test_connections_are_used_again(client: Client) -> None:
    with serving(streamed(b"a"), whole({}), whole({}, 500), streamed(b"b")) as server:
        for _ in range(5):
            client.ask(post(server.url))
        assert server.connections == 1


def test_a_connection_with_an_unread_reply_is_not_used_again(client: Client) -> None:
    with serving(streamed([b"first"], ending=[AwaitEnd()]), whole({"n": 2})) as server:
        assert client.ask_and_leave(post(server.url)) == b"first"
        assert server.client_gone.wait(PATIENCE)
        assert client.ask(post(server.url)).body == b'{"n": 2}'
        assert server.connections == 2


def test_a_finished_reply_whose_end_follows_leaves_its_connection_usable(client: Client) -> None:
    with serving(streamed([b"[DONE]"])) as server:
        client.ask_for_one_piece_then_finish(post(server.url))
        client.ask(post(server.url))
        assert server.connections == 1


def test_a_finished_reply_that_stays_open_is_left(client: Client) -> None:
    with serving(streamed([b"[DONE]"], ending=[AwaitEnd()])) as server:
        client.ask_for_one_piece_then_finish(post(server.url))
        assert server.client_gone.wait(PATIENCE)


def test_a_kept_connection_that_the_server_closed_is_replaced(client: Client) -> None:
    with serving([*whole({"n": 1}), Reset()], whole({"n": 2})) as server:
        assert client.ask(post(server.url)).body == b'{"n": 1}'
        # The end of the first connection may arrive late: then the transport says so.
        with contextlib.suppress(ConnectionFailed):
            assert client.ask(post(server.url)).body == b'{"n": 2}'
        assert client.ask(post(server.url)).body == b'{"n": 2}'


def test_redirects_are_not_followed(client: Client) -> None:
    with serving(whole({})) as elsewhere, serving(whole({}, 307, Location=elsewhere.url)) as server:
        assert client.ask(post(server.url)).status == 307
        assert elsewhere.requests == []


def test_a_server_that_is_not_there_is_a_failed_connection(client: Client) -> None:
    with serving(whole({})) as server:
        url = server.url
    with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:\d+ refuses") as raised:
        client.ask(post(url))
    assert raised.value.before_first_byte
    assert raised.value.code == "refused"


def test_an_unknown_host_is_a_failed_connection(client: Client) -> None:
    with pytest.raises(ConnectionFailed, match=r"nowhere\.invalid is not known") as raised:
        client.ask(post("http://nowhere.invalid/"))
    assert raised.value.code == "unknown_host"


def test_a_connection_lost_before_the_reply_is_reported_as_such(client: Client) -> None:
    with serving([Reset()]) as server, pytest.raises(ConnectionFailed) as raised:
        client.ask(post(server.url))
    assert raised.value.before_first_byte
    assert raised.value.code == "lost"


@pytest.mark.parametrize(
    "script",
    [
        streamed([b"abc"], ending=[Reset()]),
        streamed([b"abc"], ending=[Send(b"5\r\nde"), Reset()]),
        [Send(head(Content_Length="10") + b"abc"), Reset()],
    ],
    ids=["between chunks", "within a chunk", "short of its length"],
)
def test_a_connection_lost_within_the_reply_is_reported_as_such(
    client: Client, script: list[Send | Reset]
) -> None:
    with serving(list(script)) as server, pytest.raises(ConnectionFailed) as raised:
        client.ask(post(server.url))
    assert not raised.value.before_first_byte
    assert raised.value.code == "lost"


@pytest.mark.parametrize("timeouts", [Timeouts(read=0.05), Timeouts(total=0.5)], ids=str)
@pytest.mark.parametrize("sent", [b"", head(Transfer_Encoding="chunked") + chunk(b"abc")])
def test_a_silent_server_is_not_waited_for_longer_than_allowed(
    open_client: Open, timeouts: Timeouts, sent: bytes
) -> None:
    client = open_client(TransportSettings(timeouts=timeouts))
    with serving([Send(sent), AwaitEnd()]) as server:
        with pytest.raises(ConnectionFailed, match="in time") as raised:
            client.ask(post(server.url))
        assert server.client_gone.wait(PATIENCE)
    assert raised.value.code == "timeout"
    assert raised.value.before_first_byte == (not sent)


def test_a_closed_transport_sends_nothing(open_client: Open) -> None:
    with serving(whole({})) as server:
        client = open_client(TransportSettings())
        client.ask(post(server.url))
        if isinstance(client, AsyncClient):
            client.runner.run(client.transport.aclose())
        else:
            client.close()
        with pytest.raises(UsageError, match="closed"):
            client.ask(post(server.url))


def test_no_text_of_a_transport_or_failure_shows_a_header(client: Client) -> None:
    request = post("http://user.invalid/")
    with pytest.raises(ConnectionFailed) as raised:
        client.ask(request)
    shown = [repr(request), repr(client.transport), repr(raised.value)]
    assert all("s3cret" not in text for text in shown)


def test_cancelling_a_task_closes_the_socket() -> None:
    async def run(url: str, asked: threading.Event) -> None:
        transport = AsyncTransport(TransportSettings())

        async def read() -> None:
            async with transport.send(post(url)) as reply:
                async for _ in reply.body:
                    pass

        task = asyncio.create_task(read())
        await asyncio.to_thread(asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.client_gone.wait, PATIENCE)
        await transport.aclose()

    with serving(streamed([b"a"], ending=[AwaitEnd()])) as server:
        asyncio.run(run(server.url, server.asked))


def test_closing_the_transport_from_another_thread_wakes_its_reader() -> None:
    transport = SyncTransport(TransportSettings())
    failures: list[ConnectionFailed] = []
    reading = threading.Event()

    def read(url: str) -> None:
        try:
            with transport.send(post(url)) as reply:
                for _ in reply.body:
                    reading.set()
        except ConnectionFailed as failure:
            failures.append(failure)

    with serving(streamed([b"a"], ending=[AwaitEnd()])) as server:
        reader = threading.Thread(target=read, args=(server.url,))
        reader.start()
        assert reading.wait(PATIENCE)
        transport.close()
        reader.join(PATIENCE)
        assert server.client_gone.wait(PATIENCE)
    assert len(failures) == 1


def test_no_more_connections_are_opened_than_allowed_without_async() -> None:
    transport = SyncTransport(TransportSettings(connections_per_host=2))
    bodies: list[bytes] = []

    def read(url: str) -> None:
        with transport.send(post(url)) as reply:
            bodies.append(b"".join(reply.body))

    with serving([*streamed([b"a"], ending=[]), Hold(), Send(b"0\r\n\r\n")]) as server:
        readers = [threading.Thread(target=read, args=(server.url,)) for _ in range(6)]
        for reader in readers:
            reader.start()
        server.release.set()
        for reader in readers:
            reader.join(PATIENCE)
        assert bodies == [b"a"] * 6
        assert server.connections <= 2
        transport.close()


def test_no_more_connections_are_opened_than_allowed_with_async() -> None:
    async def run(url: str) -> None:
        transport = AsyncTransport(TransportSettings(connections_per_host=2))

        async def read() -> bytes:
            async with transport.send(post(url)) as reply:
                return b"".join([piece async for piece in reply.body])

        assert await asyncio.gather(*(read() for _ in range(6))) == [b"a"] * 6
        await transport.aclose()

    with serving(streamed([b"a"])) as server:
        asyncio.run(run(server.url))
        assert server.connections <= 2


def test_one_transport_serves_one_event_loop_after_the_other() -> None:
    transport = AsyncTransport(TransportSettings())

    async def ask(url: str) -> int:
        async with transport.send(post(url)) as reply:
            return reply.status

    async def ask_last(url: str) -> int:
        status = await ask(url)
        await transport.aclose()
        return status

    with serving([*whole({}, Connection="close"), Reset()]) as server:
        assert asyncio.run(ask(server.url)) == 200
        assert asyncio.run(ask_last(server.url)) == 200


def test_connections_are_closed_before_their_event_loop() -> None:
    transport = AsyncTransport(TransportSettings())

    async def ask(url: str) -> None:
        async with transport.send(post(url)) as reply:
            assert [piece async for piece in reply.body] == [b"{}"]

    for _ in range(2):  # the transport stays open, and serves the next loop
        with serving([*whole({}), AwaitEnd()]) as server:
            asyncio.run(ask(server.url))
            assert server.client_gone.wait(PATIENCE)
    transport.close()


def test_a_plain_request_goes_through_the_proxy(open_client: Open) -> None:
    with serving(whole({"from": "proxy"})) as proxy:
        address = f"http://user:word@127.0.0.1:{proxy.port}"
        client = open_client(TransportSettings(http_proxy=address))
        assert client.ask(post("http://api.example/v1/x?y=z")).body == b'{"from": "proxy"}'
        received = proxy.requests[0]
        assert received.target == "http://api.example/v1/x?y=z"
        assert received.headers["host"] == "api.example"
        assert received.headers["proxy-authorization"] == "Basic dXNlcjp3b3Jk"


def test_an_excluded_host_is_asked_without_the_proxy(open_client: Open) -> None:
    with serving(whole({"from": "proxy"})) as proxy, serving(whole({"from": "server"})) as server:
        settings = TransportSettings(http_proxy=proxy.url, no_proxy=("127.0.0.1",))
        assert open_client(settings).ask(post(server.url)).body == b'{"from": "server"}'
        assert proxy.requests == []


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 that signs itself, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is needed to make a certificate")
    folder = tmp_path_factory.mktemp("certificate")
    key, made, both = folder / "key.pem", folder / "made.pem", folder / "both.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", made, "-days", "2", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    both.write_bytes(key.read_bytes() + made.read_bytes())
    return both


def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def test_named_certificates_are_trusted(open_client: Open, certificate: Path) -> None:
    client = open_client(TransportSettings(ca_file=str(certificate)))
    with serving(whole({"ok": 1}), tls=server_tls(certificate)) as server:
        for _ in range(3):
            assert client.ask(post(server.url)).body == b'{"ok": 1}'
        assert server.connections == 1


def test_other_certificates_are_not_trusted(client: Client, certificate: Path) -> None:
    with serving(whole({}), tls=server_tls(certificate)) as server:
        with pytest.raises(ConnectionFailed, match="not trusted") as raised:
            client.ask(post(server.url))
        assert server.requests == []
    assert raised.value.code == "certificate"


def test_leaving_a_secure_reply_closes_its_socket(open_client: Open, certificate: Path) -> None:
    client = open_client(TransportSettings(ca_file=str(certificate)))
    script = streamed([b"first"], ending=[AwaitEnd()])
    with serving(script, tls=server_tls(certificate)) as server:
        assert client.ask_and_leave(post(server.url)) == b"first"
        assert server.client_gone.wait(PATIENCE)


def test_a_secure_request_tunnels_through_the_proxy(open_client: Open, certificate: Path) -> None:
    with (
        serving(whole({"ok": 1}), tls=server_tls(certificate)) as server,
        serving([Tunnel(server.port)]) as proxy,
    ):
        address = f"http://user:word@127.0.0.1:{proxy.port}"
        client = open_client(TransportSettings(https_proxy=address, ca_file=str(certificate)))
        assert client.ask(post(server.url)).body == b'{"ok": 1}'
        asked = proxy.requests[0]
        assert (asked.method, asked.target) == ("CONNECT", f"127.0.0.1:{server.port}")
        assert asked.headers["proxy-authorization"] == "Basic dXNlcjp3b3Jk"
        assert "x-key" not in asked.headers


def test_a_proxy_that_refuses_is_reported_as_such(open_client: Open) -> None:
    with serving([*whole({}, 407), Reset()]) as proxy:
        client = open_client(TransportSettings(https_proxy=proxy.url))
        with pytest.raises(ConnectionFailed, match="proxy") as raised:
            client.ask(post("https://api.example/"))
    assert raised.value.before_first_byte
    assert raised.value.code == "proxy"


def test_a_transport_that_is_forgotten_closes_its_connections() -> None:
    async def run(server: ScriptedServer) -> None:
        transport = AsyncTransport(TransportSettings())
        async with transport.send(post(server.url)) as reply:
            assert [piece async for piece in reply.body] == [b"{}"]
        del transport
        assert await asyncio.to_thread(server.client_gone.wait, PATIENCE)

    with serving([*whole({}), AwaitEnd()]) as server:
        asyncio.run(run(server))
    with serving([*whole({}), AwaitEnd()]) as server:
        transport = SyncTransport(TransportSettings())
        with transport.send(post(server.url)) as reply:
            assert b"".join(reply.body) == b"{}"
        del transport, reply
        assert server.client_gone.wait(PATIENCE)


def test_closing_also_ends_what_another_event_loop_reads() -> None:
    transport = AsyncTransport(TransportSettings())
    reading = threading.Event()

    async def read(url: str) -> None:
        async with transport.send(post(url)) as reply:
            async for _ in reply.body:
                reading.set()

    def elsewhere(url: str) -> None:
        with pytest.raises(ConnectionFailed, match="stopped here"):
            asyncio.run(read(url))

    with serving(streamed([b"a"], ending=[AwaitEnd()])) as server:
        reader = threading.Thread(target=elsewhere, args=(server.url,))
        reader.start()
        assert reading.wait(PATIENCE)
        asyncio.run(transport.aclose())
        reader.join(PATIENCE)
        assert not reader.is_alive()


@pytest.mark.parametrize("sent", [b"", head(Transfer_Encoding="chunked") + chunk(b"abc")])
def test_closing_ends_what_other_tasks_wait_for(sent: bytes) -> None:
    async def run(server: ScriptedServer) -> None:
        transport = AsyncTransport(TransportSettings())

        async def read() -> None:
            async with transport.send(post(server.url)) as reply:
                async for _ in reply.body:
                    pass

        task = asyncio.create_task(read())
        await asyncio.to_thread(server.asked.wait, PATIENCE)
        await transport.aclose()
        with pytest.raises(ConnectionFailed, match="stopped here"):
            await task
        assert await asyncio.to_thread(server.client_gone.wait, PATIENCE)

    with serving([Send(sent), AwaitEnd()]) as server:
        asyncio.run(run(server))


def test_the_end_of_a_finished_reply_may_be_lost(client: Client) -> None:
    with serving(streamed([b"[DONE]"], ending=[Hold(), Reset()])) as server:
        server.release.set()
        client.ask_for_one_piece_then_finish(post(server.url))


def test_a_place_in_a_full_pool_is_not_waited_for_longer_than_allowed() -> None:
    settings = TransportSettings(timeouts=Timeouts(total=0.05), connections_per_host=1)
    transport = SyncTransport(settings)
    with serving(streamed([b"a"], ending=[AwaitEnd()])) as server:
        with transport.send(post(server.url)):
            second = transport.send(post(server.url))
            with pytest.raises(ConnectionFailed, match="in time"):
                second.__enter__()
        transport.close()


def test_a_kept_connection_grows_old() -> None:
    now = 0.0
    pool = ConnectionPool(TransportSettings(idle_seconds=30), clock=lambda: now)
    with serving(whole({})) as server:
        key = pool.key_of(server.url)
        first = pool.take(key)
        pool.give_back(first, reusable=True)
        now = 29.0
        again = pool.take(key)
        assert again is first
        pool.give_back(again, reusable=True)
        now = 60.0
        other = pool.take(key)
        assert other is not first
        pool.give_back(other, reusable=False)
        pool.close()


@pytest.mark.parametrize("address", ["socks5://localhost:1", "https://localhost:1"])
def test_a_proxy_that_speaks_another_protocol_is_the_users_to_mend(
    open_client: Open, address: str
) -> None:
    client = open_client(TransportSettings(http_proxy=address))
    with pytest.raises(UsageError, match="http://host:port"):
        client.ask(post("http://api.example"))
