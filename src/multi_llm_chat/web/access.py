"""Who may sign in, and what each user may do.

Rules:
1. On the loopback interface a browser signs in with the link that the terminal prints. A link works once, in one browser.
2. On other interfaces a browser signs in with the password, or the configured proxy names the user in a header. The header is
   ignored unless the request comes from the proxy's address.
3. A session is a signed cookie. The server stores no sessions, and a new secret ends all of them.
4. After some wrong passwords the next try has to wait, longer each time.
5. Metrics are open to programs on this machine; others need the token. A request that a proxy has forwarded does not count as
   coming from this machine.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from multi_llm_chat.config.secrets import SecretStore
from multi_llm_chat.errors import UsageError
from multi_llm_chat.store import LOCAL_USER

#: How long a browser stays signed in.
SESSION_SECONDS: Final = 30 * 24 * 3600

#: From this many wrong passwords on the next try has to wait; the longest wait, in seconds.
WRONG_BEFORE_DELAY: Final = 4
LONGEST_WAIT: Final = 60.0

#: Headers that proxies add to requests they forward.
_FORWARDING_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

_SECRET: Final = "session-secret"  # noqa: S105  a name, not a secret
_PASSWORD: Final = "password-hash"  # noqa: S105  a name, not a secret


class Proxy(Struct, frozen=True):
    """A proxy that authenticates users: the header that names them, and the addresses it connects from."""

    header: str
    addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    admins: tuple[str, ...] = ()


class AccessPolicy:
    """Signs users in and checks their permissions.

    Args:
        secret: Signs sessions.
        password_hash: The argon2 hash of the password, if there is one.
        proxy: The proxy that authenticates users, if there is one.
        hosts: Host names of this server, in addition to ``localhost`` and IP addresses.
        is_encrypted: Whether browsers use https.
        metrics_token: Lets programs on other machines read the metrics.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        secret: bytes,
        *,
        password_hash: str | None = None,
        proxy: Proxy | None = None,
        hosts: tuple[str, ...] = (),
        is_encrypted: bool = False,
        metrics_token: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret
        self.password_hash = password_hash
        self.proxy = proxy
        self.is_encrypted = is_encrypted
        self._metrics_token = metrics_token
        self._hosts = frozenset(host.lower() for host in hosts) | {"localhost"}
        self._clock = clock
        self._links: set[str] = set()
        self._wrong_passwords = 0
        self._locked_until = 0.0

    # Links.

    def new_link(self) -> str:
        """A token that signs in one browser."""
        token = secrets.token_urlsafe(24)
        self._links.add(_digest(token))
        return token

    def redeem(self, token: str) -> bool:
        """Use up a token; return whether it was valid."""
        digest = _digest(token)
        is_valid = digest in self._links
        self._links.discard(digest)
        return is_valid

    # Sessions.

    def new_session(self, user: str = LOCAL_USER) -> str:
        """The value of a session cookie for a user."""
        encoded_user = base64.urlsafe_b64encode(user.encode()).decode()
        payload = f"{encoded_user}.{int(self._clock()) + SESSION_SECONDS}.{secrets.token_hex(8)}"
        return f"{payload}.{self._sign('session', payload)}"

    def user_of(self, cookie: str) -> str | None:
        """The user of a session; None if it is invalid or has expired."""
        payload, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("session", payload).encode()):
            return None
        try:
            encoded_user, expires, _ = payload.split(".")
            user = base64.urlsafe_b64decode(encoded_user).decode()
        except (ValueError, binascii.Error):
            return None
        return user if int(expires) > self._clock() else None

    def form_token(self, identity: str) -> str:
        """The token that a page of this identity sends with every change (against CSRF)."""
        return self._sign("form", identity)

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()

    # The password.

    @property
    def wait(self) -> float:
        """Seconds until the next password is checked."""
        return max(0.0, self._locked_until - self._clock())

    def check_password(self, password: str) -> bool:
        """Whether the password is right; slow on purpose."""
        from argon2 import PasswordHasher  # noqa: PLC0415  needed only with a password
        from argon2.exceptions import Argon2Error, InvalidHashError  # noqa: PLC0415  as above

        if self.password_hash is None or self.wait:
            return False
        try:
            PasswordHasher().verify(self.password_hash, password)
        except (Argon2Error, InvalidHashError):
            self._wrong_passwords += 1
            if self._wrong_passwords >= WRONG_BEFORE_DELAY:
                delay = min(LONGEST_WAIT, 2.0 ** (self._wrong_passwords - WRONG_BEFORE_DELAY))
                self._locked_until = self._clock() + delay
            return False
        self._wrong_passwords = 0
        return True

    # The request.

    def is_known_host(self, host: str) -> bool:
        """Whether the name belongs to this server; other names are refused against DNS rebinding."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        name = name.strip("[]").lower().rstrip(".")
        return name in self._hosts or _is_address(name)

    def user_from_proxy(self, address: str, header: str | None) -> str | None:
        """The user that the proxy at this address names."""
        if self.proxy is None or not header or address not in self.proxy.addresses:
            return None
        return header.strip() or None

    def may_read_metrics(self, address: str, headers: Mapping[str, str]) -> bool:
        """Whether a request from this address may read the metrics."""
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if self._metrics_token and hmac.compare_digest(
            _digest(given), _digest(self._metrics_token)
        ):
            return True
        is_forwarded = self.proxy is not None or any(
            name in headers for name in _FORWARDING_HEADERS
        )
        return not is_forwarded and is_loopback(address)

    def is_admin(self, user: str) -> bool:
        """Whether the user may change settings, tools and keys, which all users share."""
        return self.proxy is None or user in self.proxy.admins


def read_secret(secret_store: SecretStore) -> bytes:
    """The secret that signs sessions; created if there is none."""
    found = secret_store.read(_SECRET)
    if not found:
        found = secrets.token_hex(32)
        secret_store.write(_SECRET, found)
    return found.encode()


def read_password(secret_store: SecretStore) -> str | None:
    """The hash of the password, if one was set."""
    return secret_store.read(_PASSWORD)


def set_password(secret_store: SecretStore, password: str) -> None:
    """Store the hash of a password and end all sessions.

    Raises:
        UsageError: The password is too short.
    """
    from argon2 import PasswordHasher  # noqa: PLC0415  needed only with a password

    if len(password) < 8:
        raise UsageError("The password needs at least 8 characters")
    secret_store.write(_PASSWORD, PasswordHasher().hash(password))
    secret_store.write(_SECRET, secrets.token_hex(32))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
