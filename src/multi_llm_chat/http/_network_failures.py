"""What went wrong on the network, in words that contain no secret.

Rules:
1. The words are ours. The text of a library's exception is not repeated, for it may quote a header.
2. ``code`` is a key of the table of words; ``closed`` is our own doing, all others are not.
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
    """What a reader gets whose transport was closed under it."""


class NotReached(TimeoutError):
    """No connection could be made in time."""


class ProxyRefused(ConnectionError):
    """The proxy does not connect."""


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
    """Our error for a library's, or for a failure already named by its code."""
    code = error if isinstance(error, str) else _code(error)
    host = urlsplit(url).netloc.rpartition("@")[2]
    return ConnectionFailed(
        _WORDS[code].format(host=host), before_first_byte=before_first_byte, code=code
    )


def _code(error: BaseException) -> str:
    return next((code for kind, code in _KINDS if isinstance(error, kind)), "lost")
