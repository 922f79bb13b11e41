"""Everything that changes on a page, numbered, so that every page changes in the same way.

Rules:
1. An entry is a few changes that are applied together. Numbers begin at 1 and have no gaps.
2. The newest entries are kept. Who has missed older ones is told to load the page anew: ``after`` gives None.
3. A number of another life of the server means nothing here: the ``epoch`` tells one life from another.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

#: How much is kept of what pages may have missed.
MOST_ENTRIES: Final = 2_000
MOST_BYTES: Final = 3_000_000

#: Seconds of silence after which a sign of life is sent.
SILENCE: Final = 15.0

Change = dict[str, Any]
_LOAD_ANEW: Final = b'data: [{"op":"reset"}]\n\n'


class OpLog:
    """The changes of one conversation's page."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(4)
        self.last = 0
        self.readers = 0
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._closed = False
        self._news = asyncio.Event()

    @property
    def position(self) -> str:
        """Where a page stands that has seen everything."""
        return f"{self.epoch}-{self.last}"

    def publish(self, *changes: Change) -> None:
        """Tell all pages."""
        if not changes:
            return
        self.last += 1
        data = msgspec.json.encode(changes)
        entry = b"id: %s-%d\ndata: %s\n\n" % (self.epoch.encode(), self.last, data)
        self._kept.append(entry)
        self._size += len(entry)
        while len(self._kept) > MOST_ENTRIES or self._size > MOST_BYTES:
            self._size -= len(self._kept.popleft())
        self._wake()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()

    def after(self, number: int) -> list[bytes] | None:
        """The entries behind a number; None where they are not all there any more."""
        missed = self.last - number
        if missed < 0 or missed > len(self._kept):
            return None
        return [self._kept[at] for at in range(len(self._kept) - missed, len(self._kept))]

    async def stream(self, position: str) -> AsyncGenerator[bytes]:
        """Everything behind a position, now and from now on, as server-sent events."""
        number = self._number(position)
        self.readers += 1
        try:
            yield b"retry: 1000\n\n"
            while True:
                entries = self.after(number)
                if entries is None:
                    yield _LOAD_ANEW
                    return
                if entries:
                    number = self.last
                    yield b"".join(entries)
                    continue
                if self._closed:
                    return
                news = self._news
                try:
                    await asyncio.wait_for(news.wait(), SILENCE)
                except TimeoutError:
                    yield b": \n\n"
        finally:
            self.readers -= 1

    def _number(self, position: str) -> int:
        epoch, _, number = position.partition("-")
        return int(number) if epoch == self.epoch and number.isdecimal() else self.last + 1

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
