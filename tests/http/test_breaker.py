"""The circuit breaker of an endpoint, and the endpoints of a client."""

import pytest

from multi_llm_chat.errors import BadRequest, ConnectionFailed, Overloaded, RateLimited
from multi_llm_chat.http.transports import Breaker, Health

DOWN = Overloaded("down")
LOST = ConnectionFailed("lost", before_first_byte=True)


def broken(breaker: Breaker, times: int, now: float) -> Breaker:
    for _ in range(times):
        breaker = breaker.after(DOWN, now)
    return breaker


def test_failures_in_a_row_open_it_for_a_while() -> None:
    breaker = broken(Breaker(threshold=3, pause=20), 2, now=100)
    assert breaker.allows(100)
    breaker = breaker.after(LOST, 100)
    assert not breaker.allows(119.9)
    assert breaker.waiting_time(115) == 5
    assert breaker.allows(120)


def test_an_answer_in_between_starts_the_count_again() -> None:
    breaker = broken(Breaker(threshold=3), 2, now=0).after(None, 0)
    assert broken(breaker, 2, now=0).allows(0)


@pytest.mark.parametrize("answer", [BadRequest("b"), RateLimited("r")])
def test_a_rejection_is_a_sign_of_life(answer: BadRequest | RateLimited) -> None:
    breaker = broken(Breaker(threshold=3), 2, now=0).after(answer, 0)
    assert breaker == Breaker(threshold=3)


def test_after_the_pause_one_request_tries_and_decides() -> None:
    opened = broken(Breaker(threshold=3, pause=20), 3, now=0)
    trying = opened.trying(20)
    assert not trying.allows(21)
    assert trying.after(None, 25).allows(25)
    assert not trying.after(DOWN, 25).allows(44)
    assert Breaker().trying(5) == Breaker()


def test_each_endpoint_has_its_own_health() -> None:
    health = Health(Breaker(threshold=2, pause=20))
    for _ in range(2):
        health.admit("https://one.example/v1", 0)
        health.record("https://one.example/v1", DOWN, 0)
    health.admit("https://two.example/v1", 0)
    with pytest.raises(Overloaded, match=r"one\.example has failed 2 times") as raised:
        health.admit("https://one.example/other", 5)
    assert raised.value.retry_after == 15
    health.admit("https://one.example/v1", 20)
    with pytest.raises(Overloaded):
        health.admit("https://one.example/v1", 21)
    health.record("https://one.example/v1", None, 22)
    health.admit("https://one.example/v1", 22)
