"""Everything that changes on a page, numbered, so that every page changes in the same way.

Rules:
1. An entry is a few changes that are applied together. Numbers begin at 1 and have no gaps.
2. A change holds views, not their HTML: each reader has them drawn in their own language, once for all who share it.
3. The newest entries are kept. Who has missed older ones is told to load the page anew: ``after`` gives None.
4. A number of another life of the server means nothing here: the ``epoch`` tells one life from another.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from multi_llm_chat.web.templating import Drawing
from multi_llm_chat.web.views import Drawable

#: How much is kept of what pages may have missed.
MOST_ENTRIES: Final = 2_000
MOST_BYTES: Final = 3_000_000

#: Seconds of silence after which a sign of life is sent.
SILENCE: Final = 15.0

Change = dict[str, Any]
_LOAD_ANEW: Final = b'data: [{"op":"reset"}]\n\n'
_EVERY_LANGUAGE: Final = ""


class _Entry:
    """A few changes, as text in each language that was asked for."""

    def __init__(self, position: str, changes: tuple[Change, ...]) -> None:
        self._position = position
        self._changes = changes
        self._texts: dict[str, bytes] = {}
        self._is_drawn = any(
            isinstance(value, Struct) for each in changes for value in each.values()
        )

    @property
    def size(self) -> int:
        return sum(map(len, self._texts.values()))

    def text(self, drawing: Drawing) -> bytes:
        language = drawing.words.language if self._is_drawn else _EVERY_LANGUAGE
        found = self._texts.get(language)
        if found is None:
            data = msgspec.json.encode([_drawn(change, drawing) for change in self._changes])
            found = b"id: %s\ndata: %s\n\n" % (self._position.encode(), data)
            self._texts[language] = found
        return found


def _drawn(change: Change, drawing: Drawing) -> Change:
    return {
        name: drawing.html(cast("Drawable", value)) if isinstance(value, Struct) else value
        for name, value in change.items()
    }


class OpLog:
    """The changes of one conversation's page."""

    def __init__(self, on_reader: Callable[[], object] = lambda: None) -> None:
        self.epoch = secrets.token_hex(4)
        self.last = 0
        self.readers = 0
        self._on_reader = on_reader
        self._kept: deque[_Entry] = deque()
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
        self._kept.append(_Entry(self.position, changes))
        while len(self._kept) > MOST_ENTRIES or self._size > MOST_BYTES:
            self._size -= self._kept.popleft().size
        self._wake()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()

    def after(self, number: int, drawing: Drawing) -> list[bytes] | None:
        """The entries behind a number; None where they are not all there any more."""
        missed = self.last - number
        if missed < 0 or missed > len(self._kept):
            return None
        return [
            self._text(self._kept[at], drawing)
            for at in range(len(self._kept) - missed, len(self._kept))
        ]

    async def stream(self, position: str, drawing: Drawing) -> AsyncGenerator[bytes]:
        """Everything behind a position, now and from now on, as server-sent events."""
        number = self._number(position)
        self.readers += 1
        self._on_reader()
        try:
            yield b"retry: 1000\n\n"
            while True:
                entries = self.after(number, drawing)
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

    def _text(self, entry: _Entry, drawing: Drawing) -> bytes:
        before = entry.size
        text = entry.text(drawing)
        self._size += entry.size - before
        return text

    def _number(self, position: str) -> int:
        epoch, _, number = position.partition("-")
        return int(number) if epoch == self.epoch and number.isdecimal() else self.last + 1

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
