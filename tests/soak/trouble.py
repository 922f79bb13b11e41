"""The server's faults in a soak: random, but determined by the seed alone."""

import random

from multi_llm_chat.protocol.providers import ROWS
from multi_llm_chat.testing.simulator import (
    QUIRKS,
    Call,
    Disconnect,
    Drop,
    ErrorInStream,
    Garbage,
    Hang,
    KeepAlive,
    Quirk,
    RecordedRequest,
    Reply,
    Say,
    Slow,
    Status,
    has_effect,
)
from multi_llm_chat.testing.simulator.faults import Fault

#: The percentage of requests that get an answer without any fault.
_HEALTHY = 40

_QUIRKS = [Quirk(rule, variant) for rule, variants in QUIRKS.items() for variant in variants]


class Trouble:
    """A reply rule of the simulator; it is called only in the server's thread."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def __call__(self, request: RecordedRequest) -> Reply:
        """Repeat the question many times, so that a mix-up of two replies is visible; then add the fault."""
        say = Say(
            text=request.conversation.question * self._chance.randint(1, 30),
            calls=[
                Call("get_weather", {"city": f"City {number}"})
                for number in range(self._chance.choice((0, 0, 1, 3)))
            ],
            delta_size=self._chance.choice((1, 8, 64)),
        )
        if self._chance.randrange(100) < _HEALTHY:
            return say
        if self._chance.randrange(4) == 0:
            return self._refusal()
        return say.having(faults=[self._fault(ROWS[request.provider].dialect)])

    def _refusal(self) -> Reply:
        return self._chance.choice(
            (
                Status(429, headers={"retry-after": "0"}),
                Status(429, retry_delay=0.01),
                Status(500),
                Status(529),
                Drop(),
                Drop(reset=True),
                Garbage(),
                Garbage(status=502),
            )
        )

    def _fault(self, dialect: str) -> Fault:
        frames = self._chance.randint(0, 12)
        faults: tuple[Fault, ...] = (
            Disconnect(after_frames=frames),
            Disconnect(after_frames=frames, reset=True),
            Disconnect(after_bytes=self._chance.randint(1, 2000)),
            ErrorInStream(after_frames=frames, status=self._chance.choice((429, 500, 503, 529))),
            Slow(self._chance.choice((0.001, 0.01))),
            Slow(0.0, first=0.2),
            Garbage(after_frames=frames),
            Hang(after_frames=frames),
            KeepAlive(),
            *[quirk for quirk in _QUIRKS if has_effect(quirk, dialect)],
        )
        # Half of the time one of the nine faults, half of the time a quirk.
        return self._chance.choice(faults[:9] if self._chance.random() < 0.5 else faults[9:])
