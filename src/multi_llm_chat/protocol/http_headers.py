"""The headers of a request.

Rules:
1. A caller's header replaces ours of the same name, whatever its case; of two the last one counts.
2. The header of the key is ours where there is a key: a caller cannot replace it.
3. What frames a message (``Content-Length``, ``Host``, …) belongs to the transport and is refused,
   as is what no header can contain. An error names the header and never shows its value.
4. A server may repeat what it was sent: ``hide`` takes keys and values out of its errors.
"""

import re
from collections.abc import Mapping
from typing import Final

from multi_llm_chat.errors import ProviderError, UsageError
from multi_llm_chat.protocol.providers import ProviderRow

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token, RFC 9110, 5.6.2
_VALUE: Final = re.compile(r"[\t -~]*")
_TRANSPORT: Final = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)  # fmt: skip
#: Shorter values are no secrets, and may be part of any word.
_SHORTEST_SECRET: Final = 6
#: Headers that a transport adds, as it spells them.
_SPELLINGS: Final = {"user-agent": "User-Agent", "accept-encoding": "Accept-Encoding"}


def read_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """A caller's headers.

    Raises:
        UsageError: One of them cannot be sent.
    """
    read: dict[str, str] = {}
    for name, value in (headers or {}).items():
        if not _NAME.fullmatch(str(name)):
            raise UsageError("The name of a header must be a word of ASCII letters, digits and -")
        if name.lower() in _TRANSPORT:
            raise UsageError(f"The header {name} is set by the HTTP client and cannot be given")
        if not _VALUE.fullmatch(str(value)):
            raise UsageError(f"The value of the header {name} must be one line of ASCII text")
        read[name] = str(value)
    return read


def request_headers(
    row: ProviderRow,
    api_key: str | None,
    extra: Mapping[str, str],
    *,
    content_type: str | None = None,
) -> dict[str, str]:
    """All headers of a request to a provider.

    Args:
        row: The provider.
        api_key: The key, if it needs one.
        extra: The caller's headers.
        content_type: What the body is, if there is one.

    Raises:
        UsageError: A header of the caller's cannot be sent.
    """
    headers = {"Content-Type": content_type} if content_type else {}
    headers |= row.headers
    if extra:
        spelled = _SPELLINGS | {name.lower(): name for name in headers}
        for name, value in read_headers(extra).items():
            headers[spelled.setdefault(name.lower(), name)] = value
    if api_key:
        for name in [name for name in headers if name.lower() == row.key_header.lower()]:
            del headers[name]
        prefix = "Bearer " if row.key_header == "Authorization" else ""
        headers[row.key_header] = f"{prefix}{api_key}"
    return headers


def hide(error: ProviderError, api_key: str | None, extra: Mapping[str, str]) -> None:
    """Take the key and the values of the caller's headers out of the text of an error."""
    text = error.message
    for secret in filter(None, (api_key, *extra.values())):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[hidden]")
    if text != error.message:
        error.message = text
        error.args = (text, *error.args[1:])
