"""Times of foreign files as milliseconds since 1970."""

from datetime import UTC, datetime


def read_ms(value: object) -> int | None:
    """Seconds or milliseconds as a number, or an ISO 8601 text; None for anything else."""
    try:
        match value:
            case bool():
                return None
            case int() | float():
                # Seconds of this era have ten digits, milliseconds thirteen.
                return round(value if abs(value) >= 1e11 else value * 1000)
            case str():
                told = datetime.fromisoformat(value)
                return round((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000)
            case _:
                return None
    except (ValueError, OverflowError):
        return None


def write_time(created_ms: object) -> str:
    """A time as people read it, in UTC; nothing where there is none."""
    moment = read_ms(created_ms)
    if moment is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""
