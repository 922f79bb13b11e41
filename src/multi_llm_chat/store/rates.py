"""The rate limit of one provider key, shared by all processes.

Rules:
1. A token bucket: one row for each key, on the database's clock. Requests and tokens flow in evenly, up to the burst.
2. In any period, at most the inflow of that period plus one burst is admitted.
3. Tokens are charged by an estimate before the request, and corrected when the provider has reported them.
4. A provider that answers "later" closes its key for all processes until then.
5. After a lost connection, a charge may count twice: too much, never too little.
"""

from msgspec import Struct

from multi_llm_chat.history.json_values import clean_text
from multi_llm_chat.store.transaction import Transaction

_MINUTE_MS = 60_000.0


class RateLimit(Struct, frozen=True):
    """The limits per minute; None for no limit. ``burst`` is how many seconds' worth may be requested at once."""

    requests: float | None = None
    tokens: float | None = None
    burst: float = 10.0

    @property
    def most_requests(self) -> float:
        """The burst of requests: at least one, since otherwise none would ever pass."""
        return max(1.0, (self.requests or 0.0) * self.burst / 60)

    @property
    def most_tokens(self) -> float:
        """The burst of tokens."""
        return max(1.0, (self.tokens or 0.0) * self.burst / 60)


def admit(transaction: Transaction, key: str, limit: RateLimit, tokens: int) -> int:
    """Charge one request of about this many tokens; return 0 if it may be sent, else the milliseconds to wait before the next call."""
    key = clean_text(key)
    transaction.rows(
        f"INSERT INTO rates(key, requests, tokens, counted_ms, closed_until_ms) VALUES (?, ?, ?, {transaction.clock}, 0)"  # noqa: S608 the database's clock
        " ON CONFLICT DO NOTHING",
        key, limit.most_requests, limit.most_tokens,
    )  # fmt: skip
    ((requests, left, counted_ms, closed_ms, now),) = transaction.rows(
        f"SELECT requests, tokens, counted_ms, closed_until_ms, {transaction.clock} FROM rates WHERE key = ?{transaction.lock}",  # noqa: S608 the database's own words
        key,
    )
    passed = max(0, now - counted_ms)  # a clock that goes back adds nothing
    requests = _flowed(requests, passed, limit.requests, limit.most_requests)
    left = _flowed(left, passed, limit.tokens, limit.most_tokens)
    # A request for more than a whole burst waits for a full bucket and leaves a debt.
    wanted = min(float(tokens), limit.most_tokens)
    wait = max(
        closed_ms - now,
        _wait(1.0 - requests, limit.requests),
        _wait(wanted - left, limit.tokens),
    )
    if wait > 0:
        return int(wait) + 1
    transaction.rows(
        "UPDATE rates SET requests = ?, tokens = ?, counted_ms = ? WHERE key = ?",
        requests - 1, left - tokens, max(now, counted_ms), key,
    )  # fmt: skip
    return 0


def settle(transaction: Transaction, key: str, tokens: int) -> None:
    """Correct the charged tokens by the difference to the estimate."""
    transaction.rows("UPDATE rates SET tokens = tokens - ? WHERE key = ?", tokens, clean_text(key))


def close_rate(transaction: Transaction, key: str, wait_ms: int) -> None:
    """Close the key: the provider accepts no requests for this time."""
    until = f"{transaction.clock} + ?"
    transaction.rows(
        f"UPDATE rates SET closed_until_ms = {until} WHERE key = ? AND closed_until_ms < {until}",  # noqa: S608 the database's clock
        wait_ms, clean_text(key), wait_ms,
    )  # fmt: skip


def _flowed(level: float, passed: int, rate: float | None, most: float) -> float:
    return most if rate is None else min(most, level + passed * rate / _MINUTE_MS)


def _wait(missing: float, rate: float | None) -> float:
    return 0.0 if rate is None or missing <= 0 else missing * _MINUTE_MS / rate
