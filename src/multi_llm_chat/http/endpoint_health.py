"""The circuit breakers of one client, by endpoint."""

from urllib.parse import urlsplit

from multi_llm_chat.errors import Overloaded, ProviderError
from multi_llm_chat.protocol.breaker import Breaker


class Health:
    """Remembers which endpoints fail; a reading and a writing of one value at a time, so threads may share it."""

    def __init__(self, first: Breaker | None = None) -> None:
        self._first = first or Breaker()
        self._breakers: dict[str, Breaker] = {}

    def admit(self, url: str, now: float) -> None:
        """Let a request pass.

        Raises:
            Overloaded: The endpoint has failed too often and is left alone for a while.
        """
        if not self._breakers:
            return
        place = urlsplit(url).netloc
        breaker = self._breakers.get(place, self._first)
        if not breaker.allows(now):
            seconds = breaker.waiting_time(now)
            raise Overloaded(
                f"{place} has failed {breaker.failures} times in a row and is left alone "
                f"for {seconds:.0f} more seconds.",
                code="circuit_open",
                retry_after=seconds,
            )
        if breaker.paused_until is not None:
            self._breakers[place] = breaker.trying(now)

    def record(self, url: str, outcome: ProviderError | None, now: float) -> None:
        """Remember how a request ended."""
        if outcome is None and not self._breakers:
            return
        place = urlsplit(url).netloc
        breaker = self._breakers.get(place, self._first)
        after = breaker.after(outcome, now)
        if after.failures:
            self._breakers[place] = after
        else:
            self._breakers.pop(place, None)  # only the ailing are remembered
