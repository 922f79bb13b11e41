"""The middleware that checks every request and completes every response.

Rules:
1. A request with an unknown ``Host`` is refused: another site may have pointed its own name at this machine (DNS rebinding).
2. A browser that is not signed in gets only the sign-in page, the style sheet and the health probes; ``/metrics`` has its own rule.
3. A request that changes something must come from our own page: its origin is this server, and its form token is right.
4. The headers of every response forbid the browser everything that our pages do not need.
5. A body is not read beyond its limit, and the body of a stranger's request (one without a session) must arrive within
   ``STRANGER_SECONDS``. A request that is answered before its large body was read gets its response with a delay, so that a client that
   repeats such requests costs the server little time.
6. The first request with a sign-in link uses it up, also from a browser that is signed in, and redirects to the address without it.
"""

import asyncio
import http.cookies
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multi_llm_chat.web.access import DEVICE_SECONDS, SESSION_SECONDS, AccessPolicy, is_same

COOKIE: Final = "mlc_session"
DEVICE_COOKIE: Final = "mlc_device"
FORM_TOKEN: Final = "x-form-token"  # noqa: S105  a name, not a secret

#: The most bytes of a body: of a message with its files, and of an import.
LARGEST_BODY: Final = 40_000_000
LARGEST_IMPORT: Final = 500_000_000
#: The most bytes, and the most seconds, of the body of a request without a session, which is a password.
LARGEST_OF_STRANGERS: Final = 10_000
STRANGER_SECONDS: Final = 10.0
#: This much of a body is read as fast as it arrives, the rest at this speed, so that a large upload leaves the server time for others.
UNPACED_BODY: Final = 1_000_000
BODY_BYTES_A_SECOND: Final = 32_000_000
#: The delay in seconds of the response to a request that is refused, or whose body of more than ``SMALL_BODY`` bytes was not read.
REFUSAL_SECONDS: Final = 0.2
SMALL_BODY: Final = 65_536

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "frame-src 'self'",  # the frame of an artifact, which has a stricter policy (``artifacts.DOCUMENT_POLICY``)
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types multi-llm-chat",
    )
)
_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_PUBLIC: Final = ("/assets/", "/login", "/health", "/healthz", "/readyz", "/metrics")


class BodyTooLargeError(Exception):
    """The body is larger than allowed."""


