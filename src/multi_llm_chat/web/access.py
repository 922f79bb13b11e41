"""Who may sign in, and what each user may do.

Rules:
1. On the loopback interface a browser signs in with the link that the terminal prints. A link works once, in one browser.
2. On other interfaces a browser signs in with the password, or the configured proxy names the user in a header. The header is
   ignored unless the request comes from the proxy's address.
3. A session is a signed cookie with an id. The valid ids are stored next to the secret: signing out ends a session, and a new secret ends
   all of them.
4. After some wrong passwords the next attempt from the same place has to wait, longer each time. The place is the device, if it was signed
   in before (a signed cookie proves it), else the network address: so guesses delay only the place they come from, not the owner. From one
   place one password is checked at a time. Above ``MANY_WRONG`` wrong passwords from all places, places that are not known devices wait a
   second more.
5. Signatures and tokens are compared in constant time; hashing a password happens in a thread.
6. Metrics are open to programs on this machine; others need the token. A request that a proxy has forwarded does not count as
   coming from this machine.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from multi_llm_chat.config.secrets import MemorySecrets, SecretStore
from multi_llm_chat.errors import UsageError
from multi_llm_chat.store import LOCAL_USER

#: How long a browser stays signed in.
SESSION_SECONDS: Final = 30 * 24 * 3600

#: How long a browser is a known device after it has signed in.
DEVICE_SECONDS: Final = 365 * 24 * 3600

#: From this many wrong passwords on the next attempt has to wait; and the longest wait, in seconds.
WRONG_BEFORE_DELAY: Final = 4
LONGEST_WAIT: Final = 60.0

#: Wrong passwords from all places after which unknown devices wait; the most places that are remembered; the most sessions of all users.
MANY_WRONG: Final = 100
MOST_PLACES: Final = 10_000
MOST_SESSIONS: Final = 1_000

#: Headers that proxies add to requests they forward.
_FORWARDING_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

_SECRET: Final = "session-secret"  # noqa: S105  a name, not a secret
_PASSWORD: Final = "password-hash"  # noqa: S105  a name, not a secret
_SESSIONS: Final = "sessions"
#: For how many seconds sessions that were read are cached.
_FRESH_SECONDS: Final = 5.0


class Proxy(Struct, frozen=True):
    """A proxy that authenticates users: the header that names them, and the addresses it connects from."""

    header: str
    addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    admins: tuple[str, ...] = ()


#: The marks of browsers and systems in the ``User-Agent`` header, in this order, because each browser imitates the later ones.
_NAMES: Final = (
    (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrom", "Chrome"), ("Safari", "Safari")),
    (("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"), ("Mac OS", "macOS"), ("Linux", "Linux")),
)  # fmt: skip


class SignedInBrowser(Struct, frozen=True):
    """A browser that is signed in: since when and until when (seconds since 1970), and its ``User-Agent``."""

    id: str
    user: str
    began: float
    ends: float
    browser: str = ""

    @property
    def name(self) -> str:
        """The ``User-Agent`` in short: ``Firefox, Linux``; in full if no mark is known."""
        words = [
            next((name for mark, name in marks if mark in self.browser), "") for marks in _NAMES
        ]
        return ", ".join(filter(None, words)) or self.browser


class _Tries(Struct):
    """The wrong passwords of one place."""

    wrong: int = 0
    locked_until: float = 0.0
    is_checking: bool = False


class AccessPolicy:
    """Signs users in and checks their permissions.

    Args:
        secret: Signs sessions.
        password_hash: The argon2 hash of the password, if there is one.
        proxy: The proxy that authenticates users, if there is one.
        hosts: Host names of this server, in addition to ``localhost`` and IP addresses.
        is_encrypted: Whether browsers use https.
        metrics_token: Lets programs on other machines read the metrics.
        sessions: Where the sessions are kept; in memory when not given.
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
        sessions: SecretStore | None = None,
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
        self._kept: SecretStore = sessions or MemorySecrets()
        self._sessions = self._read_sessions()
        self._tries: dict[str, _Tries] = {}
        self._wrong_passwords = 0

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

    def new_session(self, user: str = LOCAL_USER, browser: str = "") -> str:
        """The value of a session cookie for a user."""
        now = self._clock()
        session = SignedInBrowser(
            secrets.token_hex(8), user, now, now + SESSION_SECONDS, browser[:200]
        )
        living = [each for each in self._read_sessions().values() if each.ends > now]
        newest = sorted(living, key=lambda each: each.began)[-(MOST_SESSIONS - 1) :]
        self._write_sessions({each.id: each for each in (*newest, session)})
        encoded_user = base64.urlsafe_b64encode(user.encode()).decode()
        payload = f"{encoded_user}.{int(session.ends)}.{session.id}"
        return f"{payload}.{self._sign('session', payload)}"

    def user_of(self, cookie: str) -> str | None:
        """The user of a session; None if it is invalid, has expired or was ended."""
        payload, _, signature = cookie.rpartition(".")
        if not is_same(signature, self._sign("session", payload)):
            return None
        try:
            encoded_user, expires, identifier = payload.split(".")
            user = base64.urlsafe_b64decode(encoded_user).decode()
        except (ValueError, binascii.Error):
            return None
        # Another server with the same folder may have created or ended the session.
        if identifier not in self._sessions or self._clock() - self._read_at > _FRESH_SECONDS:
            self._sessions = self._read_sessions()
        is_open = identifier in self._sessions and int(expires) > self._clock()
        return user if is_open else None

    def sessions_of(self, user: str) -> list[SignedInBrowser]:
        """The browsers in which a user is signed in, the newest first."""
        self._sessions = self._read_sessions()
        found = [
            each
            for each in self._sessions.values()
            if each.user == user and each.ends > self._clock()
        ]
        return sorted(found, key=lambda each: each.began, reverse=True)

    def end_session(self, user: str, identifier: str) -> bool:
        """End a session of a user; return whether there was one."""
        kept = self._read_sessions()
        found = kept.get(identifier)
        if found is None or found.user != user:
            return False
        del kept[identifier]
        self._write_sessions(kept)
        return True

    def session_id(self, cookie: str) -> str:
        """The id in a valid session cookie; empty for any other text."""
        return "" if self.user_of(cookie) is None else cookie.split(".")[2]

    def _read_sessions(self) -> dict[str, SignedInBrowser]:
        self._read_at = self._clock()
        try:
            listed = msgspec.json.decode(
                self._kept.read(_SESSIONS) or "[]", type=list[SignedInBrowser]
            )
        except msgspec.DecodeError:
            return {}
        return {each.id: each for each in listed}

    def _write_sessions(self, sessions: dict[str, SignedInBrowser]) -> None:
        self._kept.write(_SESSIONS, msgspec.json.encode(list(sessions.values())).decode())
        self._sessions = sessions

    def form_token(self, identity: str) -> str:
        """The token that a page of this identity sends with every change (against CSRF)."""
        return self._sign("form", identity)

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()

    # The password.

    def new_device(self) -> str:
        """The value of a cookie for a browser that has signed in."""
        identifier = secrets.token_hex(8)
        return f"{identifier}.{self._sign('device', identifier)}"

    def place_of(self, address: str, device: str) -> str:
        """The place that a password comes from: a known device, else the network address."""
        identifier, _, signature = device.partition(".")
        if identifier and is_same(signature, self._sign("device", identifier)):
            return f"device {identifier}"
        if ":" in address and _is_address(address):  # one household has a whole IPv6 network
            return f"address {ipaddress.ip_network(f'{address}/64', strict=False)}"
        return f"address {address}"

    def wait(self, place: str) -> float:
        """Seconds until the next password from this place is checked."""
        tries = self._tries.get(place)
        if tries is None:
            return 0.0
        return 1.0 if tries.is_checking else max(0.0, tries.locked_until - self._clock())

    async def check_password(self, password: str, place: str) -> bool:
        """Whether the password is right; hashes it in a thread, which is slow on purpose."""
        if self.password_hash is None or self.wait(place):
            return False
        tries = self._tries.setdefault(place, _Tries())
        while len(self._tries) > MOST_PLACES:
            self._tries.pop(next(iter(self._tries)))
        tries.is_checking = True
        try:
            if self._wrong_passwords >= MANY_WRONG and not place.startswith("device "):
                await asyncio.sleep(1.0)
            is_right = await asyncio.to_thread(_is_password, self.password_hash, password)
        finally:
            tries.is_checking = False
        if is_right:
            self._tries.pop(place, None)
            self._wrong_passwords = 0
            return True
        tries.wrong += 1
        self._wrong_passwords += 1
        if tries.wrong >= WRONG_BEFORE_DELAY:
            delay = min(LONGEST_WAIT, 2.0 ** min(tries.wrong - WRONG_BEFORE_DELAY, 10))
            tries.locked_until = self._clock() + delay
        return False

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


def is_same(given: str, expected: str) -> bool:
    """Compare a token or signature in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())


def _is_password(password_hash: str, password: str) -> bool:
    from argon2 import PasswordHasher  # noqa: PLC0415  needed only with a password
    from argon2.exceptions import Argon2Error, InvalidHashError  # noqa: PLC0415  as above

    try:
        return PasswordHasher().verify(password_hash, password)
    except (Argon2Error, InvalidHashError):
        return False


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
