"""A waiting time that is told as a date becomes seconds: only here is there a clock."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def with_seconds(headers: Mapping[str, str], now: float) -> Mapping[str, str]:
    """The headers of a reply (lower-case names), with ``retry-after`` in seconds.

    Args:
        headers: The headers; they are returned as they are if there is no date in them.
        now: The time as seconds since 1970.
    """
    told = headers.get("retry-after")
    if told is None or told.strip()[:1].isdecimal():
        return headers
    try:
        moment = parsedate_to_datetime(told).timestamp()
    except ValueError:
        return headers
    return {**headers, "retry-after": f"{max(0.0, moment - now):.3f}"}