class Guard:
    """The ASGI middleware in front of the application."""

    def __init__(
        self, app: ASGIApp, access: AccessPolicy, stranger_seconds: float = STRANGER_SECONDS
    ) -> None:
        self._app = app
        self._access = access
        self._stranger_seconds = stranger_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # Browsers may cache scripts and styles if they revalidate them.
        cache_control = "no-cache" if scope["path"].startswith("/assets/") else "no-store"
        guarded = _with_headers(send, cache_control)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            if scope["method"] not in _SAFE_METHODS:
                await asyncio.sleep(REFUSAL_SECONDS)
            await refusal(scope, receive, guarded)
            return
        limit = LARGEST_IMPORT if scope["path"] == "/import" else LARGEST_BODY
        if scope["state"]["user"] is None:
            receive, limit = _in_time(receive, self._stranger_seconds), LARGEST_OF_STRANGERS
        try:
            if _declared_length(headers) > limit:
                raise BodyTooLargeError
            body = LimitedBody(receive, limit)
            answer = _when_read(body, guarded) if _may_be_large(headers) else guarded
            await self._app(scope, body, answer)
        except TimeoutError:
            response = JSONResponse({"error": "The request took too long."}, 408)
            await response(scope, receive, guarded)
        except BodyTooLargeError:
            await asyncio.sleep(REFUSAL_SECONDS)
            response = JSONResponse({"error": "That is too large."}, 413)
            await response(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The response to a request that is refused; None if it may pass."""
        if not self._access.is_known_host(headers.get("host", "")):
            return JSONResponse({"error": "This server is not known by that name."}, 421)
        identity, user = self._identify(scope, headers)
        scope.setdefault("state", {})
        scope["state"] |= {
            "user": user,
            "form_token": self._access.form_token(identity),
            "access": self._access,
        }
        if scope["method"] not in _SAFE_METHODS and not self._is_from_our_page(
            scope, headers, identity
        ):
            return JSONResponse(
                {"error": "The request did not come from this page. Reload the page."}, 403
            )
        linked = self._follow_link(scope, headers, user)
        if linked is not None:
            return linked
        if user is not None or scope["path"] in _PUBLIC or scope["path"].startswith(_PUBLIC[0]):
            return None
        return self._refuse_unknown(scope, headers)

    def _identify(self, scope: Scope, headers: Headers) -> tuple[str, str | None]:
        """The identity of the browser, and its user."""
        address = (scope.get("client") or ("", 0))[0]
        proxy = self._access.proxy
        proxy_user = self._access.user_from_proxy(
            address, headers.get(proxy.header) if proxy else None
        )
        if proxy_user is not None:
            return f"proxy:{proxy_user}", proxy_user
        cookie = read_cookie(headers.get("cookie", ""))
        return cookie, self._access.user_of(cookie) if cookie and proxy is None else None

    def _is_from_our_page(self, scope: Scope, headers: Headers, identity: str) -> bool:
        origin = headers.get("origin")
        if origin is None or urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            return False
        if scope["path"] == "/login":  # there is no session yet; the password is checked
            return True
        return is_same(headers.get(FORM_TOKEN, ""), self._access.form_token(identity))

    def _follow_link(self, scope: Scope, headers: Headers, user: str | None) -> Response | None:
        """Use up the sign-in link in the address and sign in; return None if there is no link, or it is not valid."""
        if scope["method"] != "GET":
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in query if name == "token"]
        redeemed = [self._access.redeem(token) for token in tokens]  # all of them are used up
        is_valid = True in redeemed
        if not tokens or (user is None and not is_valid):
            return None
        rest = urlencode([pair for pair in query if pair[0] != "token"])
        path = quote(scope["path"].replace("\\", "/"), safe="/~:@!$&'()*+,;=-._")
        place = "/" + path.lstrip("/")  # never redirect to another host: //evil.example
        response = RedirectResponse(f"{place}?{rest}" if rest else place, 303)
        if user is None:
            sign_in(response, self._access, headers.get("user-agent", ""))
        return response

    def _refuse_unknown(self, scope: Scope, headers: Headers) -> Response:
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", 303)
        return JSONResponse({"error": "You are not signed in."}, 401)


def sign_in(response: Response, access: AccessPolicy, browser: str) -> None:
    """Set the cookies of the session and of the device."""
    values = {
        COOKIE: (access.new_session(browser=browser), SESSION_SECONDS),
        DEVICE_COOKIE: (access.new_device(), DEVICE_SECONDS),
    }
    for name, (value, seconds) in values.items():
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            httponly=True,
            samesite="strict",
            secure=access.is_encrypted,
        )


def read_cookie(header: str, name: str = COOKIE) -> str:
    """The value of a cookie; empty if there is none."""
    try:
        found = http.cookies.SimpleCookie(header).get(name)
    except http.cookies.CookieError:
        return ""
    return found.value if found else ""


def _with_headers(send: Send, cache_control: str) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", cache_control)
        await send(message)

    return guarded


def _in_time(receive: Receive, seconds: float) -> Receive:
    """Receive a body within the time limit of strangers; later messages (the end of the connection) have no limit."""
    deadline = asyncio.get_running_loop().time() + seconds
    is_whole = False

    async def timed() -> Any:
        nonlocal is_whole
        if is_whole:
            return await receive()
        async with asyncio.timeout_at(deadline):
            message = await receive()
        is_whole = not message.get("more_body", False)
        return message

    return timed


def _declared_length(headers: Headers) -> int:
    """The length of the body as the request declares it; 0 if it does not."""
    declared = headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else 0


def _may_be_large(headers: Headers) -> bool:
    """Whether the request has a body that is not known to be small."""
    return "transfer-encoding" in headers or _declared_length(headers) > SMALL_BODY


class LimitedBody:
    """Receives a body of at most ``limit`` bytes; after the first megabyte no faster than ``BODY_BYTES_A_SECOND``."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._left = limit
        self._unpaced = limit - UNPACED_BODY
        #: Whether all of it was received.
        self.is_whole = False

    async def __call__(self) -> Message:
        """Receive the next piece."""
        message = await self._receive()
        size = len(message.get("body", b""))
        self._left -= size
        if self._left < 0:
            raise BodyTooLargeError
        self.is_whole = not message.get("more_body", False)
        if self._left < self._unpaced and not self.is_whole:
            await asyncio.sleep(size / BODY_BYTES_A_SECOND)
        return message


def _when_read(body: LimitedBody, send: Send) -> Send:
    """Send a response at once if the body was received, else after ``REFUSAL_SECONDS``."""

    async def later(message: Message) -> None:
        if message["type"] == "http.response.start" and not body.is_whole:
            await asyncio.sleep(REFUSAL_SECONDS)
        await send(message)

    return later
