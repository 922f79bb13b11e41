"""The numbered changes of a conversation's page, which every open page applies in the same order.

Rules:
1. An entry is a few changes that are applied together. Numbers start at 1 and have no gaps.
2. A change holds views, not HTML: it is rendered once for each language that a reader uses.
3. Only the newest entries are kept. For a reader that has missed older ones ``after`` returns None, and the page has to reload.
4. Numbers of an earlier server process are invalid: a position starts with the ``epoch`` of its process.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from multi_llm_chat.web.templating import HtmlRenderer
from multi_llm_chat.web.views import Renderable

#: How many entries, and how many bytes of them, are kept for readers that reconnect.
MOST_ENTRIES: Final = 2_000
MOST_BYTES: Final = 3_000_000

#: Seconds without an entry after which a reader gets a comment, which keeps its connection open.
KEEPALIVE_SECONDS: Final = 15.0

Change = dict[str, Any]
_RESET: Final = b'data: [{"op":"reset"}]\n\n'
_ANY_LANGUAGE: Final = ""


class _Entry:
    """A few changes, encoded once for each language."""

    def __init__(self, position: str, changes: tuple[Change, ...]) -> None:
        self._position = position
        self._changes = changes
        self._texts: dict[str, bytes] = {}
        self._has_views = any(
            isinstance(value, Struct) for each in changes for value in each.values()
        )

    @property
    def size(self) -> int:
        return sum(map(len, self._texts.values()))

    def text(self, renderer: HtmlRenderer) -> bytes:
        language = renderer.translations.language if self._has_views else _ANY_LANGUAGE
        found = self._texts.get(language)
        if found is None:
            data = msgspec.json.encode([_render(change, renderer) for change in self._changes])
            found = b"id: %s\ndata: %s\n\n" % (self._position.encode(), data)
            self._texts[language] = found
        return found


def _render(change: Change, renderer: HtmlRenderer) -> Change:
    return {
        name: renderer.html(cast("Renderable", value)) if isinstance(value, Struct) else value
        for name, value in change.items()
    }


class OpLog:
    """The changes of one conversation's page."""

    def __init__(
        self,
        on_reader: Callable[[], object] = lambda: None,
        keepalive_seconds: float = KEEPALIVE_SECONDS,
    ) -> None:
        self.epoch = secrets.token_hex(4)
        self.last = 0
        self.readers = 0
        self._on_reader = on_reader
        self._keepalive_seconds = keepalive_seconds
        self._entries: deque[_Entry] = deque()
        self._size = 0
        self._is_closed = False
        self._published = asyncio.Event()
        self._keepalive: asyncio.TimerHandle | None = None

    @property
    def position(self) -> str:
        """The position of a page that has seen all entries."""
        return f"{self.epoch}-{self.last}"

    def publish(self, *changes: Change) -> None:
        """Append an entry, and wake all readers."""
        if not changes:
            return
        self.last += 1
        self._entries.append(_Entry(self.position, changes))
        while len(self._entries) > MOST_ENTRIES or self._size > MOST_BYTES:
            self._size -= self._entries.popleft().size
        self._wake_readers()

    def close(self) -> None:
        """End all streams."""
        self._is_closed = True
        self._wake_readers()

    def after(self, number: int, renderer: HtmlRenderer) -> list[bytes] | None:
        """The entries after a number; None if some of them are not kept any more."""
        missed = self.last - number
        if missed < 0 or missed > len(self._entries):
            return None
        return [
            self._text(self._entries[at], renderer)
            for at in range(len(self._entries) - missed, len(self._entries))
        ]

    async def stream(self, position: str, renderer: HtmlRenderer) -> AsyncGenerator[bytes]:
        """All entries after a position, including future ones, as server-sent events."""
        number = self._number(position)
        self.readers += 1
        self._on_reader()
        self._keep_alive()
        was_woken = False
        try:
            yield b"retry: 1000\n\n"
            while True:
                entries = self.after(number, renderer)
                if entries is None:
                    yield _RESET
                    return
                if entries:
                    number = self.last
                    was_woken = False
                    yield b"".join(entries)
                    continue
                if self._is_closed:
                    return
                if was_woken:
                    was_woken = False
                    yield b": \n\n"
                    continue
                await self._published.wait()
                was_woken = True
        finally:
            self.readers -= 1

    def _keep_alive(self) -> None:
        """Wake all readers after a while; a reader without new entries gets a comment.

        One timer serves all readers; a timeout around each wait costs more than the wait.
        """
        if self._keepalive is None and self.readers and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._keepalive = loop.call_later(self._keepalive_seconds, self._wake_silent)

    def _wake_silent(self) -> None:
        self._keepalive = None
        self._wake_readers()
        self._keep_alive()

    def _text(self, entry: _Entry, renderer: HtmlRenderer) -> bytes:
        before = entry.size
        text = entry.text(renderer)
        self._size += entry.size - before
        return text

    def _number(self, position: str) -> int:
        epoch, _, number = position.partition("-")
        return int(number) if epoch == self.epoch and number.isdecimal() else self.last + 1

    def _wake_readers(self) -> None:
        self._published.set()
        self._published = asyncio.Event()
