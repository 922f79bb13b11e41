"""Signing in, permissions, and protection against other sites."""

import asyncio
from pathlib import Path

import httpx2
import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send
from tests.web.server_process import RunningServer, form_token, run_server

from multi_llm_chat.config.secrets import FileSecrets, MemorySecrets
from multi_llm_chat.errors import UsageError
from multi_llm_chat.testing.simulator import Say
from multi_llm_chat.web.access import (
    AccessPolicy,
    Proxy,
    SignedInBrowser,
    is_loopback,
    read_password,
    read_secret,
    set_password,
)
from multi_llm_chat.web.guard import (
    LARGEST_BODY,
    UNPACED_BODY,
    BodyTooLargeError,
    Guard,
    LimitedBody,
)
from multi_llm_chat.web.server import ServerOptions, open_access


def conversation_of(html: str) -> str:
    return html.partition('data-conversation="')[2].partition('"')[0]


def test_without_a_session_only_the_login_page_is_shown(server: RunningServer):
    with httpx2.Client(base_url=server.url) as stranger:
        assert stranger.get("/", headers={"accept": "text/html"}).headers["location"] == "/login"
        for path in (
            "/",
            "/c/x",
            "/c/x/events",
            "/sidebar",
            "/settings",
            "/tools",
            "/export",
            "/find?words=a",
        ):
            assert stranger.get(path).status_code == 401
        assert stranger.get("/?token=guessed").status_code == 401
        assert "open the link that mlc serve printed" in stranger.get("/login").text
        assert stranger.get("/assets/style.css").status_code == 200
        assert stranger.get("/assets/../app.py").status_code == 401
        assert stranger.get("/assets/%2e%2e/app.py").status_code == 404


def test_probes_are_public_and_metrics_need_this_machine_or_the_token(tmp_path: Path):
    bearer = {"authorization": "Bearer the token"}
    with run_server(tmp_path, metrics_token="the token") as server, httpx2.Client(base_url=server.url) as probe:  # fmt: skip
        assert probe.get("/healthz").text == "ok\n"
        assert probe.get("/readyz").text == "ok\n"
        assert "multi_llm_chat_runs_held 0" in probe.get("/metrics").text
        passed_on = {"x-forwarded-for": "203.0.113.9"}
        assert probe.get("/metrics", headers=passed_on).status_code == 401
        assert probe.get("/metrics", headers=passed_on | bearer).status_code == 200
        for path in ("/healthzz", "/metrics/x", "/readyz/"):
            assert probe.get(path).status_code == 401
    with_token = AccessPolicy(b"secret", metrics_token="the token")
    assert not with_token.may_read_metrics("203.0.113.9", {})
    assert not with_token.may_read_metrics("203.0.113.9", {"authorization": "Bearer another"})
    assert with_token.may_read_metrics("203.0.113.9", bearer)
    assert not AccessPolicy(b"secret").may_read_metrics("203.0.113.9", {"authorization": "Bearer "})
    assert not AccessPolicy(b"secret", proxy=Proxy("x-user")).may_read_metrics("127.0.0.1", {})


def test_a_link_signs_in_one_browser_once(server: RunningServer):
    link = server.link()
    with httpx2.Client() as first, httpx2.Client() as second:
        answer = first.get(link)
        assert answer.status_code == 303
        assert "token" not in answer.headers["location"]
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert first.get(server.url).status_code == 200
        assert second.get(link).status_code == 401


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1.evil.example"],
)
def test_an_unknown_host_name_is_refused(server: RunningServer, host: str):
    with server.signed_in_client() as visitor:
        assert visitor.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "[::1]:8765", "192.168.1.20:8765"])
def test_addresses_and_localhost_are_known_hosts(server: RunningServer, host: str):
    with server.signed_in_client() as visitor:
        assert visitor.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"x-form-token": ""},
        {"x-form-token": "0" * 64},
    ],
)
def test_a_change_must_come_from_our_own_page(server: RunningServer, headers: dict[str, str]):
    with server.signed_in_client() as visitor:
        before = visitor.get("/sidebar").text
        refused = visitor.post("/c/one/messages", data={"text": "memo"}, headers=headers)
        assert refused.status_code == 403
        assert visitor.get("/sidebar").text == before
        assert visitor.post("/c/one/messages", data={"text": "memo"}).status_code == 200


def test_a_form_token_of_another_browser_is_refused(server: RunningServer):
    with server.signed_in_client() as one, server.signed_in_client() as other:
        token = other.headers["x-form-token"]
        answer = one.post("/preferences", json={"theme": "dark"}, headers={"x-form-token": token})
        assert answer.status_code == 403


