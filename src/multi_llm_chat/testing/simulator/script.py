"""What is answered to which request.

Rules:
1. A list is used up one step for each accepted request, in the order of the requests; a mapping
   has one list for each provider.
2. A rule is a function of the request, asked each time.
3. A request that finds no step left is refused with a text that says so, and nothing breaks.
4. Only requests that the provider would accept use up a step.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from multi_llm_chat.errors import UsageError
from multi_llm_chat.testing.simulator.faults import Instead
from multi_llm_chat.testing.simulator.request_log import RecordedRequest
from multi_llm_chat.testing.simulator.says import Call, Say

#: One answer.
Reply: TypeAlias = Say | Instead

#: A function that decides what to answer.
Rule: TypeAlias = Callable[[RecordedRequest], Reply | None]

#: Whatever a script can be made of.
ScriptLike: TypeAlias = (
    "Script | Rule | Sequence[Reply | Rule] | Mapping[str, Sequence[Reply | Rule]]"
)


class Script:
    """Answers, in order or by rule; safe to use from any thread."""

    def __init__(
        self, steps: "Rule | Sequence[Reply | Rule] | Mapping[str, Sequence[Reply | Rule]]" = ()
    ) -> None:
        self._lock = threading.Lock()
        self._rule = steps if callable(steps) else None
        self._common: deque[Reply | Rule] = deque()
        self._own: dict[str, deque[Reply | Rule]] = {}
        if isinstance(steps, Mapping):
            lists = cast("Mapping[str, Sequence[Reply | Rule]]", steps)
            self._own = {name: deque(map(_step, own)) for name, own in lists.items()}
        elif isinstance(steps, str):
            self._common = deque([Say(steps)])
        elif not callable(steps):
            self._common = deque(map(_step, steps))

    @classmethod
    def of(cls, steps: ScriptLike) -> "Script":
        """A script of anything that can be one."""
        return steps if isinstance(steps, Script) else cls(steps)

    def add(self, *replies: "Reply | Rule", provider: str | None = None) -> None:
        """Add steps at the end, for all providers or for one."""
        with self._lock:
            queue = self._common
            if provider is not None:
                queue = self._own.setdefault(provider, deque())
            queue.extend(map(_step, replies))

    def __len__(self) -> int:
        with self._lock:
            return len(self._common) + sum(map(len, self._own.values()))

    def next_reply(self, request: RecordedRequest) -> Reply | None:
        """The answer to a request; None where the script has no more."""
        step = self._take(request.provider)
        given = step(request) if callable(step) else step
        return None if given is None else cast("Reply", _step(given))

    def _take(self, provider: str) -> "Reply | Rule | None":
        with self._lock:
            for queue in (self._own.get(provider), self._common):
                if queue:
                    return queue.popleft()
        return self._rule


def _step(given: object) -> Reply | Rule:
    """One step of a script: a text alone is a reply, and so is a call.

    Raises:
        UsageError: It is no reply.
    """
    if isinstance(given, str):
        return Say(given)
    if isinstance(given, Call):
        return Say(calls=[given])
    if isinstance(given, Say | Instead) or callable(given):
        return cast("Reply | Rule", given)
    raise UsageError(
        f"A script has Say(…), Call(…), Status(…) or functions of a request, not {type(given).__name__}"
    )


def always(reply: Reply) -> Rule:
    """A rule that gives the same answer each time."""
    return lambda _request: reply


def echo(request: RecordedRequest) -> Reply:
    """A rule that repeats what the user said."""
    return Say(request.conversation.question)
