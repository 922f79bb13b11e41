"""Connections of browsers that are not signed in: they never lock a user out."""

import contextlib
import socket
from collections.abc import Generator
from pathlib import Path

import httpx2
import pytest
from tests.web.server_process import PATIENCE, RunningServer, run_server

from multi_llm_chat.testing.hostile_files import HOSTILE_REQUESTS
from multi_llm_chat.web.guard import LARGEST_OF_STRANGERS
from multi_llm_chat.web.server import MOST_LEFT_OF_BODY, stranger_cap


@contextlib.contextmanager
def connections(server: RunningServer, count: int) -> Generator[list[socket.socket]]:
    """Open connections that send nothing."""
    with contextlib.ExitStack() as stack:
        port = int(server.url.rpartition(":")[2])
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            for _ in range(count)
        ]


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server has closed the connection."""
    connection.settimeout(PATIENCE)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_idle_connections_do_not_keep_users_out(tmp_path: Path):
    with (
        run_server(tmp_path, most_strangers=20) as server,
        server.signed_in_client() as user,
        connections(server, 200) as strangers,
    ):
        assert httpx2.get(f"{server.url}/healthz").text == "ok\n"
        assert user.get("/").status_code == 200
        assert all(map(is_closed, strangers[:150]))


def test_the_stream_of_a_user_is_not_closed_for_strangers(tmp_path: Path):
    with (
        run_server(tmp_path, most_strangers=5) as server,
        server.signed_in_client() as user,
        user.stream("GET", "/c/one/events") as stream,
        connections(server, 50),
    ):
        assert stream.status_code == 200
        assert httpx2.get(f"{server.url}/healthz").text == "ok\n"
        user.post("/c/one/messages", data={"text": "memo"})
        assert next(stream.iter_bytes())


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nX-Slow: "])
def test_a_head_that_does_not_come_closes_the_connection(tmp_path: Path, sent: bytes):
    with run_server(tmp_path, head_seconds=0.2) as server, connections(server, 1) as (slow,):
        slow.sendall(sent)
        assert is_closed(slow)


@pytest.mark.parametrize("path", ["/login", "/nowhere"])
def test_a_refused_body_is_not_read_to_its_end(tmp_path: Path, path: str):
    with (
        run_server(tmp_path, keep_alive=3600) as server,
        connections(server, 1) as (sender,),
    ):
        host = server.url.removeprefix("http://")
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: {server.url}\r\nTransfer-Encoding: chunked\r\n\r\n"
        sender.sendall(head.encode())
        piece = b"10000\r\n%s\r\n" % bytes(65_536)
        pieces = piece * (32 * MOST_LEFT_OF_BODY // len(piece))
        with pytest.raises(ConnectionError):
            sender.sendall(pieces)
        assert sender.recv(12).startswith(b"HTTP/1.1 4")  # and the answer is there


def test_a_second_head_has_the_same_limit(tmp_path: Path):
    with (
        run_server(tmp_path, head_seconds=0.2, keep_alive=3600) as server,
        connections(server, 1) as (slow,),
    ):
        host = server.url.removeprefix("http://").encode()
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\nGET /heal" % host)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := slow.recv(4096):
                received += piece
        assert received.count(b"HTTP/1.1 200") == 1


def test_the_body_of_a_stranger_is_small(tmp_path: Path):
    with run_server(tmp_path) as server, httpx2.Client(base_url=server.url) as stranger:
        body = {"password": "x" * LARGEST_OF_STRANGERS}
        answer = stranger.post("/login", data=body, headers={"origin": server.url})
        assert answer.status_code == 413


def test_the_cap_is_far_below_the_limit_of_descriptors():
    assert 8 <= stranger_cap(10**9) < 10**9
    assert stranger_cap(8) == 8


def received(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    connection.settimeout(PATIENCE)
    pieces: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def test_hostile_requests_get_nothing_and_users_are_served_meanwhile(tmp_path: Path):
    attacks = [make() for make in HOSTILE_REQUESTS.values()]
    with (
        run_server(tmp_path, head_seconds=0.5, password_hash="no password fits") as server,
        server.signed_in_client() as user,
        connections(server, len(attacks)) as strangers,
    ):
        user.post("/c/one/messages", data={"text": "the secret of the user"})
        for connection, attack in zip(strangers, attacks, strict=True):
            with contextlib.suppress(ConnectionError):
                connection.sendall(attack)
            assert user.get("/c/one").status_code == 200
        replies = dict(zip(HOSTILE_REQUESTS, map(received, strangers), strict=True))
        assert user.get("/c/one").status_code == 200
    for name, reply in replies.items():
        assert b"secret" not in reply, name
        assert b"root:" not in reply, name
        assert b"HTTP/1.1 500" not in reply, name
        assert b"mlc_session" not in reply, name


def test_the_table_of_requests_is_long_enough():
    assert len(HOSTILE_REQUESTS) >= 30


def test_a_user_who_connects_among_many_strangers_is_served(tmp_path: Path):
    """Strangers who connect after a user do not cause the user's connection to close before its request is read."""
    with (
        run_server(tmp_path, most_strangers=64) as server,
        server.signed_in_client() as user,
        connections(server, 64),
    ):
        port = int(server.url.rpartition(":")[2])
        cookie = "; ".join(f"{name}={value}" for name, value in user.cookies.items())
        head = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n\r\n".encode()
        for _ in range(5):
            with connections(server, 1) as (own,), connections(server, 150):
                own.sendall(head)
                own.settimeout(PATIENCE)
                assert own.recv(12) == b"HTTP/1.1 200"
