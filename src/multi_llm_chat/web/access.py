"""Who may come in.

Rules:
1. On this machine alone: whoever has the link that the terminal shows. A link opens one browser, once.
2. From elsewhere: whoever knows the password, or whom the configured proxy vouches for by a header. A header from
   anybody else is not looked at.
3. A session is a signed cookie; nothing is kept on the server, and a change of the secret ends all sessions.
4. Wrong passwords make the next try wait, longer each time.
5. Figures are told to this machine's own programs, and elsewhere to whoever has the token for them. A request that some
   proxy has passed on is from elsewhere.
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

#: How long a browser stays signed in, in seconds.
SESSION: Final = 30 * 24 * 3600

#: After how many wrong passwords one has to wait, and how long at most.
PATIENT_UNTIL: Final = 4
LONGEST_WAIT: Final = 60.0

#: What proxies add to requests that they pass on.
_PASSED_ON: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

_SECRET: Final = "session-secret"  # noqa: S105  a name, not the thing
_PASSWORD: Final = "password-hash"  # noqa: S105  a name, not the thing


class Proxy(Struct, frozen=True):
    """A proxy that knows its users: the header that names them, and the addresses it comes from."""

    header: str
    addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    admins: tuple[str, ...] = ()


class Access:
    """Decides who may come in.

    Args:
        secret: Signs sessions.
        password_hash: The argon2 hash of the password, if there is one.
        proxy: The proxy that vouches for users, if there is one.
        hosts: Names by which this server may be called, beside ``localhost`` and addresses.
        is_encrypted: Whether browsers reach it by https.
        figures_token: What programs elsewhere show to be told the figures; without it they are not.
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
        figures_token: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret
        self.password_hash = password_hash
        self.proxy = proxy
        self.is_encrypted = is_encrypted
        self._figures_token = figures_token
        self._hosts = frozenset(host.lower() for host in hosts) | {"localhost"}
        self._clock = clock
        self._links: set[str] = set()
        self._wrong = 0
        self._closed_until = 0.0

    # Links.

    def new_link(self) -> str:
        """A token that opens one browser."""
        token = secrets.token_urlsafe(24)
        self._links.add(_digest(token))
        return token

    def redeem(self, token: str) -> bool:
        """Whether the token is good; it is not any more afterwards."""
        digest = _digest(token)
        there = digest in self._links
        self._links.discard(digest)
        return there

    # Sessions.

    def session(self, user: str = LOCAL_USER) -> str:
        """A cookie's value for a user."""
        named = base64.urlsafe_b64encode(user.encode()).decode()
        told = f"{named}.{int(self._clock()) + SESSION}.{secrets.token_hex(8)}"
        return f"{told}.{self._sign('session', told)}"

    def user_of(self, cookie: str) -> str | None:
        """Whose session it is; None if it is nobody's, or over."""
        told, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("session", told).encode()):
            return None
        try:
            named, expires, _ = told.split(".")
            user = base64.urlsafe_b64decode(named).decode()
        except (ValueError, binascii.Error):
            return None
        return user if int(expires) > self._clock() else None

    def form_token(self, identity: str) -> str:
        """What a page of this identity must send with everything it asks for."""
        return self._sign("form", identity)

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()

    # The password.

    @property
    def wait(self) -> float:
        """Seconds until the next password is looked at."""
        return max(0.0, self._closed_until - self._clock())

    def check_password(self, password: str) -> bool:
        """Whether it is right; takes a moment on purpose."""
        from argon2 import PasswordHasher  # noqa: PLC0415  only who has a password needs it
        from argon2.exceptions import Argon2Error, InvalidHashError  # noqa: PLC0415  as above

        if self.password_hash is None or self.wait:
            return False
        try:
            PasswordHasher().verify(self.password_hash, password)
        except (Argon2Error, InvalidHashError):
            self._wrong += 1
            if self._wrong >= PATIENT_UNTIL:
                delay = min(LONGEST_WAIT, 2.0 ** (self._wrong - PATIENT_UNTIL))
                self._closed_until = self._clock() + delay
            return False
        self._wrong = 0
        return True

    # The request.

    def knows_host(self, host: str) -> bool:
        """Whether a request may call this server so; a foreign name may be a trick of another page's."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        name = name.strip("[]").lower().rstrip(".")
        return name in self._hosts or _is_address(name)

    def vouched(self, address: str, header: str | None) -> str | None:
        """The user whom the proxy at this address names."""
        if self.proxy is None or not header or address not in self.proxy.addresses:
            return None
        return header.strip() or None

    def tells_figures(self, address: str, headers: Mapping[str, str]) -> bool:
        """Whether whoever asks from this address may know how much is going on."""
        shown = headers.get("authorization", "").removeprefix("Bearer ")
        if self._figures_token and hmac.compare_digest(
            _digest(shown), _digest(self._figures_token)
        ):
            return True
        passed_on = self.proxy is not None or any(name in headers for name in _PASSED_ON)
        return not passed_on and is_loopback(address)

    def may_change(self, user: str) -> bool:
        """Whether the user may change settings, tools and keys, which are everybody's."""
        return self.proxy is None or user in self.proxy.admins


def read_secret(kept: SecretStore) -> bytes:
    """The secret that signs sessions; made when there is none."""
    found = kept.read(_SECRET)
    if not found:
        found = secrets.token_hex(32)
        kept.write(_SECRET, found)
    return found.encode()


def read_password(kept: SecretStore) -> str | None:
    """The hash of the password, if one was set."""
    return kept.read(_PASSWORD)


def set_password(kept: SecretStore, password: str) -> None:
    """Keep the hash of a password; all sessions end.

    Raises:
        UsageError: It is too short.
    """
    from argon2 import PasswordHasher  # noqa: PLC0415  only who has a password needs it

    if len(password) < 8:
        raise UsageError("The password needs 8 characters at least")
    kept.write(_PASSWORD, PasswordHasher().hash(password))
    kept.write(_SECRET, secrets.token_hex(32))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
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
