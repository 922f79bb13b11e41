"""The time and the new ids of one operation.

Rules:
1. An operation that is tried again gets the same time and the same ids as before: if its first
   try has landed after all, it finds what it wrote and writes it no second time.
2. Ids are UUIDs of version 7: their text sorts by time, and nobody can guess another's.
"""

import os
import time
from uuid import UUID

_COUNTER_BITS = 12
_RANDOM_BITS = 62


class Occasion:
    """One call of an operation, however often it is tried."""

    def __init__(self) -> None:
        self.now_ms = time.time_ns() // 1_000_000
        self._random = int.from_bytes(os.urandom(8)) >> 2
        self._given = 0

    def begin_again(self) -> None:
        """Start over: the next try gets the same ids in the same order."""
        self._given = 0

    def new_id(self) -> str:
        """The next id."""
        number = self._given
        self._given += 1
        # Beyond 4,096 ids the counter runs into the time, and the order is still kept.
        stamp = (self.now_ms << _COUNTER_BITS) + number
        milliseconds, counter = stamp >> _COUNTER_BITS, stamp & 0xFFF
        random = (self._random + number) % (1 << _RANDOM_BITS)
        return str(UUID(int=milliseconds << 80 | 0x7 << 76 | counter << 64 | 0x2 << 62 | random))
