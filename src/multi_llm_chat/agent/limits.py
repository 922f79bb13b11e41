"""The limits of a run."""

from msgspec import Struct


class ThinkingBudget(Struct, frozen=True):
    """The limits of a model's thinking over one run.

    Thinking is switched off after ``calls`` requests with thinking, after ``tokens`` thinking tokens in all, or when two successive
    thoughts share more than ``overlap`` of their words.
    """

    calls: int = 8
    tokens_a_call: int = 20_000
    tokens: int = 100_000
    overlap: float = 0.7


class LoopLimits(Struct, frozen=True):
    """Limits of one run.

    At ``iterations`` or ``tokens`` the run sends one last request, without tools. ``seconds`` ends the run immediately, also while the
    model streams or a tool runs. ``repeats`` is how often the same call may have the same result before the last request. ``cost`` is the
    most that the run may spend, in US dollars: a request whose estimate would exceed it is not sent, and the run fails with
    ``LimitReached``. ``thinking`` limits the reasoning over all requests of the run.
    """

    iterations: int = 10
    seconds: float | None = None
    tokens: int | None = None
    repeats: int = 3
    cost: float | None = None
    thinking: ThinkingBudget = ThinkingBudget()

    def seconds_left(self, elapsed: float) -> float | None:
        """The seconds that a run has left; None without a limit."""
        return None if self.seconds is None else max(self.seconds - elapsed, 0.0)
