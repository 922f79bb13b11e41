"""The clients of a soak: threads and tasks, each with one request at a time."""

import asyncio
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from multi_llm_chat.agent.providers import LLMProvider
from multi_llm_chat.errors import (
    ConnectionFailed,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamBroken,
)
from multi_llm_chat.events import TextDelta

#: The errors that a faulty server causes. Any other error is our fault.
EXPECTED = (ConnectionFailed, Overloaded, RateLimited, StreamBroken)

#: The longest time, in seconds, after which a reply is stopped or cancelled.
_SOON = 0.05

TOOLS: list[dict[str, Any]] = [
    {
        "name": "get_weather",
        "description": "The weather in a city.",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]


class Tally:
    """How all requests ended, and the faults."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.faults: list[str] = []
        self._lock = threading.Lock()

    def count(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1


class Worker:
    """Sends one request after the other until the time is over."""

    def __init__(
        self,
        name: str,
        providers: Sequence[LLMProvider],
        tally: Tally,
        *,
        seed: int,
        deadline: float,
    ) -> None:
        self.since = time.monotonic()
        self._name = name
        self._providers = providers
        self._tally = tally
        self._deadline = deadline
        self._chance = random.Random(f"{seed} {name}")
        self._number = 0

    def run(self) -> None:
        """Send requests in this thread."""
        while self._goes_on():
            try:
                outcome = self._ask()
            except ProviderError as failure:
                outcome = self._failed(failure)
            self._tally.count(outcome)
        self.since = float("inf")

    async def run_async(self) -> None:
        """Send requests in this task."""
        while self._goes_on():
            try:
                outcome = await self._ask_async()
            except ProviderError as failure:
                outcome = self._failed(failure)
            except TimeoutError:
                outcome = "cancelled"
            self._tally.count(outcome)
        self.since = float("inf")

    def _goes_on(self) -> bool:
        self.since = time.monotonic()
        self._number += 1
        return self.since < self._deadline

    @property
    def _mark(self) -> str:
        """Return the text of a request, which the reply repeats many times."""
        return f"{self._name} {self._number}; "

    def _ask(self) -> str:
        provider = self._chance.choice(self._providers)
        history = [{"role": "user", "content": self._mark}]
        way = self._chance.randrange(10)
        if way < 2:
            self._judge(provider.complete(history, tools=TOOLS).text)
            return "answered"
        with provider.stream(history, tools=TOOLS) as stream:
            stopping = threading.Timer(self._chance.uniform(0, _SOON), stream.stop)
            if way == 2:
                stopping.start()
            most = self._chance.randint(1, 20) if way == 3 else None
            said: list[str] = []
            try:
                for number, event in enumerate(stream):
                    if isinstance(event, TextDelta):
                        said.append(event.text)
                    if number == most:
                        return "left early"
            finally:
                self._judge("".join(said))
                if way == 2:
                    stopping.cancel()
                    stopping.join()
        return "answered"

    async def _ask_async(self) -> str:
        provider = self._chance.choice(self._providers)
        history = [{"role": "user", "content": self._mark}]
        way = self._chance.randrange(10)
        if way < 2:
            self._judge((await provider.acomplete(history, tools=TOOLS)).text)
            return "answered"
        async with (
            asyncio.timeout(self._chance.uniform(0, _SOON) if way == 2 else None),
            provider.astream(history, tools=TOOLS) as stream,
        ):
            most = self._chance.randint(1, 20) if way == 3 else None
            said: list[str] = []
            number = 0
            try:
                async for event in stream:
                    if isinstance(event, TextDelta):
                        said.append(event.text)
                    if number == most:
                        return "left early"
                    number += 1
            finally:
                self._judge("".join(said))
        return "answered"

    def _judge(self, said: str) -> None:
        """Check that every word of the reply belongs to this worker, and to this request."""
        repeated = self._mark * (len(said) // len(self._mark) + 1)
        if not repeated.startswith(said):
            self._tally.faults.append(f"{self._mark!r} received {said!r}")

    def _failed(self, failure: ProviderError) -> str:
        # Some servers describe their errors only as text; these have no class of their own.
        if not isinstance(failure, EXPECTED) and type(failure) is not ProviderError:
            self._tally.faults.append(f"{self._mark!r} got {failure!r}")
        return type(failure).__name__
