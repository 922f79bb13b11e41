"""Ids of conversations and turns in addresses.

Rules:
1. Every id has an address of one segment that browsers and proxies leave alone, and every address names one id.
2. Ids of letters, digits, ``.``, ``_`` and ``-`` stand there as they are; the others, as those with a ``/``, behind a ``~``.
"""

import base64
import binascii
import re
from typing import Final
from urllib.parse import quote

_PLAIN: Final = re.compile(r"\w[\w.-]*")
_MARK: Final = "~"


def address_of(identifier: str) -> str:
    """The segment of an address that names the id."""
    if _PLAIN.fullmatch(identifier):
        return quote(identifier)
    return _MARK + base64.urlsafe_b64encode(identifier.encode()).decode().rstrip("=")


def id_of(segment: str) -> str:
    """The id that a segment names, the segment's percent signs being read already."""
    if not segment.startswith(_MARK):
        return segment
    encoded = segment.removeprefix(_MARK)
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return segment
