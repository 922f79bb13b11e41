"""Every request passes here first, and every answer last.

Rules:
1. A request that calls the server by a foreign name is refused: so is another page that had its own name
   pointed at this machine.
2. Whoever is not known sees the page for signing in, and nothing else but the style sheet and whether the server lives; the figures
   of ``/metrics`` have a rule of their own.
3. What changes something must come from our own page: the origin is ours, and the form token is right.
4. Every answer forbids the browser everything that our pages do not need.
5. A body is not read further than its limit.
"""

import http.cookies
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multi_llm_chat.web.access import SESSION, Access

COOKIE: Final = "mlc_session"
FORM_TOKEN: Final = "x-form-token"  # noqa: S105  a name, not the thing

#: Bytes of a body: of messages with their files, and of imports.
LARGEST_BODY: Final = 40_000_000
LARGEST_IMPORT: Final = 500_000_000

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
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


class TooLargeError(Exception):
    """The body is larger than allowed."""


class Guard:
    """The gate in front of the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # Scripts and styles may be kept, if the browser asks whether they have changed.
        keeping = "no-cache" if scope["path"].startswith("/assets/") else "no-store"
        guarded = _with_headers(send, keeping)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        limit = LARGEST_IMPORT if scope["path"] == "/import" else LARGEST_BODY
        try:
            await self._app(scope, _limited(receive, limit), guarded)
        except TooLargeError:
            response = JSONResponse({"error": "That is too large."}, 413)
            await response(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Why the request is answered here, if it is."""
        if not self._access.knows_host(headers.get("host", "")):
            return JSONResponse({"error": "This server is not known by that name."}, 421)
        identity, user = self._identify(scope, headers)
        scope.setdefault("state", {})
        scope["state"] |= {
            "user": user,
            "form_token": self._access.form_token(identity),
            "access": self._access,
        }
        if scope["method"] not in _SAFE_METHODS and not self._is_ours(scope, headers, identity):
            return JSONResponse({"error": "That did not come from this page. Load it anew."}, 403)
        if user is not None or scope["path"] in _PUBLIC or scope["path"].startswith(_PUBLIC[0]):
            return None
        return self._stranger(scope, headers)

    def _identify(self, scope: Scope, headers: Headers) -> tuple[str, str | None]:
        """What identifies the browser, and its user."""
        address = (scope.get("client") or ("", 0))[0]
        proxy = self._access.proxy
        vouched = self._access.vouched(address, headers.get(proxy.header) if proxy else None)
        if vouched is not None:
            return f"proxy:{vouched}", vouched
        cookie = _cookie(headers.get("cookie", ""))
        return cookie, self._access.user_of(cookie) if cookie and proxy is None else None

    def _is_ours(self, scope: Scope, headers: Headers, identity: str) -> bool:
        origin = headers.get("origin")
        if origin is None or urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            return False
        if scope["path"] == "/login":  # nobody is known yet; the password decides
            return True
        return headers.get(FORM_TOKEN, "") == self._access.form_token(identity)

    def _stranger(self, scope: Scope, headers: Headers) -> Response:
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and token and self._access.redeem(token):
            response = RedirectResponse(scope["path"], 303)
            sign_in(response, self._access)
            return response
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", 303)
        return JSONResponse({"error": "You are not signed in."}, 401)


def sign_in(response: Response, access: Access) -> None:
    """Let the browser be known from now on."""
    response.set_cookie(
        COOKIE,
        access.session(),
        max_age=SESSION,
        httponly=True,
        samesite="strict",
        secure=access.is_encrypted,
    )


def _cookie(header: str) -> str:
    try:
        found = http.cookies.SimpleCookie(header).get(COOKIE)
    except http.cookies.CookieError:
        return ""
    return found.value if found else ""


def _with_headers(send: Send, keeping: str) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", keeping)
        await send(message)

    return guarded


def _limited(receive: Receive, limit: int) -> Receive:
    left = limit

    async def limited() -> Any:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise TooLargeError
        return message

    return limited
