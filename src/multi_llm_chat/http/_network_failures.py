"""Turns network failures into ``ConnectionFailed`` errors whose texts contain no secret.

Rules:
1. The texts are ours. The text of a library's exception is not repeated, because it may quote a header.
2. ``code`` is a key of the table of texts; ``closed`` means that this program closed the connection.
"""

import socket
import ssl
from urllib.parse import urlsplit

from multi_llm_chat.errors import ConnectionFailed

_WORDS = {
    "unknown_host": "The name {host} is not known. Check the address and the network.",
    "refused": "{host} refuses the connection. Check the address and that the server runs.",
    "certificate": (
        "The certificate of {host} is not trusted. Behind an inspecting proxy, name its "
        "certificates in SSL_CERT_FILE."
    ),
    "tls": "No secure connection to {host} could be made. Check the address and the proxy.",
    "timeout": "{host} did not answer in time. Try again, or allow more time.",
    "unreachable": "{host} could not be reached in time. Check the address and the network.",
    "lost": "The connection to {host} was lost. Try again.",
    "proxy": "The proxy on the way to {host} refused. Check the proxy settings.",
    "closed": "The reply of {host} was stopped here.",
}


class Closed(ConnectionAbortedError):
    """The transport was closed while a reply was being read."""


class NotReached(TimeoutError):
    """No connection could be made in time."""


class ProxyRefused(ConnectionError):
    """The proxy refused the connection to the server."""


_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (Closed, "closed"),
    (socket.gaierror, "unknown_host"),
    (ssl.SSLCertVerificationError, "certificate"),
    (ssl.SSLError, "tls"),
    (ProxyRefused, "proxy"),
    (NotReached, "unreachable"),
    (TimeoutError, "timeout"),
    (ConnectionRefusedError, "refused"),
)


def connection_failed(
    error: BaseException | str, url: str, *, before_first_byte: bool
) -> ConnectionFailed:
    """The ``ConnectionFailed`` for a library's exception, or for the code of a failure."""
    code = error if isinstance(error, str) else _code(error)
    host = urlsplit(url).netloc.rpartition("@")[2]
    return ConnectionFailed(
        _WORDS[code].format(host=host), before_first_byte=before_first_byte, code=code
    )


def _code(error: BaseException) -> str:
    return next((code for kind, code in _KINDS if isinstance(error, kind)), "lost")
