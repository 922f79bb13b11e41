"""Settings of the network: time limits, pools, proxies and certificates.

Rules:
1. The environment is read once, by ``settings_from``; afterwards these are values.
2. Lower-case variables win over upper-case ones, as in curl. ``HTTP_PROXY`` in capitals is not
   read if ``REQUEST_METHOD`` is set: in a CGI program a web client could have sent it as a header.
3. ``no_proxy`` is a list of hosts: a name includes its subdomains, a leading dot or ``*.`` is ignored,
   a port restricts the entry to that port, an address may be a network (``10.0.0.0/8``), ``*`` means all hosts.
4. ``REQUESTS_CA_BUNDLE`` wins over ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``; without any of them
   the system's certificates are used.
5. No repr shows a proxy's credentials.
6. A proxy is reached over plain HTTP (HTTPS through it is still encrypted end to end);
   a proxy of another kind is an error, never ignored.
"""

import base64
import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

from multi_llm_chat.errors import UsageError

if TYPE_CHECKING:
    import ssl

DEFAULT_PORTS = {"http": 80, "https": 443}


class PoolKey(NamedTuple):
    """The target of a connection; connections with the same key are interchangeable."""

    scheme: str
    host: str
    port: int
    proxy: str | None


class Timeouts(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits in seconds; ``None`` for none.

    ``connect`` limits opening the connection, ``first_event`` the time to the first event of a streamed reply (keep-alive
    comments do not count), ``read`` the silence between two pieces of a reply and before a reply that is not
    streamed, ``total`` one whole request. A request that exceeds a limit is not retried.
    """

    connect: float | None = 15.0
    first_event: float | None = 120.0
    read: float | None = 300.0
    total: float | None = 1800.0


class TransportSettings(Struct, frozen=True):
    """The settings of a transport."""

    timeouts: Timeouts = Timeouts()
    connections_per_host: int = 1024
    idle_seconds: float = 30.0
    http_proxy: str | None = None
    https_proxy: str | None = None
    no_proxy: tuple[str, ...] = ()
    ca_file: str | None = None
    ca_directory: str | None = None

    def __repr__(self) -> str:
        return f"TransportSettings({self.timeouts}, {self.connections_per_host} a host)"

    def proxy_for(self, url: str) -> str | None:
        """The address of the proxy for this request, if it needs one."""
        proxy = self.https_proxy if url.startswith("https:") else self.http_proxy
        if not proxy:
            return None
        parts = urlsplit(url)
        if any(_covers(entry, parts) for entry in self.no_proxy):
            return None
        scheme, separator, _ = proxy.partition("://")
        if not separator:
            return f"http://{proxy}"
        if scheme.lower() != "http":
            raise UsageError(
                f"Proxies are spoken to as http://host:port, not {scheme}://. Name such a proxy in "
                "HTTPS_PROXY and HTTP_PROXY, or except this host by NO_PROXY"
            )
        return proxy


def settings_from(
    environment: Mapping[str, str],
    *,
    timeouts: Timeouts | None = None,
    connections_per_host: int | None = None,
) -> TransportSettings:
    """The settings from the environment variables."""

    def first_set(*names: str) -> str | None:
        return next((environment[name] for name in names if environment.get(name)), None)

    plain = ("http_proxy",) if "REQUEST_METHOD" in environment else ("http_proxy", "HTTP_PROXY")
    excluded = first_set("no_proxy", "NO_PROXY") or ""
    bundle = first_set("REQUESTS_CA_BUNDLE")
    defaults = TransportSettings()
    return TransportSettings(
        timeouts=timeouts or defaults.timeouts,
        connections_per_host=connections_per_host or defaults.connections_per_host,
        http_proxy=first_set(*plain, "all_proxy", "ALL_PROXY"),
        https_proxy=first_set("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
        no_proxy=tuple(entry.strip() for entry in excluded.split(",") if entry.strip()),
        ca_file=bundle or first_set("SSL_CERT_FILE"),
        ca_directory=None if bundle else first_set("SSL_CERT_DIR"),
    )


def _covers(entry: str, url: SplitResult) -> bool:
    if entry == "*":
        return True
    host = (url.hostname or "").lower()
    network = _network(entry)
    if network is not None:
        address = _address(host)
        return address is not None and address in network
    name, _, port = entry.lower().rpartition(":") if _has_port(entry) else (entry.lower(), "", "")
    if port and int(port) != (url.port or DEFAULT_PORTS.get(url.scheme)):
        return False
    name = name.removeprefix("*").removeprefix(".").strip("[]")
    return host == name or host.endswith(f".{name}")


def _has_port(entry: str) -> bool:
    name, colon, port = entry.rpartition(":")
    return bool(colon) and port.isdecimal() and (":" not in name or name.endswith("]"))


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def proxy_address(proxy: str) -> tuple[str, int]:
    """The host and port of a proxy."""
    parts = urlsplit(proxy)
    return parts.hostname or "", parts.port or DEFAULT_PORTS["http"]


def proxy_headers(proxy: str) -> dict[str, str]:
    """The ``Proxy-Authorization`` header with the name and password in the proxy's address, if there are any."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}"}


@lru_cache(maxsize=8)  # reading the system's certificates takes longer than a request
def tls_context(ca_file: str | None, ca_directory: str | None) -> "ssl.SSLContext":
    """The context for connections that trust these certificates, the system's if none are named."""
    import ssl  # noqa: PLC0415  takes long to load; these settings load with the package

    try:
        return ssl.create_default_context(cafile=ca_file, capath=ca_directory)
    except OSError as error:
        named = " or ".join(path for path in (ca_file, ca_directory) if path)
        raise UsageError(
            f"The certificates in {named} cannot be read ({error.strerror or error}); "
            "check REQUESTS_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR"
        ) from None
