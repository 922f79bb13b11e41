"""A ``Retry-After`` date becomes seconds here, because ``protocol`` has no clock."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def with_seconds(headers: Mapping[str, str], now: float) -> Mapping[str, str]:
    """The headers of a reply (lower-case names), with ``retry-after`` in seconds.

    Args:
        headers: The headers; they are returned as they are if there is no date in them.
        now: The time as seconds since 1970.
    """
    value = headers.get("retry-after")
    if value is None or value.strip()[:1].isdecimal():
        return headers
    try:
        moment = parsedate_to_datetime(value).timestamp()
    except ValueError:
        return headers
    return {**headers, "retry-after": f"{max(0.0, moment - now):.3f}"}
