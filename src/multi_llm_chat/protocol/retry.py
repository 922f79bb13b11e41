"""Whether and when to ask again, as a decision about values.

Rules:
1. Asked again: too many requests, busy or broken servers (also inside a reply that began well),
   a lost connection, a broken reply. Not asked again: everything that would fail the same way, and a server that was
   silent or too slow: its time limit is for the request, not for each attempt.
2. Once events of a reply were emitted it is not requested again, unless the policy says so.
3. A rejected request is sent once more at once with the stronger repair that the caller found for it
   (``protocol._repair_ladder``).
4. A provider's own waiting time is kept to the letter; one longer than the policy allows means
   giving up. Otherwise the wait doubles each time, and ``jitter`` (0 up to 1) spreads it over
   the upper half of that time.
5. No clock and no randomness: both come in as values.
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
    """How patient to be.

    ``attempts`` are requests in all, 1 for no retry. ``after_first_byte`` asks again even when
    part of a reply was emitted; its events then begin anew. ``repair`` allows stronger
    repairs, which are not counted as attempts.
    """

    attempts: int = 4
    first_wait: float = 0.5
    longest_wait: float = 60.0
    after_first_byte: bool = False
    repair: bool = True


#: Ask once, take what comes.
ONCE = RetryPolicy(attempts=1, repair=False)


class Wait(Struct, frozen=True):
    """Ask again after so many seconds."""

    seconds: float


class RepairAndRetry(Struct, frozen=True):
    """Ask again at once, with the stronger repair of this name."""

    key: str


class GiveUp(Struct, frozen=True):
    """Do not ask again, and why."""

    reason: str


Decision: TypeAlias = Wait | RepairAndRetry | GiveUp

#: What may be different the next time.
_PASSING = (RateLimited, Overloaded, ConnectionFailed, StreamBroken)

#: Losses of a connection that are no accident: wrong settings, our own doing, or a limit of time or size.
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
        failure: What went wrong.
        policy: How patient to be.
        streamed: Whether events of this reply were emitted.
        jitter: A number from 0 up to 1, another one for each decision.
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
    """Return whether the next provider of a chain is asked after this failure of the one before.

    A refusal is an answer, a stop is a wish, and the caller's own mistake is the same everywhere.
    """
    if streamed or not isinstance(failure, ProviderError) or isinstance(failure, Refused):
        return False
    return failure.code != "closed"


def handed_over(
    policy: RepairPolicy | None, way: Literal["adopt", "label", "drop"] = "adopt"
) -> RepairPolicy:
    """How the next provider of a chain reads the history that it takes over."""
    wanted = policy or RepairPolicy()
    return replace(wanted, foreign=way)