def test_every_response_forbids_what_pages_do_not_need(server: RunningServer):
    with server.signed_in_client() as visitor:
        for path in ("/", "/login", "/assets/main.js", "/nowhere", "/settings"):
            headers = visitor.get(path).headers
            assert headers["content-security-policy"].startswith(
                "default-src 'none'; script-src 'self'"
            )
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"


def test_browsers_do_not_cache_pages_and_revalidate_scripts(
    server: RunningServer,
):
    with server.signed_in_client() as visitor:
        assert visitor.get("/").headers["cache-control"] == "no-store"
        script = visitor.get("/assets/main.js")
        assert script.headers["cache-control"] == "no-cache"
        again = visitor.get("/assets/main.js", headers={"if-none-match": script.headers["etag"]})
        assert again.status_code == 304


def test_a_body_that_is_too_large_is_not_read_to_its_end(server: RunningServer):
    with server.signed_in_client() as visitor:
        answer = visitor.post("/preferences", content=b"x" * (LARGEST_BODY + 1))
        assert answer.status_code == 413


def test_a_body_without_a_declared_length_is_refused_at_its_limit(server: RunningServer):
    with server.signed_in_client() as visitor:
        pieces = (bytes(1_000_000) for _ in range(LARGEST_BODY // 1_000_000 + 1))
        assert visitor.post("/preferences", content=pieces).status_code == 413


def test_a_large_body_leaves_time_for_others():
    async def read(pieces: int, limit: int) -> tuple[int, int]:
        """Read a body that has arrived; return its size, and how often other tasks ran in the meantime."""
        waiting = iter(range(pieces, -1, -1))

        async def receive() -> Message:
            left = next(waiting)
            return {"type": "http.request", "body": bytes(65_536), "more_body": left > 0}

        async def size() -> int:
            limited, found, more = LimitedBody(receive, limit), 0, True
            while more:
                message = await limited()
                found, more = found + len(message["body"]), message["more_body"]
            return found

        reading, others = asyncio.ensure_future(size()), 0
        while not reading.done():
            await asyncio.sleep(0)
            others += 1
        return reading.result(), others

    pieces = 2 * UNPACED_BODY // 65_536
    size, others = asyncio.run(read(pieces, 3 * UNPACED_BODY))
    assert size == (pieces + 1) * 65_536
    assert others >= pieces // 3
    with pytest.raises(BodyTooLargeError):
        asyncio.run(read(pieces, UNPACED_BODY // 2))


def test_who_sends_a_large_body_that_is_not_read_waits_for_the_answer():
    """A later request is answered first."""
    answered: list[str] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(guard: Guard, name: str, *headers: tuple[bytes, bytes]) -> None:
        async def receive() -> Message:
            return {"type": "http.request", "body": bytes(65_536), "more_body": True}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered.append(name)

        origin = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
        scope = {"type": "http", "method": "POST", "path": "/login", "query_string": b""}
        await guard(scope | {"headers": [*origin, *headers]}, receive, send)

    async def ask_all() -> None:
        guard = Guard(app, AccessPolicy(b"secret"))
        await asyncio.gather(
            ask(guard, "unknown length", (b"transfer-encoding", b"chunked")),
            ask(guard, "large", (b"content-length", b"9000000")),
            ask(guard, "small", (b"content-length", b"900")),
            ask(guard, "none"),
        )

    asyncio.run(ask_all())
    assert answered[:2] == ["small", "none"]
    assert set(answered[2:]) == {"unknown length", "large"}


def test_a_changed_session_is_invalid():
    access = AccessPolicy(b"secret")
    session = access.new_session("anna")
    assert access.user_of(session) == "anna"
    for wrong in (
        "",
        "x",
        session[:-1],
        session.replace(".", "..", 1),
        AccessPolicy(b"other").new_session("anna"),
    ):
        assert access.user_of(wrong) is None


def test_a_session_expires():
    now = 1000.0
    access = AccessPolicy(b"secret", clock=lambda: now)
    session = access.new_session()
    now += 29 * 24 * 3600
    assert access.user_of(session)
    now += 2 * 24 * 3600
    assert access.user_of(session) is None


def test_other_addresses_need_a_password_or_a_proxy():
    kept = MemorySecrets()
    with pytest.raises(UsageError, match="set-password"):
        open_access(ServerOptions("0.0.0.0"), kept)
    with pytest.raises(UsageError, match="--auth-header"):
        open_access(ServerOptions("::"), kept)
    open_access(ServerOptions("127.0.0.1"), kept)
    open_access(ServerOptions("0.0.0.0", proxy=Proxy("x-user")), kept)
    set_password(kept, "correct horse")
    open_access(ServerOptions("0.0.0.0"), kept)
    assert is_loopback("127.0.0.5")
    assert not is_loopback("evil.example")


def test_a_password_is_stored_as_a_hash_and_ends_all_sessions(tmp_path: Path):
    kept = FileSecrets(tmp_path / "web.json")
    before = read_secret(kept)
    assert read_secret(kept) == before
    with pytest.raises(UsageError, match="8 characters"):
        set_password(kept, "short")
    set_password(kept, "correct horse")
    assert (read_password(kept) or "").startswith("$argon2id$")
    assert "correct" not in (tmp_path / "web.json").read_text(encoding="utf-8")
    assert read_secret(kept) != before


def test_the_password_signs_in(tmp_path: Path):
    quick = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("correct horse")
    with (
        run_server(tmp_path, password_hash=quick) as server,
        httpx2.Client(base_url=server.url) as visitor,
    ):
        visitor.headers["origin"] = server.url
        assert visitor.post("/login", data={"password": "wrong"}).status_code == 403
        assert visitor.get("/").status_code == 401
        assert visitor.post("/login", data={"password": "correct horse"}).headers["location"] == "/"
        assert visitor.get("/").status_code == 200
        foreign = visitor.post(
            "/login", data={"password": "correct horse"}, headers={"origin": "http://evil.example"}
        )
        assert foreign.status_code == 403


def quick_hash(password: str) -> str:
    return PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(password)


def test_many_wrong_passwords_delay_the_place_they_come_from_and_no_other():
    now = 0.0
    access = AccessPolicy(b"secret", password_hash=quick_hash("correct horse"), clock=lambda: now)
    guesser, owner = access.place_of("203.0.113.9", ""), access.place_of("198.51.100.2", "")
    device = access.place_of("203.0.113.9", access.new_device())

    async def check() -> None:
        nonlocal now
        for _ in range(6):
            assert not await access.check_password("wrong", guesser)
            now += access.wait(guesser)
        assert not await access.check_password("wrong", guesser)
        assert access.wait(guesser) > 1
        assert not await access.check_password("correct horse", guesser)
        # A known device is admitted from the same address, and so is every device at other addresses.
        assert await access.check_password("correct horse", device)
        assert await access.check_password("correct horse", owner)
        now += access.wait(guesser)
        assert await access.check_password("correct horse", guesser)
        assert access.wait(guesser) == 0

    asyncio.run(check())


def test_one_place_tries_one_password_at_a_time():
    access = AccessPolicy(b"secret", password_hash=quick_hash("correct horse"))

    async def check() -> list[bool]:
        return await asyncio.gather(
            *(access.check_password("correct horse", "address x") for _ in range(20))
        )

    assert asyncio.run(check()).count(True) == 1


@given(st.text(max_size=40))
def test_a_device_that_was_not_signed_here_is_an_address(cookie: str):
    access = AccessPolicy(b"secret")
    assert access.place_of("203.0.113.9", cookie) == "address 203.0.113.9"
    foreign = AccessPolicy(b"other").new_device()
    assert access.place_of("2001:db8::1", foreign) == access.place_of("2001:db8::2", cookie)


def test_signing_out_ends_the_session_for_every_copy_of_its_cookie(server: RunningServer):
    with server.signed_in_client() as owner, server.signed_in_client() as other:
        stolen = owner.cookies["mlc_session"]
        with httpx2.Client(base_url=server.url, cookies={"mlc_session": stolen}) as thief:
            assert thief.get("/").status_code == 200
            assert owner.post("/logout").status_code == 200
            assert thief.get("/").status_code == 401
        assert other.get("/").status_code == 200


def test_sessions_are_listed_and_can_be_ended(server: RunningServer):
    with server.signed_in_client() as one, server.signed_in_client() as other:
        listed = one.get("/sessions").json()["sessions"]
        (own,) = [each for each in listed if each["is_this"]]
        assert own["browser"].startswith("python-httpx")
        (foreign,) = [each for each in other.get("/sessions").json()["sessions"] if each["is_this"]]
        assert one.post("/sessions/end", json={"id": foreign["id"]}).status_code == 200
        assert other.get("/").status_code == 401
        assert one.post("/sessions/end", json={"id": foreign["id"]}).status_code == 400
        assert one.get("/").status_code == 200
        panel = one.get("/settings/account").text
        assert "This browser" in panel
        assert foreign["id"] not in panel


def test_sessions_outlive_the_server_and_are_shared_by_servers_of_one_folder(tmp_path: Path):
    now = 1000.0
    kept = FileSecrets(tmp_path / "web.json")
    first = AccessPolicy(b"secret", sessions=kept, clock=lambda: now)
    second = AccessPolicy(b"secret", sessions=kept, clock=lambda: now)
    session = first.new_session("anna")
    assert second.user_of(session) == "anna"
    assert not first.end_session("bert", first.session_id(session))
    assert first.end_session("anna", first.session_id(session))
    now += 10
    assert second.user_of(session) is None


def test_a_link_is_used_up_and_leaves_the_address_also_when_signed_in(server: RunningServer):
    link = f"{server.link('/c/one')}&around=two"
    with server.signed_in_client() as visitor, httpx2.Client() as stranger:
        answer = visitor.get(link)
        assert answer.headers["location"] == "/c/one?around=two"
        assert stranger.get(link).status_code == 401
    with httpx2.Client() as stranger:
        token = server.access.new_link()
        answer = stranger.get(f"{server.url}//evil.example/x?token={token}")
        assert answer.headers["location"] == "/evil.example/x"


def test_users_of_a_proxy_see_only_their_own_conversations(tmp_path: Path):
    proxy = Proxy("x-user", ("127.0.0.1",), admins=("root",))
    with run_server(tmp_path, proxy=proxy) as server, httpx2.Client(base_url=server.url) as client:

        def headers(user: str) -> dict[str, str]:
            html = client.get("/", headers={"x-user": user}).text
            return {"x-user": user, "origin": server.url, "x-form-token": form_token(html)}

        anna, bert = headers("anna"), headers("bert")
        server.add_replies("gemini", Say("For Anna."))
        said = client.post("/c/shared/messages", data={"text": "a secret of anna's"}, headers=anna)
        assert said.status_code == 200
        assert "secret" in client.get("/sidebar", headers=anna).text
        assert "secret" not in client.get("/sidebar", headers=bert).text
        assert "secret" not in client.get("/find?words=secret", headers=bert).text
        assert "secret" not in client.get("/c/shared/view", headers=bert).text
        assert "secret" not in client.get("/export", headers=bert).text
        assert client.post("/c/shared/delete", json={}, headers=bert).status_code == 404
        assert "secret" in client.get("/c/shared/view", headers=anna).text
        assert client.post("/settings/general", json={}, headers=anna).status_code == 400
        assert client.post("/tools/add", json={"text": "{}"}, headers=anna).status_code == 400
        assert client.post("/settings/general", json={}, headers=headers("root")).status_code == 200


def test_the_header_is_ignored_from_other_addresses(tmp_path: Path):
    proxy = Proxy("x-user", ("10.9.8.7",))
    with run_server(tmp_path, proxy=proxy) as server, httpx2.Client(base_url=server.url) as client:
        assert client.get("/", headers={"x-user": "anna"}).status_code == 401
        assert client.get(server.link()).status_code == 303  # the link signs a cookie …
        assert (
            client.get("/").status_code == 401
        )  # … which is not valid where a proxy names the users


def test_keys_never_leave_the_server(server: RunningServer):
    with server.signed_in_client() as visitor:
        assert (
            visitor.post(
                "/settings/key",
                json={"variable": "ANTHROPIC_API_KEY", "value": "sk-ant-api03-verysecretvalue"},
            ).status_code
            == 200
        )
        for path in ("/", "/settings/models", "/settings/tools", "/models", "/tools", "/export"):
            assert "verysecret" not in visitor.get(path).text
        assert (
            visitor.post("/settings/key", json={"variable": "PATH", "value": "x"}).status_code
            == 400
        )


def test_the_server_shuts_down_while_pages_are_open(tmp_path: Path):
    with run_server(tmp_path) as server, server.signed_in_client() as visitor:
        identifier = conversation_of(visitor.get("/").text)
        with visitor.stream("GET", f"/c/{identifier}/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "retry: 1000"


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36", "Chrome, Linux"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Mobile Safari/604.1", "Safari, iPhone"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/156.0.0.0 Safari/537.36 Edg/156.0", "Edge, Windows"),
        ("curl/8.0", "curl/8.0"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_browser_is_named_in_short(called: str, name: str):
    assert SignedInBrowser("1", "anna", 0.0, 1.0, called).name == name
