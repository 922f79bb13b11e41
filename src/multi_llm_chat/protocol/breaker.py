"""A circuit breaker for one endpoint, as a value.

Rules:
1. Only the endpoint's own failures count: servers that are busy or broken, lost connections.
   A rejected request or a bad key says that somebody answered.
2. ``threshold`` failures in a row open the breaker for ``pause`` seconds. Then one request may try:
   while it does (``trying``) the others still wait; its outcome closes or opens the breaker again.
3. Time is a number that the caller brings; only differences matter.
"""

from msgspec import Struct
from msgspec.structs import replace

from multi_llm_chat.errors import ConnectionFailed, Overloaded, ProviderError

_OWN_FAILURES = (Overloaded, ConnectionFailed)


class Breaker(Struct, frozen=True):
    """What is known of an endpoint's health."""

    failures: int = 0
    paused_until: float | None = None
    threshold: int = 8
    pause: float = 20.0

    def allows(self, now: float) -> bool:
        """Whether a request may be sent."""
        return self.paused_until is None or now >= self.paused_until

    def waiting_time(self, now: float) -> float:
        """The seconds until a request may be sent."""
        return 0.0 if self.paused_until is None else max(0.0, self.paused_until - now)

    def trying(self, now: float) -> "Breaker":
        """The breaker while an allowed request is on its way."""
        if self.paused_until is None:
            return self
        return replace(self, paused_until=now + self.pause)

    def after(self, outcome: ProviderError | None, now: float) -> "Breaker":
        """The breaker after an outcome: a failure, or ``None`` for an answer."""
        if not isinstance(outcome, _OWN_FAILURES):
            return replace(self, failures=0, paused_until=None)
        failures = self.failures + 1
        opened = failures >= self.threshold
        return replace(self, failures=failures, paused_until=now + self.pause if opened else None)
