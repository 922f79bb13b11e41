"""A waiting time that is given as a date."""

import pytest

from multi_llm_chat.http.transports import with_seconds

NOON = 1794744000.0  # 15 November 2026, 12:00 UTC


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Sun, 15 Nov 2026 12:00:30 GMT", "30.000"),
        ("Sun, 15 Nov 2026 11:00:00 GMT", "0.000"),
        ("7", "7"),
        (" 1.5", " 1.5"),
        ("soon", "soon"),
        ("", ""),
    ],
)
def test_a_date_becomes_the_seconds_until_then(value: str, expected: str) -> None:
    assert with_seconds({"retry-after": value, "x": "y"}, NOON) == {
        "retry-after": expected,
        "x": "y",
    }


def test_headers_without_a_waiting_time_stay_as_they_are() -> None:
    headers = {"content-type": "text/event-stream"}
    assert with_seconds(headers, NOON) is headers
