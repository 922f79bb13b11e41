"""Whether and when to ask again, decided about values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multi_llm_chat.errors import (
    AuthError,
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    StreamBroken,
    UsageError,
)
from multi_llm_chat.protocol._failures import read_failure
from multi_llm_chat.protocol.retry import (
    ONCE,
    GiveUp,
    RepairAndRetry,
    RetryPolicy,
    Wait,
    decide,
    handed_over,
    hands_over,
)
from multi_llm_chat.repair.policy import RepairPolicy

PATIENT = RetryPolicy(attempts=10, first_wait=1.0, longest_wait=60.0)
LOST = ConnectionFailed("lost", before_first_byte=True, code="lost")
PASSING = [RateLimited("r"), Overloaded("o"), LOST, StreamBroken("s")]


@pytest.mark.parametrize("failure", PASSING, ids=lambda failure: type(failure).__name__)
def test_what_may_pass_is_asked_again(failure: ProviderError) -> None:
    assert isinstance(decide(1, failure, policy=PATIENT, streamed=False), Wait)


@pytest.mark.parametrize(
    "failure", [AuthError("a"), ContextTooLong("c"), Refused("r"), BadRequest("b"), ProviderError("?")]
)  # fmt: skip
def test_what_would_fail_the_same_way_is_not_asked_again(failure: ProviderError) -> None:
    assert isinstance(decide(1, failure, policy=PATIENT, streamed=False), GiveUp)


@pytest.mark.parametrize("failure", [*PASSING, BadRequest("b", repair="resend")])
def test_nothing_is_asked_again_after_the_first_byte_unless_wanted(failure: ProviderError) -> None:
    assert isinstance(decide(1, failure, policy=PATIENT, streamed=True), GiveUp)
    wanted = RetryPolicy(after_first_byte=True)
    decision = decide(1, failure, policy=wanted, streamed=True, repair=failure.repair)
    assert not isinstance(decision, GiveUp)


@pytest.mark.parametrize("code", ["certificate", "proxy", "closed"])
def test_a_loss_that_is_no_accident_is_not_asked_again(code: str) -> None:
    lost = ConnectionFailed("x", before_first_byte=True, code=code)
    assert isinstance(decide(1, lost, policy=PATIENT, streamed=False), GiveUp)


def test_a_stated_waiting_time_is_kept_to_the_letter() -> None:
    failure = RateLimited("slow down", retry_after=12.5)
    assert decide(3, failure, policy=PATIENT, streamed=False, jitter=0.9) == Wait(12.5)


def test_a_stated_waiting_time_that_is_too_long_is_the_end() -> None:
    decision = decide(1, RateLimited("tomorrow", retry_after=86400), policy=PATIENT, streamed=False)
    assert decision == GiveUp("the provider asks to wait 86400 seconds")


def test_the_wait_doubles_and_is_capped() -> None:
    def seconds(attempt: int, jitter: float) -> float:
        policy = RetryPolicy(attempts=10**6, first_wait=1.0, longest_wait=60.0)
        decision = decide(attempt, LOST, policy=policy, streamed=False, jitter=jitter)
        assert isinstance(decision, Wait)
        return decision.seconds

    assert [seconds(attempt, 0.999999) for attempt in (1, 2, 3)] == pytest.approx([1, 2, 4], 1e-3)
    assert [seconds(attempt, 0.0) for attempt in (1, 2, 3)] == [0.5, 1, 2]
    assert seconds(9, 0.0) == 30
    assert seconds(100_000, 0.0) == 30


@given(st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_no_wait_is_longer_than_allowed(attempt: int, jitter: float) -> None:
    policy = RetryPolicy(attempts=10**9 + 1)
    decision = decide(attempt, Overloaded("o"), policy=policy, streamed=False, jitter=jitter)
    assert isinstance(decision, Wait)
    assert 0 < decision.seconds <= policy.longest_wait


def test_attempts_are_counted() -> None:
    policy = RetryPolicy(attempts=3)
    decisions = [decide(number, LOST, policy=policy, streamed=False) for number in (1, 2, 3)]
    assert [isinstance(decision, Wait) for decision in decisions] == [True, True, False]
    assert decisions[2] == GiveUp("asked 3 times")
    assert decide(1, LOST, policy=ONCE, streamed=False) == GiveUp("no retry was wanted")


def test_a_rejection_is_repaired_while_a_repair_is_left() -> None:
    rejected = BadRequest("Invalid `signature` in `thinking` block", repair="drop_thinking")
    patient = RetryPolicy(attempts=1)
    first = decide(1, rejected, policy=patient, streamed=False, repair="drop_thinking")
    assert first == RepairAndRetry("drop_thinking")
    last = decide(1, rejected, policy=PATIENT, streamed=False, repaired=True)
    assert last == GiveUp("the stronger repair was rejected too")
    unknown = decide(1, rejected, policy=PATIENT, streamed=False)
    assert unknown == GiveUp("the request was rejected for an unknown reason")
    once = decide(1, rejected, policy=ONCE, streamed=False, repair="drop_thinking")
    assert once == GiveUp("no repair was wanted")


def test_llamacpps_permanent_500_is_repaired_and_never_waited_for() -> None:
    body = b'{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: x","type":"server_error"}}'
    failure = read_failure(500, {}, body, provider="llamacpp")
    assert isinstance(failure, BadRequest)
    assert failure.repair == "flatten_tools"
    again = decide(2, failure, policy=PATIENT, streamed=False, repaired=True)
    assert isinstance(again, GiveUp)


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "7"}, b"{}", 7.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, b"{}", 0.25),
        ({}, b'{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.5s"}]}}', 3.5),
    ],
)  # fmt: skip
def test_every_way_of_telling_a_waiting_time_is_understood(
    headers: dict[str, str], body: bytes, seconds: float
) -> None:
    failure = read_failure(429, headers, body, provider="gemini")
    assert decide(1, failure, policy=PATIENT, streamed=False) == Wait(seconds)


def test_a_chain_goes_on_after_a_providers_failure_only() -> None:
    assert hands_over(AuthError("a"), streamed=False)
    assert hands_over(ContextTooLong("c"), streamed=False)
    assert not hands_over(Overloaded("o"), streamed=True)
    assert not hands_over(Refused("r"), streamed=False)
    assert not hands_over(UsageError("u"), streamed=False)
    stopped = ConnectionFailed("s", before_first_byte=True, code="closed")
    assert not hands_over(stopped, streamed=False)


def test_a_history_that_is_handed_over_keeps_the_rest_of_its_policy() -> None:
    own = RepairPolicy(unanswered="drop", orphans="drop", foreign="label")
    assert handed_over(own) == RepairPolicy("drop", "drop", "adopt")
    assert handed_over(None, "label") == RepairPolicy()
