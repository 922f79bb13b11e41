"""Decides whether and when a failed request is retried, as a pure function.

Rules:
1. Retried: too many requests, busy or failing servers (also inside a reply that began well),
   a lost connection, a broken reply. Not retried: failures that would happen again, and a server that was
   silent or too slow, because its time limit is for the whole request, not for each attempt.
2. A request is not retried after events of its reply were emitted, unless the policy allows it.
3. A rejected request is sent again at once with the stronger repair that the caller found for it
   (``protocol._repair_ladder``).
4. A waiting time that the provider names is kept exactly; if it is longer than the policy allows, the request
   is not retried. Otherwise the wait doubles each time, and ``jitter`` (0 up to 1) spreads it over
   the upper half of that time.
5. There is no clock and no randomness: the caller passes both as values.
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.errors import (
    BadRequest,
    ConnectionFailed,
    MultiLLMChatError,
    Overloaded,
    ProviderError,
    RateLimited,
    Refused,
    StreamBroken,
)
from multi_llm_chat.repair.policy import RepairPolicy


class RetryPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """How often and how long a request is retried.

    ``attempts`` is the number of requests in all, 1 for no retry. ``after_first_byte`` retries even after
    part of a reply was emitted; the events then start from the beginning. ``repair`` allows stronger
    repairs, which are not counted as attempts.
    """

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 60.0
    after_first_byte: bool = False
    repair: bool = True


#: No retries and no stronger repairs.
ONCE = RetryPolicy(attempts=1, repair=False)


class Wait(Struct, frozen=True):
    """Retry after this many seconds."""

    seconds: float


class RepairAndRetry(Struct, frozen=True):
    """Send the request again at once, with the stronger repair of this name."""

    key: str


class GiveUp(Struct, frozen=True):
    """Do not retry, for this reason."""

    reason: str


Decision: TypeAlias = Wait | RepairAndRetry | GiveUp

#: Failures that may not happen again.
_PASSING = (RateLimited, Overloaded, ConnectionFailed, StreamBroken)

#: Codes of connection failures that a retry cannot fix: wrong settings, closed by this program, or a limit of time or size.
_LASTING = frozenset({"certificate", "proxy", "closed", "too_large", "timeout"})


def decide(
    attempt: int,
    failure: ProviderError,
    *,
    policy: RetryPolicy,
    streamed: bool,
    jitter: float = 0.5,
    repair: str | None = None,
    repaired: bool = False,
) -> Decision:
    """Decide what follows a failure.

    Args:
        attempt: The number of the attempt that failed, from 1.
        failure: The error of the attempt.
        policy: The retry policy.
        streamed: Whether events of this reply were emitted.
        jitter: A number from 0 up to 1, a new one for each decision.
        repair: The stronger repair that is left to try, if any.
        repaired: Whether a stronger repair has been tried.
    """
    if streamed and not policy.after_first_byte:
        return GiveUp("part of the reply was emitted already")
    if repair is not None and policy.repair:
        return RepairAndRetry(repair)
    if not isinstance(failure, _PASSING) or failure.code in _LASTING:
        rejected = isinstance(failure, BadRequest)
        return GiveUp(_rejected(repair, repaired) if rejected else _useless(failure))
    if attempt >= policy.attempts:
        return GiveUp(f"asked {attempt} times" if attempt > 1 else "no retry was wanted")
    wanted = failure.retry_after
    if wanted is not None and wanted > policy.longest_wait:
        return GiveUp(f"the provider asks to wait {wanted:g} seconds")
    return Wait(_backoff(attempt, policy, jitter) if wanted is None else wanted)


def _useless(failure: ProviderError) -> str:
    if failure.code == "timeout":
        return "the time for an answer is used up"
    return "asking again would not help"


def _rejected(repair: str | None, repaired: bool) -> str:
    if repair is not None:
        return "no repair was wanted"
    if repaired:
        return "the stronger repair was rejected too"
    return "the request was rejected for an unknown reason"


def _backoff(attempt: int, policy: RetryPolicy, jitter: float) -> float:
    # The exponent is bounded: a large one would not fit into a float.
    full = min(policy.first_wait * 2 ** min(attempt - 1, 60), policy.longest_wait)
    return full * (0.5 + jitter / 2)


def hands_over(failure: MultiLLMChatError, *, streamed: bool) -> bool:
    """Return whether the next provider of a fallback chain is asked after this failure.

    Not after a model's refusal, which is an answer; not after a stop, which the caller wanted; and not after the
    caller's own mistake, which every provider would refuse.
    """
    if streamed or not isinstance(failure, ProviderError) or isinstance(failure, Refused):
        return False
    return failure.code != "closed"


def handed_over(
    policy: RepairPolicy | None, way: Literal["adopt", "label", "drop"] = "adopt"
) -> RepairPolicy:
    """The repair policy with which the next provider of a fallback chain reads the history."""
    wanted = policy or RepairPolicy()
    return replace(wanted, foreign=way)
